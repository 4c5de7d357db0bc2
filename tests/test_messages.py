"""The golden file of messages, with which the fixture `message` compares."""

import json
import os

import pytest

from records.json_files import ROOT


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
    entries = json.loads((ROOT / "tests/messages.json").read_text(encoding="utf-8"))
    of_file = {entry: entry.partition("::")[0] for entry in entries}
    assert [e for e, file in of_file.items() if not (ROOT / file).is_file()] == []
    assert [e for e, file in of_file.items() if file in files and e not in tests] == []
