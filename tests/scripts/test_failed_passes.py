"""What an experiment does with a pass that fails: it goes on where the pass has a result, and shows
no older one for it.
"""

import sys

import pytest
from front_door import ECHO, PYTHON, declare, make, program, reproduce

# Writes the file behind --output whole, as our programs do.
WRITES = """#!/bin/sh
echo "$0" | sed 's|.*/||'
for last; do
  [ "$before" != --output ] || { echo {} >"$last.new"; mv "$last.new" "$last"; }
  before=$last
done
"""
DIES = "#!/bin/sh\nkill -KILL $$\n"


def python(text):
    """Runs experiments, says that it renders, and does for all else what `text` does."""
    starts = PYTHON.removesuffix(ECHO) + 'case "$*" in *render*) exec echo "<render>";; esac\n'
    return starts + text


def ends(status):
    return f"#!/bin/sh\nexit {status}\n"


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize(
    ("text", "status", "goes_on"),
    [
        (f"{WRITES}exit 1\n", 1, True),
        (f"{WRITES}exit 3\n", 3, True),
        (f"{WRITES}exit 2\n", 2, False),
        (ends(1), 3, False),
        (ends(3), 3, False),
        (ends(2), 2, False),
        (DIES, 137, False),
    ],
)
@pytest.mark.parametrize("line", ["bench --x", "python -m module"])
def test_what_a_failed_pass_wrote_is_shown_with_what_comes_after_it(
    checkout, line, text, status, goes_on, older
):
    """Where its file was written; else the program could not run, and nothing follows."""
    declare(checkout, one=line, two="verify --y")
    program(checkout / "build/cpu/bin/bench", text)
    program(checkout / "scripts/python", python(text))
    (checkout / "results/mine").mkdir(parents=True)
    if older:
        (checkout / "results/mine/one.json").write_text('{"an": "older result"}')
    done = reproduce(checkout)
    assert done.returncode == status
    assert ("<--y>\n" in done.stdout) is goes_on
    assert ("<render>\n" in done.stdout) is goes_on


def test_a_wrong_output_outranks_what_was_not_measured(checkout):
    (checkout / "results/mine").mkdir(parents=True)
    for name, status in (("bench", 1), ("verify", 3)):
        program(checkout / f"build/cpu/bin/{name}", f"{WRITES}exit {status}\n")
    for one, two in (("bench", "verify"), ("verify", "bench")):
        declare(checkout, one=one, two=two)
        assert reproduce(checkout).returncode == 1


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
def test_a_traceback_in_a_pass_is_no_wrong_output(checkout, at_import, writes):
    """With an older result lying there, which is shown for the new one in no case."""
    declare(checkout, one="python -m planted")
    (checkout / "planted.py").write_text(PLANTED.format(at_import=at_import, writes=writes))
    program(checkout / "scripts/python", python(f'PYTHONPATH=. exec {sys.executable} "$@"\n'))
    (checkout / "results/mine").mkdir(parents=True)
    (checkout / "results/mine/one.json").write_text('{"an": "older result"}')
    done = reproduce(checkout)
    assert done.returncode == 3
    assert "Traceback (most recent call last):" in done.stderr and "planted" in done.stderr
    assert ("<render>" in done.stdout) is writes
    if not writes:
        assert done.stderr.endswith(
            f"one: failed without a result (exit status {1 if at_import else 3})\n"
        )


def test_a_traceback_in_a_figure_is_no_wrong_output(checkout):
    declare(checkout, one="bench")
    program(checkout / "build/cpu/bin/bench", WRITES)
    program(checkout / "scripts/python", PYTHON.removesuffix(ECHO) + "exit 1\n")
    (checkout / "results/mine").mkdir(parents=True)
    assert reproduce(checkout).returncode == 3


@pytest.mark.parametrize(("status", "told"), [(0, 0), (1, 1), (3, 3), (2, 2)])
def test_a_check_has_no_result_but_its_status(checkout, status, told):
    program(checkout / "build/cpu/bin/verify", ends(status))
    done = reproduce(checkout)
    assert done.returncode == told
    assert ("<render>" in done.stdout) is (status in (0, 1))


def test_a_wrong_output_of_the_check_ends_what_is_shown_without_a_gpu(checkout):
    (checkout / "recorded/mine").mkdir(parents=True)
    program(checkout / "build/cpu/bin/verify", ends(1))
    done = make(checkout, "reproduce-mine", "RECORDED=recorded")
    assert done.returncode == 2  # make's own
    assert "<render>" not in done.stdout
    program(checkout / "build/cpu/bin/verify", ECHO)
    done = make(checkout, "reproduce-mine", "RECORDED=recorded")
    assert done.returncode == 0
    assert "<render>" in done.stdout
