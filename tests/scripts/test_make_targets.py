"""Users' input to `make`: none of it is shell text, and faults are one line."""

import re
import sys
from itertools import cycle

import pytest
from make_targets import (
    ECHO,
    HOSTILE,
    NASTY,
    ROOT,
    declare,
    make,
    printed,
    program,
    run,
)

NCU = "--experiment={EXPERIMENT} --kernel={KERNEL} --problem={PROBLEM}"
PAGES = " --set={SET} --section={SECTION} --launches={LAUNCHES}"
PLACES = " --programs=build/gpu/bin --results=results/profile "
HANDED_ON = {
    "verify": "--kernel={KERNEL} -- {FILE}",
    "bench with counters": "--instrument counters --output results/bench_counters.json "
    "--metrics={METRICS} -m plots bench --results results/bench_counters.json",
    "bench": "--output results/bench.json --kernel={KERNEL} "
    "-m plots bench --results results/bench.json",
    "metrics": "--chip {CHIP} --metrics {METRICS}",
    "sass of two": "-m sass diff --a={A} --b={B} --arch={ARCH}",
    "sass": "-m sass show --kernel={KERNEL} --arch={ARCH} --function={FUNCTION}",
    "profile": f"-m ncu profile{PLACES}{NCU}{PAGES}",
    "compare": "-m plots compare --a={A} --b={B} --output={OUT} --threshold={THRESHOLD}",
    "record": "-m plots record --results=results --gpu={GPU}",
    "advise": "-m reprolab_nf4 advise --batch={BATCH} -- {MODEL}",
    "tune": "-m reprolab_nf4 tune --model={MODEL} --output=results/products.json",
}


@pytest.mark.parametrize("target", HANDED_ON)
def test_user_input_reaches_the_program_unchanged(checkout, target):
    given = re.findall(r"\{(\w+)\}", HANDED_ON[target])
    values = dict(zip(given, cycle(HOSTILE), strict=False))
    for value in HOSTILE:
        (checkout / value).touch()  # a peer is one path, with any characters
    words = [f"{name}={value}" for name, value in values.items()]
    done = run(checkout, "make", target.split()[0], "PRESET=gpu", *words)
    wanted = printed(word.format(**values) for word in HANDED_ON[target].split())
    built = "built\n" * (target in ("advise", "tune"))
    assert (done.returncode, done.stderr, done.stdout) == (0, "", built + wanted)
    assert not list(checkout.rglob("injected"))


def test_a_make_that_builds_does_not_expand_user_input(checkout):
    program(checkout / "scripts/build", "#!/bin/sh\nprintf 'all:\n\t@true\n' | make -f -\n")
    done = make(checkout, "verify", f"FILE={NASTY}", f"KERNEL={NASTY}")
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("verify FILE=x CLOCKS=1410", "-- x"),
        ("verify FILE=x DRY_RUN=1", "--dry-run -- x"),
        ("verify FILE=x PEER=y", "--peer=y -- x"),
        ("verify FILE=x DRY_RUN=no", "-- x"),
        ("metrics CHIP=GA100", "--chip GA100"),
        (
            "sass RESULTS=-x",
            "-m sass facts --output=-x/counters/sass.json "
            "-m plots facts --results=-x/counters/sass.json",
        ),
        (
            "compare A=x B=y RESULTS=mine VERBOSE=1",
            "-m plots compare --a=x --b=y --output=mine/compare --verbose",
        ),
        (
            "profile EXPERIMENT=x KERNEL=y DRY_RUN=1",  # without a GPU
            "-m ncu profile --programs=build/cpu/bin --results=results/profile "
            "--experiment=x --kernel=y --dry-run",
        ),
        # The default folder may be missing before the first run; a wrong name is an error.
        ("claims", "-m plots claims --results=data/recorded --output=results/claims"),
        (
            "claims RESULTS=typo",
            "-m plots claims --results=data/recorded --output=typo/claims --results=typo",
        ),
        (
            "test-end_to_end PRESET=cpu",
            "-m pytest -q --ignore-glob=*_claims.py --ignore-glob=*/test_schedule.py "
            "--ignore-glob=*/test_product.py experiments/end_to_end experiments/product "
            "reprolab_nf4/tests",
        ),
        ("report RESULTS=-x", "-m plots report --results=-x"),
        ("render RESULTS=-x", "-m plots render --results=-x --output=-x"),
        (
            "render-recorded RECORDED=-x",
            "-m plots render --recorded --results=-x --output=results",
        ),
    ],
)
def test_omitted_variables_have_defaults(checkout, words, wanted):
    done = make(checkout, *words.split())
    assert (done.returncode, done.stderr, done.stdout) == (0, "", printed(wanted.split()))


