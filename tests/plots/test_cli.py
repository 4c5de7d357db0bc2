"""The command line as a process: streams that are closed or full, signals, odd environments."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from records.json_files import ROOT

RECORDED = ROOT / "data/recorded/h200/transpose"
LIST = ("list", "--recorded", str(RECORDED))
FULL = "error: standard output: No space left on device\n"


@pytest.fixture
def render(tmp_path):
    return ("render", "transpose", "--results", str(RECORDED), "--output", str(tmp_path / "out"))


def plots(*arguments: str, streams: str = "", folder: Path = ROOT, **environment: str):
    """`python -m plots`; `streams` is the shell's, such as `>&-`."""
    command = f'exec "$0" -m plots "$@" {streams}'
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    paths = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
    env |= {"PYTHONPATH": os.pathsep.join(paths)} | environment
    return subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, *arguments],
        **{"cwd": folder, "env": env, "check": False, "capture_output": True, "text": True},
    )


@pytest.mark.parametrize(
    ("streams", "status", "said"),
    [
        (">/dev/full", 2, FULL),
        (">&-", 2, "error: standard output is closed\n"),
        ("2>&-", 0, ""),
        ("2>/dev/full", 0, ""),
        (">/dev/full 2>&1", 2, ""),
        (">&- 2>&-", 2, ""),
        ("| head -n 1 >&2", 0, "+----"),
    ],
)
def test_output_that_is_lost_is_an_error(streams, status, said):
    done = plots(*LIST, streams=streams, PYTHONUNBUFFERED="1" if "&-" in streams else "")
    assert done.returncode == status
    assert done.stderr.startswith(said) and len(done.stderr.splitlines()) == bool(said)


def test_output_longer_than_a_pipe_holds_may_be_cut():
    """`make list | head -n 1` is no error, whatever was not read."""
    program = "import sys; from records.command_line import run\n"
    program += "import argparse; p = argparse.ArgumentParser()\n"
    program += "def talk(_): print('x' * 99 + '\\n' * 100_000, end=''); return 0\n"
    program += "p.set_defaults(run=talk); sys.exit(run(p, []))"
    command = f'{sys.executable} -c "$0" | head -n 1; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", command, program], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("x" * 99 + "\n0\n", "")


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_an_error_that_nobody_can_read_is_one_still(streams):
    done = plots("list", "--recorded", "nowhere", streams=streams)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_fault_of_ours_is_a_traceback_and_no_wrong_output():
    program = "import sys; from records.command_line import run\n"
    program += "import argparse; p = argparse.ArgumentParser()\n"
    program += "p.set_defaults(run=lambda _: 1 / 0); sys.exit(run(p, []))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_wrong_usage_is_printable():
    done = plots("list", "--recorded", "x", "--\x1b[2J\u202e")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(r"unrecognized arguments: --\x1b[2J\u202e")
    assert all(line.isprintable() for line in done.stderr.splitlines())


PAUSED = """
import os, signal, sys
from records import interruption
signal.signal(int(sys.argv[1]), signal.SIG_DFL)  # nohup ignores it
interruption.end_quietly()
from plots import experiments
from plots.cli import main
def paused(figure, kind):
    os.kill(os.getpid(), int(sys.argv[1]))
    raise AssertionError("went on")
experiments.encode = paused
sys.exit(main(sys.argv[2:]))
"""


def test_interrupted_while_drawing(render, tmp_path):
    """Nothing of the new rendering is there, and nothing is said."""
    number = signal.SIGTERM
    command = [sys.executable, "-c", PAUSED, str(int(number)), *render]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_interrupted_while_it_starts():
    """`python -m plots` listens to signals before it imports what takes time."""
    program = (
        "import os, runpy, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'matplotlib': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"  # in the background it is ignored
        "runpy.run_module('plots', run_name='__main__')"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


def test_ignored_signals_stay_ignored():
    """As under nohup."""
    program = (
        "import os, signal; from records import interruption\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); interruption.end_quietly()\n"
        "os.kill(os.getpid(), signal.SIGHUP); print('alive')"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"alive\n")


def test_no_setting_of_the_users_is_read(render, tmp_path):
    """A notebook's backend, and damaged settings wherever matplotlib looks for them."""
    (tmp_path / "matplotlibrc").write_bytes(b"backend: TkAgg\nfont.size: huge\n\xff\n")
    unwritable = str(tmp_path / "matplotlibrc")
    settings = {"MATPLOTLIBRC": str(tmp_path), "MPLCONFIGDIR": unwritable, "HOME": unwritable}
    settings |= {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    done = plots(*render, folder=tmp_path, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    kinds = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert kinds == {".txt", ".md", ".csv", ".tex", ".pdf", ".png", ".svg"}


def test_a_figure_that_fails_leaves_the_old_rendering(render, tmp_path, monkeypatch):
    from plots import experiments
    from plots.cli import main

    def fail(figure, kind):
        raise ValueError

    (tmp_path / "out").mkdir()
    (tmp_path / "out/matrix.md").write_text("old")
    monkeypatch.setattr(experiments, "encode", fail)
    assert main(render) == 3
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["matrix.md"]
    assert (tmp_path / "out/matrix.md").read_text() == "old"
