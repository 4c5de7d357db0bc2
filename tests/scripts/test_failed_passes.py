"""What an experiment does with a pass that fails: it goes on where the pass has a result, and shows
no older one for it.
"""

import sys

import pytest
from front_door import ECHO, PYTHON, declare, make, program, reproduce


def python(text):
    """Runs experiments, says that it renders, and does for all else what `text` does."""
    starts = PYTHON.removesuffix(ECHO) + 'case "$*" in *render*) exec echo "<render>";; esac\n'
    return starts + text


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
        ("bench --x", "#!/bin/sh\nexit 1\n", 3, False),
        ("bench --x", "#!/bin/sh\nexit 3\n", 3, False),
        ("bench --x", "#!/bin/sh\nexit 2\n", 2, False),
        ("bench --x", "#!/bin/sh\nkill -KILL $$\n", 137, False),
        ("python -m module", f"{ECHO}exit 1\n", 1, True),
        ("python -m module", "#!/bin/sh\nexit 1\n", 3, False),
    ],
)
def test_what_a_failed_pass_wrote_is_shown_with_what_comes_after_it(
    older, line, text, status, goes_on
):
    """Where its file was written; else the program could not run, and nothing follows."""
    declare(older, one=line, two="verify --y")
    program(older / "build/cpu/bin/bench", text)
    program(older / "scripts/python", python(text))
    done = reproduce(older)
    assert done.returncode == status
    assert ("<--y>\n" in done.stdout) is goes_on
    assert ("<render>\n" in done.stdout) is goes_on


def test_a_wrong_output_outranks_what_was_not_measured(older):
    for name, status in (("bench", 1), ("verify", 3)):
        program(older / f"build/cpu/bin/{name}", f"{ECHO}exit {status}\n")
    for one, two in (("bench", "verify"), ("verify", "bench")):
        declare(older, one=one, two=two)
        assert reproduce(older).returncode == 1


PLANTED = """import argparse, sys
from pathlib import Path

raise_at_import = {at_import}
assert not raise_at_import, "planted"
from records.command_line import Parser, run


def measure(args):
    if {writes}:
        new = args.output.with_suffix(".new")
        new.write_text("{{}}")
        new.replace(args.output)
    raise RuntimeError("planted")


p = Parser()
p.add_argument("--output", type=Path)
p.set_defaults(run=measure)
raise SystemExit(run(p))
"""


@pytest.mark.parametrize(
    ("at_import", "writes"), [(True, False), (False, False), (False, True)], ids=str
)
def test_a_traceback_in_a_pass_is_no_wrong_output(older, at_import, writes):
    declare(older, one="python -m planted")
    (older / "planted.py").write_text(PLANTED.format(at_import=at_import, writes=writes))
    program(older / "scripts/python", python(f'PYTHONPATH=. exec {sys.executable} "$@"\n'))
    done = reproduce(older)
    assert done.returncode == 3
    assert "Traceback (most recent call last):" in done.stderr and "planted" in done.stderr
    assert ("<render>" in done.stdout) is writes
    failed = f"one: failed without a result (exit status {1 if at_import else 3})\n"
    assert writes or done.stderr.endswith(failed)


def test_a_traceback_in_a_figure_is_no_wrong_output(older):
    declare(older, one="bench")
    program(older / "build/cpu/bin/bench", ECHO)
    program(older / "scripts/python", PYTHON.removesuffix(ECHO) + "exit 1\n")
    assert reproduce(older).returncode == 3


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_a_check_has_no_result_but_its_status(checkout, status):
    """Without a GPU, a wrong output ends what is shown."""
    (checkout / "recorded/mine").mkdir(parents=True)
    program(checkout / "build/cpu/bin/verify", f"#!/bin/sh\nexit {status}\n")
    done = reproduce(checkout)
    assert done.returncode == status
    assert ("<render>" in done.stdout) is (status in (0, 1))
    done = make(checkout, "reproduce-mine", "RECORDED=recorded")
    assert done.returncode == (2 if status else 0)  # make's own
    assert ("<render>" in done.stdout) is not bool(status)
