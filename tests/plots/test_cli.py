"""`python -m plots` as a process, in odd environments."""

import os
import subprocess
import sys

import pytest
from edited import Edited

from plots import experiments
from plots.cli import main
from reprolab.json_files import ROOT


@pytest.fixture
def render(edited, tmp_path):
    folder = str(edited("streaming").write())
    return ("render", "streaming", "--results", folder, "--output", str(tmp_path / "out"))


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
