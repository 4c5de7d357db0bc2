"""Users' input to `make`: none of it is shell text, and faults are one line."""

import re
import sys
from itertools import cycle

import pytest
from front_door import (
    ECHO,
    HOSTILE,
    NASTY,
    ROOT,
    declare,
    make,
    printed,
    program,
    reproduce,
    run,
)

from records import declared

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
    "profile-check": f"-m ncu check{PLACES}{NCU}",
    "compare": "-m plots compare --a={A} --b={B} --output={OUT} --threshold={THRESHOLD}",
    "record": "-m plots record --results=results --gpu={GPU}",
    "advise": "-m reprolab_nf4 advise --batch={BATCH} -- {MODEL}",
    "tune": "-m reprolab_nf4 tune --model={MODEL} --output=results/products.json",
}


@pytest.mark.parametrize("target", HANDED_ON)
def test_what_a_user_gives_reaches_the_program_as_it_is(checkout, target):
    given = re.findall(r"\{(\w+)\}", HANDED_ON[target])
    values = dict(zip(given, cycle(HOSTILE), strict=False))
    for value in HOSTILE:
        (checkout / value).touch()  # a peer is one path, whatever is in it
    words = [f"{name}={value}" for name, value in values.items()]
    done = run(checkout, "make", target.split()[0], "PRESET=gpu", *words)
    wanted = printed(word.format(**values) for word in HANDED_ON[target].split())
    built = "built\n" * (target in ("advise", "tune"))
    assert (done.returncode, done.stderr, done.stdout) == (0, "", built + wanted)
    assert not list(checkout.rglob("injected"))


def test_a_make_that_builds_does_not_expand_what_a_user_gives(checkout):
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
            "-m sass facts --output=./-x/counters/sass.json "
            "-m plots facts --results=./-x/counters/sass.json",
        ),
        (
            "compare A=x B=y RESULTS=mine VERBOSE=1",
            "-m plots compare --a=x --b=y --output=mine/compare --verbose",
        ),
        (
            "profile-check PRESET=gpu",
            "-m ncu check --programs=build/gpu/bin --results=results/profile",
        ),
        (
            "profile EXPERIMENT=x KERNEL=y DRY_RUN=1",  # without a GPU
            "-m ncu profile --programs=build/cpu/bin --results=results/profile "
            "--experiment=x --kernel=y --dry-run",
        ),
        # The usual folder may be missing before the first run; a wrong name is not passed over.
        ("claims", "-m plots claims --results=data/recorded --output=results/claims"),
        (
            "claims RESULTS=typo",
            "-m plots claims --results=data/recorded --output=typo/claims --results=typo",
        ),
        (
            "test-end_to_end PRESET=cpu",
            "-m pytest -q --ignore-glob=*_claims.py experiments/end_to_end experiments/product "
            "reprolab_nf4/tests",
        ),
        ("report RESULTS=-x", "-m plots report --results=./-x"),
        ("render RESULTS=-x", "-m plots render --results=./-x --output=./-x"),
        (
            "render-recorded RECORDED=-x",
            "-m plots render --recorded --results=./-x --output=results",
        ),
    ],
)
def test_what_is_left_away_has_a_default(checkout, words, wanted):
    done = make(checkout, *words.split())
    assert (done.returncode, done.stderr, done.stdout) == (0, "", printed(wanted.split()))