def test_one_kernel_is_tested_by_the_tests_of_its_name(checkout, tools):
    (checkout / "kernels/transpose").mkdir(parents=True)
    (checkout / "kernels/transpose/mine.cu").touch()
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    path = tools(ctest=ECHO)
    done = run(checkout, "make", "test", "PRESET=gpu", "KERNEL=mine", **path)
    first, *words = done.stdout.splitlines()
    assert first == "build kernels_test transpose_kernels_test"
    assert r"</mine$|KernelFiles\..*/transpose$>" in words
    for kernel in (NASTY, "m*"):
        done = run(checkout, "make", "test", "PRESET=gpu", f"KERNEL={kernel}", **path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("test: KERNEL: ")
    words = ["tests/kernels/on_cpu/check.py", "kernels/transpose/mine.cu"]
    done = make(checkout, "test", "KERNEL=mine")
    assert done.stdout.startswith(f"build kernel_on_cpu\n{printed(words)}GPU TESTS SKIPPED: ")
    assert not list(checkout.rglob("injected"))


def test_a_failed_check_does_not_hide_others(checkout):
    program(checkout / "scripts/check_format.sh", "#!/bin/sh\necho unformatted\nexit 1\n")
    program(checkout / "scripts/python", f"{ECHO}exit 1\n")
    done = make(checkout, "check")
    assert done.returncode == 2 and done.stdout.startswith("unformatted\n<-m>\n<plots>\n")
    assert done.stdout.endswith(printed("-m pytest -q tests/scripts/test_documents.py".split()))
    failed = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    assert failed[0] == "failed: scripts/check_format.sh" and len(failed) == 4
    for name in ("check_format.sh", "python"):
        program(checkout / "scripts" / name, "#!/bin/sh\n")
    assert make(checkout, "check").returncode == 0


@pytest.mark.parametrize("preset", ["cpu", "gpu", "all-archs"])
def test_a_dry_run_compiles_nothing(checkout, preset):
    program(checkout / "scripts/build", "#!/bin/sh\ntouch compiled\n")
    (checkout / "recorded/mine").mkdir(parents=True)
    for name in ("bench", "verify"):
        (checkout / f"build/{preset}/bin" / name).unlink(missing_ok=True)
    dry = (f"PRESET={preset}", "DRY_RUN=1", "RECORDED=recorded")
    for target in ("reproduce-mine", "verify FILE=x", "bench")[: 2 + (preset != "cpu")]:
        done = run(checkout, "make", *target.split(), *dry)
        assert (done.returncode, done.stderr) == (0, "")
        assert "verify" in done.stdout or "bench" in done.stdout
    assert not (checkout / "compiled").exists() and not (checkout / "results").exists()


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        ("verify", "FILE=model.safetensors"),
        ("test PRESET=none", "PRESET: give one of cpu gpu all-archs asan."),
        ("clean DRY_RUN=1", "DRY_RUN: "),
        ("wheel DRY_RUN=1", "DRY_RUN: "),
        ("claims DRY_RUN=1", "DRY_RUN: "),
        ("test DRY_RUN=1", "DRY_RUN: "),
        ("compare A=x", "A=results B=data/recorded/h200"),
        ("record", "GPU=a100-sxm4-80gb"),
        ("sass KERNEL=x", "KERNEL=name ARCH=90"),
        ("sass A=x B=y", "ARCH=90"),
        ("profile PRESET=gpu KERNEL=x", "EXPERIMENT=table2"),
        ("profile EXPERIMENT=x KERNEL=y", "nothing to profile: "),
        ("bench", "nothing to measure: "),
        ("advise MODEL=x", "nothing to measure: "),
        ("tune", "nothing to measure: "),
        ("clean DRYRUN=1", "DRYRUN: no such variable ("),
        ("clean x'y=1", "x'y: no such variable ("),
    ],
)
def test_wrong_usage_is_one_line(checkout, words, noun):
    done = make(checkout, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert noun in done.stderr.splitlines()[0]


def test_a_preset_is_not_run_as_a_command(checkout):
    for preset in ("cpu $(touch injected)", "cpu $(touch injected) 1", "cpu cpu"):
        done = make(checkout, "test", f"PRESET={preset}")
        assert done.returncode == 2 and "PRESET: " in done.stderr
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize("target", ["render", "claims", "compare", "reproduce-table2"])
def test_a_recorded_run_is_not_changed(checkout, target):
    folder = checkout / "data/recorded/h200"
    folder.mkdir(parents=True, exist_ok=True)
    done = make(checkout, target, "RESULTS=data/recorded/h200")
    assert (done.returncode, done.stdout, list(folder.iterdir())) == (2, "", [])
    assert "RESULTS: data/recorded/h200 is a recorded run, which stays as it is;" in done.stderr


def test_the_users_shell_variables_have_no_effect(checkout, real, tmp_path):
    """`cd scripts/..` would go where CDPATH finds a folder scripts first."""
    other = tmp_path / "other"
    (other / "scripts").mkdir(parents=True)
    (other / "build").mkdir()
    (other / "build/kept").touch()
    elsewhere = {"CDPATH": str(other), "GLOBIGNORE": "*", "PYTHONSAFEPATH": "1"}
    real("python")
    (checkout / "plots.py").write_text("print('found')")  # whatever Python's path is
    assert make(checkout, "list", **elsewhere).stdout.startswith("found\n")
    done = run(checkout, "scripts/python", "-m", "plots", PYTHONSAFEPATH="1")
    assert (done.stdout, done.stderr) == ("found\n", "")
    done = make(checkout, "clean", **elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert (other / "build/kept").exists() and not (checkout / "build/cpu").exists()


@pytest.mark.parametrize(
    ("script", "given"),
    [
        (["scripts/python", "-m", "experiments", "reproduce", "a\x1b[31mb"], {}),
        (
            ["scripts/python", "-m", "experiments", "reproduce", "mine"],
            {"RECORDED": "a\x1b[31mb", "RESULTS": "x", "MEASURE": ""},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_input_cannot_control_the_terminal(checkout, real, script, given):
    real("build")
    declare(checkout, one="bench")
    done = run(checkout, *script, BIN="build/cpu/bin", PEER="", NO_GPU_WHY="why", **given)
    assert done.returncode == 2
    assert r"a\E[31mb" in done.stderr or r"a\x1b[31mb" in done.stderr
    assert done.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "command",
    [
        "compile mojo --arch=--",
        "plots compare --a=-- --b=x --output=x",
        "plots record --gpu=-- --results=x",
        "plots compare",
    ],
)
def test_a_missing_value_is_one_line(command):
    done = run(ROOT, sys.executable, "-m", *command.split())
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and "error: " in line
