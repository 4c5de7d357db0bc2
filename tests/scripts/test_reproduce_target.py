"""`make reproduce-...`: what reaches the passes, failed passes, and what is shown without a GPU."""

import json
import os
import signal

import made
import pytest
from make_targets import (
    ECHO,
    PYTHON,
    declare,
    has_ended,
    make,
    printed,
    program,
    reproduce,
    start,
    wait_for,
)

from reprolab import declared


def test_what_a_user_gives_reaches_the_passes(checkout):
    """Each step gets the variables that it takes; what measures gets the clocks, too."""
    names = ("MODEL", "BATCHES", "KERNELS", "TOKENS", "METRICS")
    taken = [*names, "QUICK", "DRY_RUN"]
    declare(checkout, takes=taken, check="verify", one="python -m steps", two="bench --x")
    options = [word for name in names for word in (f"--{name.lower()}", "a value")]
    given = dict.fromkeys(names, "a value") | {"QUICK": "1", "CLOCKS": "max"}
    done = reproduce(checkout, **given, VERBOSE="1", KERNEL="k")
    of_pass = "--experiment mine --pass two --output results/mine/two.json".split()
    passes = ["-m", "steps", *options, "--quick", "--output", "results/mine/one.json", "--x"]
    wanted = [*options, "--quick", *passes, *options, "--quick", "--clocks", "max", *of_pass]
    assert done.stdout.startswith("Not used: KERNEL.\n" + printed(wanted))


@pytest.mark.parametrize(
    ("given", "taken", "pattern"),
    [
        ("a peer's.so", ["a peer's.so"], "streaming|x*|bitsandbytes*"),
        ("one.so two=/b/two.so", ["one.so", "two=/b/two.so"], "streaming|x*|bitsandbytes*|two"),
    ],
)
def test_peers_are_selected_beside_named_kernels(checkout, given, taken, pattern):
    (checkout / "a peer's.so").touch()
    declare(checkout, takes=["PEER"], also='kernels = ["streaming", "x*"]', one="bench --x")
    wanted = printed(["--kernel", pattern, *(w for peer in taken for w in ("--peer", peer))])
    assert f"{wanted}<--experiment>" in reproduce(checkout, PEER=given, VERBOSE="1").stdout


def test_a_pass_that_is_like_another_says_what_differs(checkout):
    also = 'kernels = ["a", "b"]\noptions = { x = 1, warm = true, shape = ["2x2", "3x3"] }'
    declare(checkout, also=also, one="bench --first")
    with (checkout / "experiments/mine/experiment.toml").open("a") as file:
        file.write('[pass.two]\nlike = "one"\nall_but = ["c", "d"]\noptions.x = "2.5"\n')
    one, two = reproduce(checkout, VERBOSE="1").stdout.split("<--first>\n")[1:]
    options = "<--x>\n<{}>\n<--warm>\n<--shape>\n<2x2>\n<--shape>\n<3x3>\n<--kernel>\n<{}>\n"
    assert one.startswith(options.format("1", "a|b"))
    assert two.startswith(options.format("2.5", "!c|d"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pass", "is not TOML"),
        ('[pass.one]\nprogram = "x"\ntake = []\n', "'take'"),
        ('[pass.one]\nlike = "two"\n[pass.two]\nprogram = "x"\n', "pass.one: is like 'two'"),
    ],
)
def test_an_experiment_that_is_none_is_one_line(tmp_path, monkeypatch, text, said, refused):
    monkeypatch.setattr(declared, "FOLDER", tmp_path)
    file = tmp_path / "mine/experiment.toml"
    file.parent.mkdir()
    file.write_text(text)
    message = refused(declared.experiment, "mine")
    assert message.startswith(f"{file}: ") and said in message
    assert "'yours'" in refused(declared.experiment, "yours")


def test_a_recorded_run_is_shown_before_anything_is_compiled(checkout):
    """A recorded number is never shown as this machine's: it has a folder of its own."""
    declare(checkout, check="verify --brief", one="bench")
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    (checkout / "recorded/mine").mkdir(parents=True)
    done = make(checkout, "reproduce-mine", "RECORDED=recorded")
    shown = "-m plots render mine --results recorded/mine --output results/mine-recorded --recorded"
    assert done.returncode == 0
    parts = (printed(shown.split()), "build verify\n", printed(["--brief"]))
    places = [done.stdout.index(part) for part in parts]
    assert places == sorted(places)
    assert make(checkout, "reproduce-mine", "RECORDED=data/nowhere/h200").returncode == 2


def test_a_dry_run_shows_every_pass_and_compiles_nothing(checkout):
    declare(checkout, also="options.shape = '2x2'", check="verify --brief", one="bench --x y")
    program(checkout / "scripts/build", "#!/bin/sh\ntouch compiled\n")
    done = make(checkout, "reproduce-mine", "DRY_RUN=1")
    assert done.returncode == 0
    assert {"check: verify --brief", "one: bench --x y --shape 2x2"} <= {*done.stdout.splitlines()}
    assert not (checkout / "compiled").exists()


