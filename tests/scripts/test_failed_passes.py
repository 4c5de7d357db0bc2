"""What `scripts/reproduce` does with a pass that fails: it goes on where the pass has a result, and
shows no older one for it.
"""

import sys

import pytest
from front_door import ECHO, ROOT, make, program, reproduce

# Writes the file behind --output whole, as our programs do.
WRITES = """#!/bin/sh
echo "$0" | sed 's|.*/||'
for last; do
  [ "$before" != --output ] || { echo {} >"$last.new"; mv "$last.new" "$last"; }
  before=$last
done
"""
DIES = "#!/bin/sh\nkill -KILL $$\n"


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
@pytest.mark.parametrize("line", ["one bench --x", "one python -m module"])
def test_what_a_failed_pass_wrote_is_shown_with_what_comes_after_it(
    checkout, line, text, status, goes_on, older
):
    """Where its file was written; else the program could not run, and nothing follows."""
    passes = checkout / "experiments/mine/passes"
    passes.write_text(f"{line}\ntwo verify --y\n")
    program(checkout / "build/cpu/bin/bench", text)
    program(checkout / "build/cpu/bin/verify", ECHO)
    shows = 'case "$*" in *render*) exec echo "<render>";; esac\n'
    program(checkout / "scripts/python", text.replace("#!/bin/sh\n", f"#!/bin/sh\n{shows}"))
    (checkout / "results/mine").mkdir(parents=True)
    if older:
        (checkout / "results/mine/one.json").write_text('{"an": "older result"}')
    done = reproduce(checkout)
    assert done.returncode == status
    assert ("<--y>\n" in done.stdout) is goes_on
    assert ("<render>\n" in done.stdout) is goes_on


def test_a_wrong_output_outranks_what_was_not_measured(checkout):
    passes = checkout / "experiments/mine/passes"
    (checkout / "results/mine").mkdir(parents=True)
    for name, status in (("bench", 1), ("verify", 3)):
        program(checkout / f"build/cpu/bin/{name}", f"{WRITES}exit {status}\n")
    for lines in ("one bench\ntwo verify\n", "one verify\ntwo bench\n"):
        passes.write_text(lines)
        assert reproduce(checkout).returncode == 1


PLANTED = """import argparse, sys
from pathlib import Path

raise_at_import = {at_import}
assert not raise_at_import, "planted"
from plots.command_line import Parser, run


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
    (checkout / "experiments/mine/passes").write_text("one python -m planted\n")
    (checkout / "planted.py").write_text(PLANTED.format(at_import=at_import, writes=writes))
    for folder in ("plots", "claims"):
        (checkout / folder).symlink_to(ROOT / folder)
    shows = 'case "$*" in *render*) exec echo "<render>";; esac\n'
    text = f'#!/bin/sh\n{shows}PYTHONPATH=. exec {sys.executable} "$@"\n'
    program(checkout / "scripts/python", text)
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
    (checkout / "experiments/mine/passes").write_text("one bench\n")
    program(checkout / "build/cpu/bin/bench", WRITES)
    program(checkout / "scripts/python", ends(1))
    (checkout / "results/mine").mkdir(parents=True)
    assert reproduce(checkout).returncode == 3


@pytest.mark.parametrize(("status", "told"), [(0, 0), (1, 1), (3, 3), (2, 2)])
def test_a_check_has_no_result_but_its_status(checkout, status, told):
    (checkout / "experiments/mine/passes").write_text("check verify --brief\n")
    program(checkout / "build/cpu/bin/verify", ends(status))
    done = reproduce(checkout)
    assert done.returncode == told
    assert ("<render>" in done.stdout) is (status in (0, 1))


def test_a_wrong_output_of_the_check_ends_what_is_shown_without_a_gpu(checkout):
    (checkout / "experiments/mine/passes").write_text("check verify --brief\nalone bench --x\n")
    (checkout / "recorded/mine").mkdir(parents=True)
    program(checkout / "build/cpu/bin/verify", ends(1))
    done = make(checkout, "reproduce-mine", "RECORDED=recorded")
    assert done.returncode == 2  # make's own
    assert "<render>" not in done.stdout
    program(checkout / "build/cpu/bin/verify", ECHO)
    done = make(checkout, "reproduce-mine", "RECORDED=recorded")
    assert done.returncode == 0
    assert "<render>" in done.stdout