def test_what_a_user_gives_reaches_the_passes(checkout):
    """Of each what it takes; clocks what measures, and nothing else."""
    names = ("MODEL", "BATCHES", "KERNELS", "TOKENS", "PROMPTS", "METRICS")
    taken = [*names, "QUICK", "DRY_RUN"]
    declare(checkout, takes=taken, check="verify", one="python -m steps", two="bench --x")
    options = [word for name in names for word in (f"--{name.lower()}", NASTY)]
    done = reproduce(checkout, **dict.fromkeys(names, NASTY), QUICK="1", CLOCKS=NASTY)
    of_pass = "--experiment mine --pass two --output results/mine/two.json".split()
    passes = ["-m", "steps", *options, "--quick", "--output", "results/mine/one.json", "--x"]
    wanted = [*options, "--quick", *passes, *options, "--quick", "--clocks", NASTY, *of_pass]
    assert done.stdout.startswith(printed(wanted))
    # A Python pass that can say what it would run does so.
    done = reproduce(checkout, MODEL=NASTY, CLOCKS="1", DRY_RUN="1")
    model = ["--model", NASTY, "--dry-run"]
    wanted = [*model, "-m", "steps", *model, "--x", *model, "--clocks", "1", "--dry-run"]
    assert done.stdout == printed(wanted)
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize(
    ("given", "taken", "pattern"),
    [
        ("  ", [], "streaming|x*"),
        ("a peer's.so", ["a peer's.so"], "streaming|x*|bitsandbytes*"),
        ("name=a peer's.so", ["name=a peer's.so"], "streaming|x*|name"),
        ("one.so two=$x.so\n*", ["one.so", "two=$x.so", "*"], "|bitsandbytes*|two|bitsandbytes*"),
        ("new=/b=/c&.so ./d=.so", ["new=/b=/c&.so", "./d=.so"], "|new|bitsandbytes*"),
    ],
)
def test_peers_are_one_path_or_several_and_selected_beside_named_kernels(
    checkout, given, taken, pattern
):
    (checkout / "a peer's.so").touch()
    (checkout / "x*").touch()  # nothing is taken for a file's name
    declare(checkout, takes=["PEER"], also='kernels = ["streaming", "x*"]', one="bench --x")
    wanted = printed(word for peer in taken for word in ("--peer", peer))
    assert f"{pattern}>\n{wanted}<--experiment>" in reproduce(checkout, PEER=given).stdout


