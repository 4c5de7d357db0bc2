"""Folders of result files on disk, and golden files."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fixtures
import puzzle_fixtures
import pytest
import transpose_fixtures
from looking import RECORDED

from claims.evidence import Evidence, collect, result_files
from plots.experiments import Run, load_run, names

GOLDEN = Path(__file__).parent / "golden"
SMALL = {"models": ("qwen3-32b",)}
REPLAY = fixtures.replay(batches=(2, 8), **SMALL)
SHAPES = fixtures.shapes(n=5, **SMALL)
MATRIX = transpose_fixtures.matrix()
SIZES = transpose_fixtures.sizes(chosen=(256, 1000, 1023, 1024, 4096, 5000, 8191, 16384, 65536))
MLPS = puzzle_fixtures.mlps()


@pytest.fixture(scope="session")
def recorded_evidence() -> Evidence:
    """Every recorded result file, read once."""
    return collect(result_files(RECORDED), RECORDED)


@pytest.fixture(scope="session")
def recorded_runs(recorded_evidence) -> dict[str, Run]:
    """By experiment."""
    return {n: load_run(n, RECORDED / n, evidence=recorded_evidence) for n in names()}


@pytest.fixture(autouse=True)
def no_recorded_counters(monkeypatch, tmp_path: Path) -> None:
    """Counters recorded in the project are not shown under a test's tables of times."""
    monkeypatch.setattr("plots.neighbours.RECORDED", tmp_path / "nothing recorded")


@pytest.fixture
def replay() -> dict[str, Any]:
    """A small replay pass, to be changed at will."""
    return copy.deepcopy(REPLAY)


@pytest.fixture
def shapes() -> dict[str, Any]:
    """A small shapes pass, to be changed at will."""
    return copy.deepcopy(SHAPES)


@pytest.fixture
def matrix() -> dict[str, Any]:
    """The transpose's matrix pass, to be changed at will."""
    return copy.deepcopy(MATRIX)


@pytest.fixture
def sizes() -> dict[str, Any]:
    """A small sizes pass of the transpose, to be changed at will."""
    return copy.deepcopy(SIZES)


@pytest.fixture
def mlps() -> dict[str, Any]:
    """The puzzle's pass, to be changed at will."""
    return copy.deepcopy(MLPS)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes result files, each under its pass's name, into a folder below the test's own."""

    def write_files(folder: str, *files: dict[str, Any]) -> Path:
        path = tmp_path / folder
        path.mkdir(parents=True, exist_ok=True)
        for file in files:
            (path / f"{file['pass']}.json").write_text(json.dumps(file), encoding="utf-8")
        return path

    return write_files


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares with a golden file; UPDATE_GOLDEN=1 writes it anew."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name}: if meant, UPDATE_GOLDEN=1"

    return compare
