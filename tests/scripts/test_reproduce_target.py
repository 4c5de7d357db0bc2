"""`make reproduce-...`: what reaches the passes, what is shown without a GPU, wrong files."""

import pytest
from make_targets import NASTY, declare, make, printed, program, reproduce

from reprolab import declared


def test_what_a_user_gives_reaches_the_passes(checkout):
    """Each step gets the variables that it takes; what measures gets the clocks, too."""
    names = ("MODEL", "BATCHES", "KERNELS", "TOKENS", "PROMPTS", "METRICS")
    taken = [*names, "QUICK", "DRY_RUN"]
    declare(checkout, takes=taken, check="verify", one="python -m steps", two="bench --x")
    options = [word for name in names for word in (f"--{name.lower()}", NASTY)]
    done = reproduce(checkout, **dict.fromkeys(names, NASTY), QUICK="1", CLOCKS=NASTY, VERBOSE="1")
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
    assert (
        f"{pattern}>\n{wanted}<--experiment>" in reproduce(checkout, PEER=given, VERBOSE="1").stdout
    )


def test_a_pass_may_be_read_off_the_code_by_python(checkout):
    declare(checkout, facts="python -m sass facts", one="bench --x")
    done = reproduce(checkout, CLOCKS="1410", VERBOSE="1")
    output = "-m sass facts --output results/mine/facts.json --x --clocks".split()
    assert done.stdout.startswith(printed(output))
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    assert reproduce(checkout).stdout.startswith("build bench\n")
    assert reproduce(checkout, DRY_RUN="1").stdout.startswith("facts: python -m sass facts\n")


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
    assert said.endswith(", and nowhere has no recorded run of it yet")
    dry = make(checkout, "reproduce-figure4", "RECORDED=nowhere", "DRY_RUN=1").stdout.splitlines()
    assert dry[1].startswith("show nothing: ") and dry[1].endswith(
        " nowhere has no recorded run of it yet"
    )


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
    one, two = reproduce(checkout, VERBOSE="1").stdout.split("<--first>\n")[1:]
    options = "<--x>\n<{}>\n<--warm>\n<--shape>\n<2x2>\n<--shape>\n<3x3>\n<--kernel>\n<{}>\n"
    assert one.startswith(options.format("1", "a|b"))
    assert two.startswith(options.format("2.5", "!c|d"))