def test_one_kernel_is_tested_by_what_bears_its_name(checkout, tools):
    (checkout / "kernels/transpose").mkdir(parents=True)
    (checkout / "kernels/transpose/mine.cu").touch()
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    path = tools(ctest=ECHO)
    done = run(checkout, "make", "test", "PRESET=gpu", "KERNEL=mine", **path)
    first, *words = done.stdout.splitlines()
    assert first == "build kernels_test transpose_kernels_test bench"
    assert r"</mine$|KernelFiles\..*/transpose$>" in words
    for kernel in (NASTY, "m*"):
        done = run(checkout, "make", "test", "PRESET=gpu", f"KERNEL={kernel}", **path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("test: KERNEL: ")
    assert make(checkout, "test", "PRESET=asan", "KERNEL=mine").stderr.startswith("test: KERNEL: ")
    words = ["tests/kernels/on_cpu/check.py", "kernels/transpose/mine.cu"]
    done = make(checkout, "test", "KERNEL=mine")
    assert done.stdout == f"build kernel_on_cpu\n{printed(words)}"
    assert not list(checkout.rglob("injected"))


def test_a_pass_may_be_read_off_the_code_by_python(checkout):
    declare(checkout, facts="python -m sass facts", one="bench --x")
    done = reproduce(checkout, CLOCKS="1410")
    output = "-m sass facts --output results/mine/facts.json --x --clocks".split()
    assert done.stdout.startswith(printed(output))
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    assert reproduce(checkout).stdout.startswith("build bench\n")
    assert reproduce(checkout, DRY_RUN="1").stdout.startswith("facts: python -m sass facts\n")


def test_a_check_that_fails_hides_no_other(checkout):
    program(checkout / "scripts/check_format.sh", "#!/bin/sh\necho unformatted\nexit 1\n")
    program(checkout / "scripts/python", f"{ECHO}exit 1\n")
    done = make(checkout, "check")
    assert done.returncode == 2 and done.stdout.startswith("unformatted\n<-m>\n<plots>\n")
    assert done.stdout.endswith(printed("-m sass recorded".split()))
    failed = "failed: formatting, generated pages, documents, recorded code"
    assert done.stderr.splitlines()[0] == failed
    for name in ("check_format.sh", "python"):
        program(checkout / "scripts" / name, "#!/bin/sh\n")
    assert make(checkout, "check").returncode == 0


def test_what_is_given_for_measuring_is_not_used_where_nothing_is(checkout):
    declare(checkout, takes=["PEER", "MODEL", "QUICK"], check="verify --brief", one="bench")
    (checkout / "recorded/mine").mkdir(parents=True)
    given = ["RECORDED=recorded", "PEER=nowhere.so", "CLOCKS=nope", "MODEL=m", "QUICK=1"]
    for dry in ([], ["DRY_RUN=1"]):
        done = make(checkout, "reproduce-mine", *given, *dry)
        assert done.returncode == 0
        assert ". Not used: PEER CLOCKS MODEL QUICK. " in done.stdout.splitlines()[0]
        assert "nowhere.so" not in done.stdout
        assert ("recorded run:" in done.stdout.splitlines()[0]) is not dry
    said = make(checkout, "reproduce-mine", given[0], "QUICK=no").stdout.splitlines()[0]
    assert said.endswith(". A recorded run:") and "Not used" not in said


def test_a_recorded_run_is_shown_before_anything_is_compiled(checkout):
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    (checkout / "recorded/mine").mkdir(parents=True)
    lines = make(checkout, "reproduce-mine", "RECORDED=recorded").stdout.splitlines()
    places = [lines.index(line) for line in ("<render>", "build verify", "<--brief>")]
    assert places == sorted(places)


def test_what_no_pass_takes_is_said(checkout):
    declare(checkout, takes=["MODEL"], one="python -m steps")
    for dry in ({}, {"DRY_RUN": "1"}):
        done = reproduce(checkout, MODEL="m", KERNEL="k", QUICK="1", GPUS="0", **dry)
        assert done.stdout.startswith("Not used: KERNEL QUICK.\n")


def test_a_dry_run_shows_every_pass_where_nothing_is_measured(checkout):
    also = "options.shape = ['2x2', '3x3']\ntorch = true"
    declare(checkout, also=also, check="verify --brief", one="bench --x y", two="python -m steps")
    lines = make(checkout, "reproduce-mine", "DRY_RUN=1").stdout.splitlines()
    assert lines[1].startswith("show nothing: ")
    assert lines[2:] == [
        "check: verify --brief",
        "With a GPU it would also run:",
        "one: bench --x y --shape 2x2 --shape 3x3",
        "two: python -m steps --shape 2x2 --shape 3x3",
    ]


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


def test_a_run_of_another_gpu_is_shown_if_the_usual_one_has_none(checkout):
    (checkout / "data/recorded/h100/mine").mkdir(parents=True)
    shown = make(checkout, "reproduce-mine").stdout
    assert "<--results>\n<data/recorded/h100/mine>\n" in shown
    dry = make(checkout, "reproduce-mine", "DRY_RUN=1").stdout
    assert "render the recorded run data/recorded/h100/mine " in dry
    assert make(checkout, "reproduce-mine", "RECORDED=data/nowhere/h200").returncode == 2


def test_where_nothing_is_recorded_nothing_is_shown(checkout):
    """Table 1 and Figure 4 are one run."""
    declare(checkout, "end_to_end", timing="python -m timing")
    done = make(checkout, "reproduce-table1", "RECORDED=nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    said = done.stderr.splitlines()[0]
    assert said.startswith("reproduce-end_to_end: ")
    assert said.endswith(", and there is no recorded run of it in nowhere yet")
    dry = make(checkout, "reproduce-figure4", "RECORDED=nowhere", "DRY_RUN=1").stdout.splitlines()
    assert dry[1].startswith("show nothing: ") and dry[1].endswith(" in nowhere yet")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pass", "is not TOML"),
        ("", "lacks 'pass'"),
        ('[pass.one]\nprogram = "x"\ntake = []\n', "pass.one has 'take'"),
        ('[pass.one]\nprogram = "x"\ntakes = ["HOME"]\n', "pass.one.takes[0] "),
        ('[pass.one]\nprogram = "../x"\n', "pass.one.program "),
        ('[pass.one]\nprogram = "x"\noptions.x = 1979-05-27\n', "pass.one.options.x "),
        (f"x = {'[' * 5000}", "is not TOML"),
        (f"x = {'9' * 5000}", "is not TOML"),
        ('[pass.one]\nprogram = "x"\nmodule = "y"\n', "pass.one: "),
        ('[pass.one]\nlike = "two"\n[pass.two]\nprogram = "x"\n', "pass.one: is like 'two'"),
        ('[pass.one]\nprogram = "bnech"\n', "pass.one: there is no program 'bnech'"),
        ('[[check]]\nprogram = "x"\n[pass.one]\nprogram = "bench"\n', "check[0]: "),
    ],
)
def test_an_experiment_that_is_none_is_one_line(tmp_path, monkeypatch, text, said, refused):
    monkeypatch.setattr(declared, "FOLDER", tmp_path)
    file = tmp_path / "mine/experiment.toml"
    file.parent.mkdir()
    file.write_text(text)
    message = refused(declared.experiment, "mine")
    assert message.startswith(f"{file}: ") and said in message
    assert refused(declared.experiment, "yours") == "there is no experiment 'yours'; there are mine"


