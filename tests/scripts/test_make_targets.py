"""`make`: what reaches the programs, wrong usage in one line, and what Python with PyTorch runs."""

import sys

import pytest
from make_targets import declare, make, printed, program, reproduce, run

HANDED_ON = {
    "verify FILE=x DRY_RUN=no KERNEL=k|l": "--kernel=k|l -- x",
    "verify FILE=x DRY_RUN=1 PEER=y": "--peer=y --dry-run -- x",
    "bench KERNEL=k METRICS=m CLOCKS=max": "--kernel=k --clocks=max --instrument counters "
    "--metrics=m --output results/bench_counters.json -m plots bench "
    "--results results/bench_counters.json",
    "profile EXPERIMENT=x KERNEL=k LAUNCHES=2": "-m ncu --programs=build/gpu/bin "
    "--results=results/profile --experiment=x --kernel=k --launches=2",
    "compare A=x B=y RESULTS=mine THRESHOLD=1": "-m reprolab.compare --a=x --b=y "
    "--output=mine/compare --threshold=1",
    "record GPU=h200": "-m reprolab.record --results=results --gpu=h200",
    "claims RESULTS=typo": "-m plots claims --results=data/recorded --output=typo/claims "
    "--results=typo",
}


@pytest.mark.parametrize("words", HANDED_ON)
def test_user_input_reaches_the_program(checkout, words):
    """Of the environment nothing counts: a shell may export ARCH=x86_64."""
    exported = dict.fromkeys(("ARCH", "PRESET", "KERNEL", "RESULTS", "MODEL", "A", "DRY_RUN"), "z")
    done = run(checkout, "make", "PRESET=gpu", *words.split(), **exported)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed(HANDED_ON[words].split())


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        ("verify", "FILE=model.safetensors"),
        ("test PRESET=none", "PRESET: give one of cpu gpu all-archs asan."),
        ("test PRESET=gpu KERNEL=none", "no kernel"),
        ("bench PROBLEM=28672x8192", "KERNEL and FAMILY select"),
        ("compare A=x", "A=results B=data/recorded/h200"),
        ("bench", "nothing to measure: "),
        ("clean DRYRUN=1", "DRYRUN: no such variable ("),
        ("claims RESULTS=data/recorded/h200", "stay as they are"),
        ("compare A=results B=results OUT=data/recorded/h200", "stay as they are"),
    ],
)
def test_wrong_usage_is_one_line(checkout, words, noun):
    (checkout / "data/recorded/h200").mkdir(parents=True)
    done = make(checkout, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert noun in done.stderr.splitlines()[0]


NAMES_IT = "build/end_to_end/python"


def test_a_pass_that_needs_torch_is_left_out_without_it(checkout):
    declare(checkout, one="python -m beside --x", also="torch = true")
    done = reproduce(checkout)
    assert "one: left out: " in done.stdout and "beside" not in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert make(checkout, NAMES_IT).returncode == 0
    words = "-m beside --x --output results/mine/one.json".split()
    assert reproduce(checkout, VERBOSE="1").stdout.startswith(printed(words))


@pytest.mark.parametrize(
    ("version", "gpu", "measure", "fault"),
    [
        ("5.18.0.dev0", True, "gpu", ""),
        ("5.2.1", True, "gpu", "transformers 5.2.1 < 5.17"),
        ("5.17.0", False, "gpu", "torch 5.17.0 finds no GPU"),
        ("5.17.0", False, "", ""),  # sufficient for tests
    ],
)
def test_an_installed_torch_is_used_or_the_reason_is_logged(
    checkout, real, tools, tmp_path, version, gpu, measure, fault
):
    real("deps")
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("accelerate", "bitsandbytes", "fastjsonschema", "numpy", "torch", "transformers"):
        (modules / f"{name}.py").write_text(f"__version__ = '{version}'\n")
    with (modules / "torch.py").open("a") as torch:
        torch.write(f"import types\ncuda = types.SimpleNamespace(is_available=lambda: {gpu})\n")
    refuses = 'case "$*" in *version_info*) exit 1;; esac'  # no environment is made
    with_modules = f'{refuses}; PYTHONPATH={modules} exec {sys.executable} "$@"'
    done = run(checkout, "scripts/deps", "torch", MEASURE=measure, **tools(python3=with_modules))
    assert (done.returncode == 0) is not bool(fault)
    log = (checkout / "build/deps.log").read_text()
    assert log.endswith(f": {fault}\n") if fault else log == ""
    assert (checkout / NAMES_IT).exists() is not bool(fault)


# Stands in for hatchling, which packs, and for auditwheel, which names the wheel by its real path.
PACKS = """#!/bin/bash
for last; do :; done
case $2 in
  hatchling) mkdir -p "$last" && echo "$VERSION" >"$last/reprolab_nf4-$VERSION-py3-none-any.whl" ;;
  auditwheel) mkdir -p "$5" && cp "$last" "$5/" ;;
esac
"""


def test_a_new_wheel_replaces_the_older_one(checkout):
    program(checkout / "scripts/python", PACKS)
    for version in ("1", "2", "2"):
        done = make(checkout, "wheel", f"VERSION={version}")
        assert (done.returncode, done.stderr) == (0, "")
        (wheel,) = (checkout / "dist").iterdir()
        assert f"nf4-{version}-" in wheel.name
