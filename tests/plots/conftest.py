"""Result files on disk, and golden files."""

import copy
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))

import fixtures
import transpose_fixtures

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "data/published/published.json"
GOLDEN = Path(__file__).parent / "golden"

SMALL = {"models": ("qwen3-32b",)}
REPLAY = fixtures.replay(batches=(2, 8), **SMALL)
SHAPES = fixtures.shapes(n=5, **SMALL)
MATRIX = transpose_fixtures.matrix()
SIZES = transpose_fixtures.sizes(chosen=(256, 1000, 1023, 1024, 4096, 5000, 8191, 16384, 65536))

Writer = Callable[[str, dict[str, Any]], Path]


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
def write(tmp_path: Path) -> Writer:
    """Writes JSON into the test's folder."""

    def write_json(name: str, value: dict[str, Any]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write_json


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares with a golden file; UPDATE_GOLDEN=1 writes it anew."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name}: if meant, UPDATE_GOLDEN=1"

    return compare


def line(text: str, start: str) -> str:
    """The first line that starts so."""
    return next(x for x in text.splitlines() if x.startswith(start))


def text_of(figure: Figure, gid: str) -> list[str]:
    return [t.get_text() for t in figure.texts if t.get_gid() == gid]


def lines_of(axes: Axes, gid: str) -> list[Any]:
    return [x for x in axes.lines if x.get_gid() == gid]


def find(results: dict[str, Any], key: str) -> dict[str, Any]:
    """The record with this key."""
    return next(r for r in results["records"] if r["key"] == key)