def test_a_pass_that_is_like_another_says_what_differs(checkout):
    also = 'kernels = ["a", "b"]\noptions = { x = 1, warm = true, shape = ["2x2", "3x3"] }'
    declare(checkout, also=also, one="bench --first")
    with (checkout / "experiments/mine/experiment.toml").open("a") as file:
        file.write('[pass.two]\nlike = "one"\nall_but = ["c", "d"]\noptions.x = "2.5"\n')
    one, two = reproduce(checkout).stdout.split("<--first>\n")[1:]
    options = "<--x>\n<{}>\n<--warm>\n<--shape>\n<2x2>\n<--shape>\n<3x3>\n<--kernel>\n<{}>\n"
    assert one.startswith(options.format("1", "a|b"))
    assert two.startswith(options.format("2.5", "!c|d"))


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
        ("profile-check", "nothing to profile: "),
        ("bench", "nothing to measure: "),
        ("advise MODEL=x", "nothing to measure: "),
        ("tune", "nothing to measure: "),
        ("clean DRYRUN=1", "DRYRUN: no such variable; did you mean DRY_RUN?"),
        ("clean resluts=x", "did you mean RESULTS?"),
        ("clean x'y=1", "xy: no such variable ("),
    ],
)
def test_wrong_usage_is_one_line(checkout, words, noun):
    done = make(checkout, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert noun in done.stderr.splitlines()[0]


def test_a_preset_is_no_command(checkout):
    done = make(checkout, "test", "PRESET=cpu $(touch injected)")
    assert done.returncode == 2 and "PRESET: " in done.stderr
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize("target", ["render", "claims", "compare", "reproduce-table2"])
def test_a_recorded_run_stays_as_it_is(checkout, target):
    folder = checkout / "data/recorded/h200"
    folder.mkdir(parents=True, exist_ok=True)
    done = make(checkout, target, "RESULTS=data/recorded/h200")
    assert (done.returncode, done.stdout, list(folder.iterdir())) == (2, "", [])
    assert "RESULTS: data/recorded/h200 is a recorded run, which stays as it is;" in done.stderr


def test_nothing_of_the_users_shell_leads_elsewhere(checkout, real, tmp_path):
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
def test_a_terminal_is_told_nothing_by_what_is_given(checkout, real, script, given):
    real("build")
    declare(checkout, one="bench")
    done = run(checkout, *script, BIN="build/cpu/bin", PEER="", NO_GPU_WHY="why", **given)
    assert done.returncode == 2
    assert r"a\E[31mb" in done.stderr or r"a\x1b[31mb" in done.stderr
    assert done.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "command",
    [
        "compile mojo --arch=-- --check",
        "plots compare --a=-- --b=x --output=x",
        "plots record --gpu=-- --results=x",
        "plots compare",
    ],
)
def test_what_is_no_value_is_one_line(command):
    done = run(ROOT, sys.executable, "-m", *command.split())
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and "error: " in line
