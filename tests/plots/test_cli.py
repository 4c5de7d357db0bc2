"""The command line as a process: streams that are closed or full, signals, odd environments."""

import os
import signal
import subprocess
import sys

import pytest
from edited import Edited

from plots import experiments
from plots.cli import main
from reprolab.json_files import ROOT

FULL = "error: standard output: No space left on device\n"
# Runs like `python -m plots`, with a command that only prints.
PROGRAM = """
import argparse, sys
from reprolab.command_line import Parser, run
parser = Parser(prog="plots")
parser.set_defaults(run=lambda args: print("x" * 99 + "\\n" * {lines}, end="") or {result})
sys.exit(run(parser))
"""


@pytest.fixture
def render(edited, tmp_path):
    folder = str(edited("streaming").write())
    return ("render", "streaming", "--results", folder, "--output", str(tmp_path / "out"))


def run(program, *arguments, streams="", lines=1, result=0):
    """As a process; `streams` is the shell's, such as `>&-`."""
    command = f'exec "$0" -c "$@" {streams}'
    program = program.format(lines=lines, result=result) if program == PROGRAM else program
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command, sys.executable, program, *arguments],
        **{"cwd": ROOT, "check": False, "capture_output": True, "text": True},
    )


@pytest.mark.parametrize(
    ("streams", "status", "sentence"),
    [
        (">/dev/full", 2, FULL),
        (">&-", 2, "error: standard output is closed\n"),
        ("2>&-", 0, ""),
        (">/dev/full 2>&1", 2, ""),
        (">&- 2>&-", 2, ""),
    ],
)
def test_output_that_is_lost_is_an_error(streams, status, sentence):
    done = run(PROGRAM, streams=streams)
    assert (done.returncode, done.stderr) == (status, sentence)


def test_a_verdict_stays_where_nobody_reads_the_words():
    """The reader has ended before the first line."""
    program = PROGRAM.replace('print("x" * 99 + "\\n" * {lines}, end="")', "show('', [], ['x'])")
    program = f"from reprolab.console import show\n{program.format(result=1)}"
    assert run(program, streams="| (exec <&-; sleep 1)").returncode == 1


def test_output_longer_than_a_pipe_holds_may_be_cut():
    """`make list | head -n 1` is not an error, although the rest is not read."""
    done = run(PROGRAM, lines=100_000, streams="| head -n 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "x" * 99 + "\n", "")


def test_a_fault_of_ours_is_a_traceback_and_no_wrong_output():
    done = run(PROGRAM, result="1 / 0")
    assert done.returncode == 3
    assert done.stderr.startswith("Traceback ")
    assert "\nZeroDivisionError: " in done.stderr


@pytest.mark.parametrize(("streams", "is_read"), [("", True), ("2>/dev/full", False)])
def test_wrong_usage_is_printable_and_fails_without_a_reader(streams, is_read):
    done = run(PROGRAM, "--\x1b[2J\u202e", streams=streams)
    assert done.returncode == 2 and done.stdout == ""
    assert (r" --\x1b[2J\u202e" in done.stderr) is is_read
    assert all(line.isprintable() for line in done.stderr.splitlines())


PAUSED = """
import os, signal, sys
from reprolab import interruption
signal.signal(signal.SIGTERM, signal.SIG_DFL)
interruption.end_quietly()
from plots import experiments
from plots.cli import main
def paused(figure, kind):
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("went on")
experiments.encode = paused
sys.exit(main(sys.argv[1:]))
"""


def test_interrupted_while_drawing(render, tmp_path):
    """No file of the new rendering exists, and nothing is printed."""
    done = run(PAUSED, *render)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", "")
    assert not (tmp_path / "out").exists()


STARTING = """
import os, runpy, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == 'matplotlib': os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
signal.signal(signal.SIGINT, signal.SIG_DFL)  # in the background it is ignored
runpy.run_module('plots', run_name='__main__')
"""
IGNORED = """
import os, signal
from reprolab import interruption
signal.signal(signal.SIGHUP, signal.SIG_IGN)
interruption.end_quietly()
os.kill(os.getpid(), signal.SIGHUP)
print('alive')
"""


def test_signals_are_quiet_from_the_start_and_ignored_ones_stay_so():
    """`python -m plots` handles signals before slow imports; also under nohup."""
    done = run(STARTING)
    assert (done.returncode, done.stderr) == (130, "")
    done = run(IGNORED)
    assert (done.returncode, done.stdout) == (0, "alive\n")


def test_same_bytes_in_another_process_whatever_its_environment(render, tmp_path):
    """No file depends on the clock, the hash seed or the process, nor on a notebook's backend or
    damaged settings of matplotlib.
    """
    assert main(render) == 0
    (tmp_path / "matplotlibrc").write_bytes(b"backend: TkAgg\nfont.size: huge\n\xff\n")
    unwritable = str(tmp_path / "matplotlibrc")
    settings = {"MATPLOTLIBRC": str(tmp_path), "MPLCONFIGDIR": unwritable, "HOME": unwritable}
    settings |= {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    settings |= {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "86400"}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | settings | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "plots", *render[:-1], str(tmp_path / "elsewhere")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    direct, elsewhere = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        for folder in ("out", "elsewhere")
    )
    assert direct == elsewhere
    kinds = {name.partition(".")[2] for name in direct}
    assert kinds == {"txt", "md", "csv", "tex", "pdf", "png", "svg"}


def test_a_figure_that_fails_leaves_the_old_rendering(render, tmp_path, monkeypatch):
    def fail(figure, kind):
        raise ValueError

    (tmp_path / "out").mkdir()
    (tmp_path / "out/layers.md").write_text("old")
    monkeypatch.setattr(experiments, "encode", fail)
    assert main(render) == 3
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["layers.md"]
    assert (tmp_path / "out/layers.md").read_text() == "old"


def test_every_experiment_of_a_folder_is_rendered(no_figures, tmp_path, capsys):
    for name in ("puzzle", "counters"):
        Edited(name, tmp_path / "runs" / name).write()
    words = ["render", f"--results={tmp_path}/runs", f"--output={tmp_path}/out"]
    assert main([*words, "--recorded"]) == 0
    assert {folder.name for folder in (tmp_path / "out").iterdir()} == {
        "puzzle-recorded",
        "counters-recorded",
    }
    assert main(["render", f"--results={tmp_path}/none", f"--output={tmp_path}/x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "make reproduce-table2" in line and not (tmp_path / "x").exists()
