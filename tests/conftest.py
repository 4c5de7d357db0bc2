"""JSON files in the test's own folder, and Ctrl-C for what tests start."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# A shell that starts the tests in the background has them, and what they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    def write_json(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write_json
