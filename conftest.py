"""JSON files in the test's own folder, refusals, and Ctrl-C for started programs."""

import json
import signal
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from compile.compiled import LanguageError

from reprolab import results
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab_nf4 import DropinError

# A shell that starts the tests in the background has them, and what they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def recorded_once() -> Iterator[None]:
    """Tests of one process share the recorded result files, which take seconds to read."""
    original, recorded = results.result_file, ROOT / "data/recorded"
    read = lru_cache(maxsize=None)(original)
    with pytest.MonkeyPatch.context() as patch:
        choose = lambda file: (read if file.is_relative_to(recorded) else original)(file)  # noqa: E731
        patch.setattr(results, "result_file", choose)
        yield


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
    """The one line of a call's error."""

    def call(function: Callable[..., Any], *given: Any, **options: Any) -> str:
        with pytest.raises((InputError, DropinError, LanguageError)) as error:
            function(*given, **options)
        assert str(error.value).isprintable()
        return str(error.value)

    return call