@pytest.fixture
def older(checkout):
    """The checkout, with an older result of the pass `one`."""
    (checkout / "results/mine").mkdir(parents=True)
    (checkout / "results/mine/one.json").write_text('{"an": "older result"}')
    return checkout


@pytest.mark.parametrize(
    ("line", "text", "status", "goes_on"),
    [
        ("bench --x", f"{ECHO}exit 1\n", 1, True),
        ("bench --x", f"{ECHO}exit 3\n", 3, True),
        ("bench --x", f"{ECHO}exit 2\n", 2, False),
        ("bench --x", "#!/bin/sh\nexit 0\n", 3, False),
        ("bench --x", "#!/bin/sh\nkill -KILL $$\n", 137, False),
        ("python -m module", "#!/bin/sh\nexit 1\n", 3, False),
    ],
)
def test_a_failed_pass_is_followed_if_it_has_a_result(older, line, text, status, goes_on):
    """Otherwise the program could not run, as Python with a traceback, and an older result is not
    shown as this run's.
    """
    declare(older, one=line, two="verify --y")
    program(older / "build/cpu/bin/bench", text)
    renders = 'case "$*" in *render*) exec echo "<render>";; esac\n'
    program(older / "scripts/python", PYTHON.removesuffix(ECHO) + renders + text)
    done = reproduce(older, VERBOSE="1")
    assert done.returncode == status
    assert ("<--y>\n" in done.stdout) is ("<render>\n" in done.stdout) is goes_on


def test_a_wrong_output_outranks_rows_that_were_not_measured(older):
    for name, status in (("bench", 1), ("verify", 3)):
        program(older / f"build/cpu/bin/{name}", f"{ECHO}exit {status}\n")
    for one, two in (("bench", "verify"), ("verify", "bench")):
        declare(older, one=one, two=two)
        assert reproduce(older).returncode == 1
    # A figure that failed is no wrong output.
    program(older / "build/cpu/bin/bench", ECHO)
    declare(older, one="bench")
    program(older / "scripts/python", PYTHON.removesuffix(ECHO) + "exit 1\n")
    assert reproduce(older).returncode == 3


def test_a_resumed_run_measures_what_is_missing(checkout):
    """Whole files of the same command and sources are kept; programs keep finished groups."""
    declare(checkout, one="bench --x", two="bench --y")
    source = {"commit": "a" * 40, "dirty": False}
    content = made.replay({"branch_tree": [10.0, 11.0, 12.0]})
    words = ["build/cpu/bin/bench", "--x", "--experiment", "mine", "--pass", "one"]
    file = checkout / "results/mine/one.json"
    content["provenance"] |= source | {"argv": [*words, "--output", "results/mine/one.json"]}
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))
    same = {"REPROLAB_COMMIT": "a" * 40, "REPROLAB_DIRTY": "0", "VERBOSE": "1"}
    done = reproduce(checkout, RESUME="1", **same)
    assert done.stdout.startswith("one: was measured before: results/mine/one.json\n<--y>\n")
    assert "<--resume>\n" in done.stdout
    for changed in ({"RESUME": ""}, {"REPROLAB_COMMIT": "b" * 40}, {"CLOCKS": "max"}):
        assert "<--x>\n" in reproduce(checkout, **{"RESUME": "1"} | same | changed).stdout
        file.write_text(json.dumps(content))


def test_programs_end_with_their_make(checkout):
    program(checkout / "build/cpu/bin/verify", "#!/bin/sh\necho $$ >started\nexec sleep 60\n")
    started = checkout / "started"
    (checkout / "recorded/mine").mkdir(parents=True)
    with start(checkout, "make", "PRESET=cpu", "reproduce-mine", "RECORDED=recorded") as running:
        wait_for(lambda: started.exists() and started.read_text())
        running.terminate()
        running.communicate()
    wait_for(lambda: has_ended(started.read_text()), 10)


def test_a_ctrl_c_waits_for_the_program_and_prints_nothing(checkout):
    """The program has clocks to reset."""
    text = "#!/bin/sh\ntrap 'sleep 0.2; echo gave back; exit 130' INT\ntouch started\n"
    text += "while :; do sleep 0.05; done\n"
    program(checkout / "build/cpu/bin/verify", text)
    command = ["scripts/python", "-m", "experiments", "reproduce", "mine"]
    (checkout / "recorded/mine").mkdir(parents=True)
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "RECORDED": "recorded"}
    running = start(checkout, *command, **where)
    wait_for((checkout / "started").exists)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out.splitlines()[-1], err) == (130, "gave back", "")
