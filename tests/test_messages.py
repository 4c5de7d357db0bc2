"""The golden file of messages, with which conftest.py and tests/messages.hpp compare."""

import json
import os
import re

import pytest

from reprolab.json_files import ROOT


def test_a_message_that_the_file_lacks_fails(message):
    if os.environ.get("UPDATE_GOLDEN"):
        pytest.skip("UPDATE_GOLDEN adds messages")
    with pytest.raises(AssertionError, match="UPDATE_GOLDEN"):
        message("a message that no file has")


def test_every_entry_has_a_test(request):
    """A renamed test leaves its old entry. Files that are not run are not checked."""
    config = request.config
    if config.option.keyword or any("::" in argument for argument in config.args):
        pytest.skip("some tests of a file are not run")
    tests = {item.nodeid for item in request.session.items}
    files = {test.partition("::")[0] for test in tests}
    entries = entries_by_file()
    assert [file for file in entries if not (ROOT / file).is_file()] == []
    assert [e for file in files for e in entries.get(file, ()) if e not in tests] == []


def test_every_entry_of_googletest_has_a_test():
    for file, entries in entries_by_file().items():
        if file.endswith(".py"):
            continue
        declared = re.findall(r"^TEST\w*\(\s*(\w+),\s*(\w+)\)", (ROOT / file).read_text(), re.M)
        for entry in entries:
            suite, name = entry.partition("::")[2].split(".")
            assert (suite.rpartition("/")[2], name.partition("/")[0]) in declared, entry


def entries_by_file() -> dict[str, list[str]]:
    entries = json.loads((ROOT / "tests/messages.json").read_text(encoding="utf-8"))
    by_file: dict[str, list[str]] = {}
    for entry in entries:
        by_file.setdefault(entry.partition("::")[0], []).append(entry)
    return by_file
