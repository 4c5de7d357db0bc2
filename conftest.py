"""JSON files in the test's own folder, messages and refusals, and Ctrl-C for started programs."""

import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from compile.compiled import LanguageError
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab_nf4 import DropinError

# A shell that starts the tests in the background has them, and what they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def recorded_once() -> Iterator[None]:
    """Tests of one process share the recorded result files, which take seconds to read."""
    folders = sys.modules.get("reprolab.folders")
    if folders is None:  # not imported here: it needs Python 3.11, and reprolab_nf4/tests 3.10
        yield
        return
    read, recorded = lru_cache(maxsize=None)(folders.result_file), ROOT / "data/recorded"

    def result_file(file: Path) -> Any:
        return (read if file.is_relative_to(recorded) else read.__wrapped__)(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "result_file", result_file)
        yield


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    def write_json(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write_json


MESSAGES = ROOT / "tests/messages.json"  # by test: its messages, in their order


@pytest.fixture
def message(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Compares a text, without its folders, with the test's next one in tests/messages.json, and
    returns it. UPDATE_GOLDEN=1 writes the file, under a lock.
    """
    seen: list[str] = []
    is_update = bool(os.environ.get("UPDATE_GOLDEN"))
    texts = {} if is_update else json.loads(MESSAGES.read_text(encoding="utf-8"))
    golden = texts.get(node := request.node.nodeid, [])

    def compare(text: str) -> str:
        plain = text
        for folder, name in ((tmp_path, "TMP"), (tmp_path.parent, "TMPS"), (ROOT, "ROOT")):
            plain = plain.replace(str(folder), name)
        expected = golden[len(seen) : len(seen) + 1]
        assert is_update or [plain] == expected, "if meant, UPDATE_GOLDEN=1"
        seen.append(plain)
        return text

    yield compare
    if is_update:
        with MESSAGES.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            texts = {test: t for test, t in [*json.load(file).items(), (node, seen)] if t}
            file.seek(0)
            file.truncate()
            file.write(json.dumps(texts, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    else:
        assert seen == golden, "if meant, UPDATE_GOLDEN=1"


@pytest.fixture
def refused(message: Callable[[str], str]) -> Callable[..., str]:
    """The one line of a call's InputError, which is also compared as a `message`."""

    def call(function: Callable[..., Any], *given: Any, **options: Any) -> str:
        with pytest.raises((InputError, DropinError, LanguageError)) as error:
            function(*given, **options)
        assert str(error.value).isprintable()
        return message(str(error.value))

    return call
