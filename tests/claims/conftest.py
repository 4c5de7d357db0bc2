"""JSON files in the test's own folder, and a run of counters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from counted_run import Run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    def write_json(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write_json


@pytest.fixture
def run() -> Run:
    return Run()
