"""A pass writes its lines to a log, of which a failure shows the end; VERBOSE=1 shows all."""

import pytest
from make_targets import declare, reproduce

from experiments.__main__ import LINES_OF_FAILURE, status_of

COMMAND = "for i in $(seq 100); do echo line $i; done; echo told >&2; exit {}"


@pytest.mark.parametrize(("status", "shown"), [(0, 0), (1, LINES_OF_FAILURE)])
def test_lines_of_a_pass_go_to_its_log(tmp_path, capfd, status, shown):
    log = tmp_path / "results/replay.log"
    assert status_of(["bash", "-c", COMMAND.format(status)], log=log) == status
    out, err = capfd.readouterr()
    assert log.read_text().splitlines() == [f"line {i}" for i in range(1, 101)]
    lines = [line for line in out.splitlines() if line.startswith("line ")]
    assert len(lines) == shown and str(log) in out and "told" in err
    assert not lines or lines[-1] == "line 100"


def test_without_a_log_every_line_is_shown(capfd):
    assert status_of(["bash", "-c", COMMAND.format(3)]) == 3
    assert capfd.readouterr().out.count("line ") == 100


@pytest.mark.parametrize(("given", "shown"), [({}, False), ({"VERBOSE": "1"}, True)])
def test_a_check_is_shown_and_a_pass_is_not(checkout, given, shown):
    declare(checkout, check="verify --brief", one="bench --x")
    done = reproduce(checkout, **given)
    assert "<--brief>\n" in done.stdout
    assert ("<--x>\n" in done.stdout) is shown
    assert (checkout / "results/mine/one.log").exists() is not shown
