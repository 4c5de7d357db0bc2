"""Passes that are divided among several GPUs, and interrupted runs that continue."""

import json
import os
import re
import shutil
import signal
import sys

import pytest
from make_targets import MEASURED, ROOT, began, declare, program, reproduce, run, start, wait_for

COMMIT = {"REPROLAB_COMMIT": "a" * 40, "REPROLAB_DIRTY": "0"}


def measure(lab, **given):
    path = f"{lab}:/usr/bin:/bin"
    return reproduce(lab, **{"PATH": path} | COMMIT | given)


def test_passes_are_divided_and_written_to_one_folder(lab):
    """A wrong output is reported, and the others continue."""
    done = measure(lab, GPUS="0,1", BESIDE="2", WRONG="one", VERBOSE="1")
    assert (done.returncode, done.stderr) == (1, "")
    first, second, third = began(lab / "results")
    assert sorted([first, second]) in ([["one", "0"], ["two", "1"]], [["one", "1"], ["two", "0"]])
    assert third[0] == "three" and third[1] in "01"
    names = {file.name for file in (lab / "results/mine").iterdir()}
    assert names == {"one.json", "two.json", "three.json"}
    gpu = dict([first, second, third])
    for name in ("one", "two", "three"):
        assert f"{name} on GPU {gpu[name]}: measured {name}\n" in done.stdout


def test_gpus_are_those_of_cuda_visible_devices(lab):
    assert measure(lab, GPUS="1", CUDA_VISIBLE_DEVICES="7,GPU-5").returncode == 0
    assert began(lab / "results") == [[name, "GPU-5"] for name in ("one", "two", "three")]
    assert measure(lab).returncode == 0
    assert {gpu for _, gpu in began(lab / "results")} == {"any"}


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
def test_invalid_gpus_are_one_line(lab, given, said):
    done = measure(lab, **given)
    assert (done.returncode, done.stderr) == (2, f"error: {said}\n")
    assert began(lab / "results") == []


def test_a_dry_run_says_that_passes_are_divided(lab):
    program(lab / "build/cpu/bin/bench", "#!/bin/sh\n")
    done = measure(lab, GPUS="0,1", DRY_RUN="1")
    assert done.stdout.endswith("GPUs 0, 1: whichever is free takes the next.\n")


def test_no_pass_starts_after_a_program_that_cannot_run(lab):
    program(lab / "build/cpu/bin/bench", "#!/bin/sh\necho x >>began\nexit 2\n")
    assert measure(lab, GPUS="0").returncode == 2
    assert (lab / "began").read_text() == "x\n"


def test_an_interrupted_run_continues(lab):
    """With passes that the same command measured of the same sources, on a GPU of the same name."""
    assert measure(lab, RESUME="1", WRONG="three").returncode == 1
    assert len(began(lab / "results")) == 3
    (lab / "results/mine/one.json").write_text("{")
    (lab / "results/mine/two.json").unlink()
    done = measure(lab, RESUME="1")
    assert [name for name, _ in began(lab / "results")] == ["one", "two"]
    assert "three: was measured before: results/mine/three.json\n" in done.stdout
    assert done.returncode == 1  # an existing wrong output is reported again
    declare(lab, one="bench --x")
    shutil.copytree(lab / "results", lab / "kept")
    others = (
        {"CLOCKS": "1410"},
        {"REPROLAB_COMMIT": "b" * 40},
        {"CUDA_VISIBLE_DEVICES": "2"},  # a T4
        {"RESUME": ""},
    )
    for given in others:
        measure(lab, **{"RESUME": "1"} | given)
        assert len(began(lab / "results")) == 1, given
        shutil.copytree(lab / "kept", lab / "results", dirs_exist_ok=True)


def test_ctrl_c_ends_the_passes_on_all_gpus(lab):
    for name in ("one", "two"):
        (lab / f"hang-{name}").touch()
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "MEASURE": "gpu", "GPUS": "0,1"}
    command = [sys.executable, "-m", "experiments", "reproduce", "mine"]
    process = start(lab, *command, **where | COMMIT)
    file = lab / "results/began"
    wait_for(lambda: file.exists() and len(file.read_text().splitlines()) == 2)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not list((lab / "results").glob("mine/*.json"))


def test_the_documented_tasks_of_a_job_array_are_merged(lab):
    """As Slurm runs them; a failed one does not hide the others."""
    text = (ROOT / "docs/many-gpus.md").read_text()
    (script,) = re.findall(r"^```bash\n(#!/bin/bash\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    (merge,) = re.findall("--wrap '(.*)'", text)
    models = ("gemma-2-27b", "qwen3-32b")
    tasks = " ".join(f"'mine MODEL={model}'" for model in models)
    script = re.sub(r"^tasks=\(.*\)$", f"tasks=({tasks} nothing)", script, flags=re.MULTILINE)
    (lab / "my-run.sbatch").write_text(script)
    declare(lab, takes=["MODEL"], one="bench --x")
    for name in ("claims", "reprolab_nf4"):
        shutil.copytree(ROOT / name, lab / name, ignore=shutil.ignore_patterns("tests"))
    program(lab / "build/all-archs/bin/bench", MEASURED)
    for number, status in enumerate((0, 0, 2)):
        given = COMMIT | {"SLURM_ARRAY_TASK_ID": str(number)}
        assert run(lab, "bash", "my-run.sbatch", **given).returncode == status
    assert run(lab, "bash", "-c", merge, **COMMIT).returncode == 0
    merged = json.loads((lab / "my-run/merged/nvidia-h200/mine/one.json").read_text())
    assert [row["problem"]["model"] for row in merged["records"]] == list(models)
