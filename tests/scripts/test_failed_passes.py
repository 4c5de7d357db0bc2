"""After a failed pass, an experiment continues if the pass has a result, and never shows an older
result.
"""

import pytest
from make_targets import ECHO, PYTHON, declare, make, program, reproduce


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
def test_a_failed_passs_result_is_shown_with_later_passes(older, line, text, status, goes_on):
    """If the pass wrote its file. Otherwise the program could not run, as Python with a traceback,
    and nothing follows.
    """
    declare(older, one=line, two="verify --y")
    program(older / "build/cpu/bin/bench", text)
    renders = 'case "$*" in *render*) exec echo "<render>";; esac\n'
    program(older / "scripts/python", PYTHON.removesuffix(ECHO) + renders + text)
    done = reproduce(older, VERBOSE="1")
    assert done.returncode == status
    assert ("<--y>\n" in done.stdout) is goes_on
    assert ("<render>\n" in done.stdout) is goes_on
    failed = "one: failed without a result (exit status "
    assert (failed in done.stderr) is (status == 3 and not goes_on)


def test_a_wrong_output_outranks_rows_that_were_not_measured(older):
    for name, status in (("bench", 1), ("verify", 3)):
        program(older / f"build/cpu/bin/{name}", f"{ECHO}exit {status}\n")
    for one, two in (("bench", "verify"), ("verify", "bench")):
        declare(older, one=one, two=two)
        assert reproduce(older).returncode == 1


def test_a_traceback_in_a_figure_is_not_a_wrong_output(older):
    declare(older, one="bench")
    program(older / "build/cpu/bin/bench", ECHO)
    program(older / "scripts/python", PYTHON.removesuffix(ECHO) + "exit 1\n")
    assert reproduce(older).returncode == 3


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_a_checks_only_result_is_its_status(checkout, status):
    """Without a GPU the check runs after the recorded run is shown, which needs no compilation."""
    (checkout / "recorded/mine").mkdir(parents=True)
    program(checkout / "build/cpu/bin/verify", f"#!/bin/sh\nexit {status}\n")
    done = reproduce(checkout)
    assert done.returncode == status
    assert ("<render>" in done.stdout) is (status in (0, 1))
    done = make(checkout, "reproduce-mine", "RECORDED=recorded")
    assert done.returncode == (2 if status else 0)  # make's own
    assert done.stdout.index("<render>") < done.stdout.index("check on the CPU")
