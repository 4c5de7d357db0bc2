"""Passes that are dealt to several GPUs, and a run that goes on where it was cut off."""

import json
import shutil
import sys

import made
import pytest
from front_door import PYTHON, ROOT, declare, program, reproduce

COMMIT = {"REPROLAB_COMMIT": "a" * 40, "REPROLAB_DIRTY": "0"}
# Writes a result of the command that it was given, on the GPU that it was given, and says so. Two
# that run beside each other each wait until the other has begun.
BENCH = f"""#!/bin/sh
exec "{sys.executable}" - "$0" "$@" <<'END'
import json, os, pathlib, sys, time
argv = sys.argv[1:]
name, output = argv[argv.index("--pass") + 1], pathlib.Path(argv[argv.index("--output") + 1])
gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "any")
began = output.parent.parent / "began"
with began.open("a") as file:
    file.write(f"{{name}} {{gpu}} {{len(os.sched_getaffinity(0))}}\\n")
beside = int(os.environ.get("BESIDE", "1"))
while len(began.read_text().splitlines()) < beside:
    time.sleep(0.01)
found = json.loads(pathlib.Path("template.json").read_text())
found["pass"], found["provenance"]["argv"] = name, argv
if name in os.environ.get("WRONG", "").split():
    found["records"][0].update(outcome="mismatch", metrics=[], reason="1 of 8 weights differ")
new = output.with_suffix(".new")
output.parent.mkdir(exist_ok=True)
new.write_text(json.dumps(found))
new.rename(output)
print("measured", name, flush=True)
sys.exit(int(name in os.environ.get("WRONG", "").split()))
END
"""


@pytest.fixture
def lab(checkout):
    """Three passes of a stand-in that measures nothing, and a driver that knows three GPUs."""
    for file in (ROOT / "data").glob("*.json"):
        shutil.copy(file, checkout / "data")
    declare(checkout, one="bench --x", two="bench --y", three="bench --z")
    program(checkout / "build/cpu/bin/bench", BENCH)
    program(checkout / "scripts/python", PYTHON)
    smi = 'case "$*" in *=2*) echo "Tesla T4";; *query-gpu=name*) echo "NVIDIA H200";; esac'
    program(checkout / "nvidia-smi", f"#!/bin/sh\n{smi}\n")
    row = made.record(made.forward_pass("qwen3-32b", 2), "branch_tree", [10.0, 11.0, 12.0])
    origin = made.provenance(commit="a" * 40)
    file = made.results("mine", "one", [row], provenance=origin)
    (checkout / "template.json").write_text(json.dumps(file))
    (checkout / "results").mkdir()
    return checkout


def measure(lab, **given):
    path = f"{lab}:/usr/bin:/bin"
    return reproduce(lab, **{"PATH": path} | COMMIT | given)


def began(lab):
    file = lab / "results/began"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return [line.split()[:2] for line in lines]


def test_passes_are_dealt_and_lie_in_one_folder(lab):
    done = measure(lab, GPUS="0,1", BESIDE="2")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third = began(lab)
    assert sorted([first, second]) in ([["one", "0"], ["two", "1"]], [["one", "1"], ["two", "0"]])
    assert third[0] == "three" and third[1] in "01"
    names = {file.name for file in (lab / "results/mine").iterdir()}
    assert names == {"one.json", "two.json", "three.json"}
    gpu = dict([first, second, third])
    for name in ("one", "two", "three"):
        assert f"{name} on GPU {gpu[name]}: measured {name}\n" in done.stdout


def test_gpus_are_those_that_are_left_to_us(lab):
    assert measure(lab, GPUS="1", CUDA_VISIBLE_DEVICES="7,GPU-5").returncode == 0
    assert began(lab) == [[name, "GPU-5"] for name in ("one", "two", "three")]
    assert measure(lab).returncode == 0
    assert {gpu for _, gpu in began(lab)} == {"any"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"GPUS": "x"}, "GPUS: give numbers such as 0,1, not 'x'"),
        ({"GPUS": "1", "CUDA_VISIBLE_DEVICES": "3"}, "GPUS: there are 1, from 0, but 1 is given"),
        (
            {"GPUS": "0,2"},
            "GPUS: 0 is NVIDIA H200, but 2 is Tesla T4; a run is of GPUs of one name",
        ),
    ],
)
def test_gpus_that_cannot_be_are_one_line(lab, given, said):
    for dry in ("", "1"):
        program(lab / "build/cpu/bin/bench", "#!/bin/sh\n" if dry else BENCH)
        done = measure(lab, **given, DRY_RUN=dry)
        assert (done.returncode, done.stderr) == (2, f"error: {said}\n")
    assert began(lab) == []


def test_a_dry_run_says_that_passes_are_dealt(lab):
    program(lab / "build/cpu/bin/bench", "#!/bin/sh\n")
    done = measure(lab, GPUS="0,1", DRY_RUN="1")
    assert done.stdout.endswith("GPUs 0, 1: whichever is free takes the next.\n")


def test_a_wrong_output_is_told_and_the_others_go_on(lab):
    done = measure(lab, GPUS="0,1", WRONG="one")
    assert (done.returncode, len(began(lab))) == (1, 3)


def test_after_a_program_that_cannot_run_nothing_is_begun(lab):
    program(lab / "build/cpu/bin/bench", "#!/bin/sh\necho x >>began\nexit 2\n")
    assert measure(lab, GPUS="0").returncode == 2
    assert (lab / "began").read_text() == "x\n"


def test_a_run_that_was_cut_off_goes_on(lab):
    assert measure(lab, RESUME="1").returncode == 0
    assert len(began(lab)) == 3
    (lab / "results/mine/two.json").unlink()
    done = measure(lab, RESUME="1")
    assert [name for name, _ in began(lab)] == ["two"]
    assert "one: was measured before: results/mine/one.json\n" in done.stdout
    assert measure(lab).returncode == 0  # without it, all are measured
    assert len(began(lab)) == 3


def test_only_the_same_measurement_is_taken_up_again(lab):
    measure(lab)
    began(lab)
    for given in (
        {"CLOCKS": "1410"},  # another command
        {"REPROLAB_COMMIT": "b" * 40},
        {"REPROLAB_DIRTY": "1"},
        {"CUDA_VISIBLE_DEVICES": "2"},  # a T4
    ):
        measure(lab, RESUME="1", **given)
        assert len(began(lab)) == 3, given
        measure(lab)
        began(lab)
    (lab / "results/mine/one.json").write_text("{")
    measure(lab, RESUME="1")
    assert [name for name, _ in began(lab)] == ["one"]


def test_a_wrong_output_that_is_there_is_told_again(lab):
    assert measure(lab, WRONG="two").returncode == 1
    began(lab)
    assert measure(lab, RESUME="1").returncode == 1
    assert began(lab) == []
