"""Edited runs, and golden files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from edited import RECORDED, edited, recorded_names  # noqa: F401, one is a fixture
from matplotlib.figure import Figure

from reprolab.claims.evidence import collect
from experiments.puzzle import views as puzzle
from experiments.table2 import views as table2
from experiments.transpose import views as transpose
from plots.experiments import Run, load_run
from plots.figures import add_caption, new_figure
from reprolab.results import result_files

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def no_recorded_counters(monkeypatch, tmp_path: Path) -> None:
    """Counters recorded in the project are not shown under a test's tables of times."""
    monkeypatch.setattr("plots.neighbours.RECORDED", tmp_path / "nothing recorded")


@pytest.fixture(scope="session")
def recorded_runs() -> dict[str, Run]:
    """By experiment, of those that were recorded; their files are read once."""
    evidence = collect(result_files(RECORDED), RECORDED)
    return {name: load_run(name, RECORDED / name, evidence=evidence) for name in recorded_names()}


def captioned(run: Run) -> Figure:
    """Empty except the caption, which pages show."""
    figure = new_figure(1)
    add_caption(figure, run.first, recorded=run.recorded)
    return figure


@pytest.fixture
def no_figures(monkeypatch) -> None:
    """A substitute for figures, whose drawing other tests check."""
    monkeypatch.setattr("plots.experiments.encode", lambda figure, kind: b"a figure")
    for module in (puzzle, table2, transpose):
        figures = {name: (text, captioned) for name, (text, _) in module.FIGURES.items()}
        monkeypatch.setattr(module, "FIGURES", figures)


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares with a golden file; UPDATE_GOLDEN=1 rewrites it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name}: if meant, UPDATE_GOLDEN=1"

    return compare
