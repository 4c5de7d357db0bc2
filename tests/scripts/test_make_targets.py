"""`make`: what reaches the programs, and wrong usage in one line."""

import re
from itertools import pairwise

import pytest
from make_targets import ECHO, ROOT, make, printed, program, run

HANDED_ON = {
    "verify FILE=x": "-- x",
    "verify FILE=x DRY_RUN=no KERNEL=k|l": "--kernel=k|l -- x",
    "verify FILE=x DRY_RUN=1 PEER=y": "--peer=y --dry-run -- x",
    "bench KERNEL=k METRICS=m CLOCKS=max": "--kernel=k --clocks=max --instrument counters "
    "--metrics=m --output results/bench_counters.json -m plots bench "
    "--results results/bench_counters.json",
    "sass A=x B=y ARCH=90": "-m sass diff --a=x --b=y --arch=90",
    "sass KERNEL=k ARCH=90 FUNCTION=f": "-m sass show --kernel=k --arch=90 --function=f",
    "profile EXPERIMENT=x KERNEL=k LAUNCHES=2": "-m ncu --programs=build/gpu/bin "
    "--results=results/profile --experiment=x --kernel=k --launches=2",
    "compare A=x B=y RESULTS=mine VERBOSE=1": "-m reprolab.compare --a=x --b=y "
    "--output=mine/compare --verbose",
    "record GPU=h200": "-m reprolab.record --results=results --gpu=h200",
    "advise MODEL=m BATCH=2": "-m reprolab_nf4 advise --batch=2 -- m",
    "tune": "-m reprolab_nf4 tune --output=results/products.json",
    # The default folder may be missing before the first run; a wrong name is an error.
    "claims": "-m plots claims --results=data/recorded --output=results/claims",
    "claims RESULTS=typo": "-m plots claims --results=data/recorded --output=typo/claims "
    "--results=typo",
    "report RESULTS=x": "-m plots report --results=x",
    "render RESULTS=x": "-m plots render --results=x --output=x",
}


@pytest.mark.parametrize("words", HANDED_ON)
def test_user_input_reaches_the_program(checkout, words):
    """Of the environment nothing counts: a shell may export ARCH=x86_64."""
    exported = dict.fromkeys(("ARCH", "PRESET", "KERNEL", "RESULTS", "MODEL", "A", "DRY_RUN"), "z")
    done = run(checkout, "make", "PRESET=gpu", *words.split(), **exported)
    built = "built\n" * words.startswith(("advise", "tune"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == built + printed(HANDED_ON[words].split())


@pytest.mark.parametrize(("visible", "has_gpu"), [("", ""), ("-1", ""), ("0", None), (None, None)])
def test_a_hidden_gpu_is_none(checkout, visible, has_gpu):
    program(checkout / "scripts/build", '#!/bin/sh\necho "<$HAS_GPU><$CUDA_VISIBLE_DEVICES>"\n')
    given = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    said = make(checkout, "build", **given).stdout
    assert has_gpu is None or said == f"<{has_gpu}><{visible}>\n"
    assert make(checkout, "build", *[f"{k}={v}" for k, v in given.items()]).stdout == said


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        ("verify", "FILE=model.safetensors"),
        ("test PRESET=none", "PRESET: give one of cpu gpu all-archs asan."),
        ("clean DRY_RUN=1", "DRY_RUN: "),
        ("compare A=x", "A=results B=data/recorded/h200"),
        ("record", "GPU=a100-sxm4-80gb"),
        ("sass KERNEL=x", "KERNEL=name ARCH=90"),
        ("profile PRESET=gpu KERNEL=x", "EXPERIMENT=table2"),
        ("profile EXPERIMENT=x KERNEL=y", "nothing to profile: "),
        ("bench", "nothing to measure: "),
        ("advise MODEL=x", "nothing to measure: "),
        ("clean DRYRUN=1", "DRYRUN: no such variable ("),
        ("claims RESULTS=data/recorded/h200", "is a recorded run, which stays as it is"),
    ],
)
def test_wrong_usage_is_one_line(checkout, words, noun):
    (checkout / "data/recorded/h200").mkdir(parents=True)
    done = make(checkout, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert noun in done.stderr.splitlines()[0]


def test_a_failed_check_does_not_hide_others(checkout):
    program(checkout / "scripts/check_format.sh", "#!/bin/sh\necho unformatted\nexit 1\n")
    program(checkout / "scripts/python", f"{ECHO}exit 1\n")
    done = make(checkout, "check")
    failed = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    assert done.returncode == 2 and done.stdout.startswith("unformatted\n<-m>\n")
    assert failed[0] == "failed: scripts/check_format.sh" and len(failed) > 2
    for name in ("check_format.sh", "python"):
        program(checkout / "scripts" / name, "#!/bin/sh\n")
    assert make(checkout, "check").returncode == 0


@pytest.mark.parametrize("preset", ["cpu", "gpu"])
def test_a_dry_run_compiles_nothing(checkout, preset):
    program(checkout / "scripts/build", "#!/bin/sh\ntouch compiled\n")
    (checkout / "recorded/mine").mkdir(parents=True)
    (checkout / f"build/{preset}/bin/bench").unlink()
    dry = (f"PRESET={preset}", "DRY_RUN=1", "RECORDED=recorded")
    done = run(checkout, "make", "reproduce-mine", *dry)
    assert (done.returncode, done.stderr) == (0, "") and "one: bench --x" in done.stdout
    done = run(checkout, "make", "bench", "PRESET=gpu", "DRY_RUN=1")
    assert (done.returncode, done.stdout == "") == ((2, True) if preset == "gpu" else (0, False))
    assert not (checkout / "compiled").exists()


def test_the_tool_that_writes_locks_is_installed_with_hashes(checkout, tools):
    """As all other tools; pip is not called."""
    environment = """#!/bin/sh
[ "$1 $2" = "environment .ci/uv.txt" ] && mkdir -p "$3/bin" || exit 1
printf '#!/bin/sh\\necho uv "$@" >>uv.log\\n' >"$3/bin/uv" && chmod +x "$3/bin/uv"
"""
    program(checkout / "scripts/deps", environment)
    done = make(checkout, "lock", **tools(python3="exit 1", pip="exit 1"))
    assert (done.returncode, done.stderr) == (0, "")
    calls = (checkout / "uv.log").read_text().splitlines()
    assert calls and all("--generate-hashes" in call for call in calls)
    for lock in (call.split()[-1] for call in calls):
        lines = (ROOT / lock).read_text().splitlines()
        ends = [after for line, after in pairwise(lines) if "==" in line]
        assert ends and all("--hash=sha256:" in line for line in ends), lock
        pins = (ROOT / lock).with_suffix(".txt").read_text().splitlines()
        locked = {re.split(r"[ ;]", line)[0] for line in lines}
        assert {line for line in pins if line[:1] not in ("#", "")} <= locked, lock
