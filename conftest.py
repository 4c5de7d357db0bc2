"""JSON files in the test's own folder, what is refused, and Ctrl-C for what tests start."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compile.compiled import LanguageError
from records.errors import InputError
from reprolab_nf4 import DropinError

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


@pytest.fixture
def refused() -> Callable[..., str]:
    """The one line that says why a call cannot be done with what is given."""

    def call(function: Callable[..., Any], *given: Any, **options: Any) -> str:
        with pytest.raises((InputError, DropinError, LanguageError)) as error:
            function(*given, **options)
        assert str(error.value).isprintable()
        return str(error.value)

    return call
