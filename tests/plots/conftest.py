"""Result files on disk, and golden files."""

import copy
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fixtures

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "data/published/published.json"
GOLDEN = Path(__file__).parent / "golden"

SMALL = {"models": ("qwen3-32b",)}
REPLAY = fixtures.replay(batches=(2, 8), **SMALL)
SHAPES = fixtures.shapes(n=5, **SMALL)

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


def find(results: dict[str, Any], key: str) -> dict[str, Any]:
    """The record with this key."""
    return next(r for r in results["records"] if r["key"] == key)
