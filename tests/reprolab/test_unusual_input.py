"""Files larger than memory, and paths with terminal control characters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprolab.json_files import ROOT, read_json

BIDI = "a\u202eb\x1b[31m"
READ = """
import resource, sys
from pathlib import Path
from reprolab.errors import InputError
from reprolab.json_files import read_json
resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))
try:
    read_json(Path(sys.argv[1]))
except InputError as error:
    print(error)
"""


def test_a_file_larger_than_the_machines_memory_is_not_begun(tmp_path, monkeypatch, refused):
    monkeypatch.setattr(Path, "read_bytes", lambda file: pytest.fail("it is read"))
    file = tmp_path / "large.json"
    with file.open("wb") as out:
        out.truncate(2**43)  # no block of it is on the disk
    assert "memory" in refused(read_json, file)


def test_a_file_larger_than_what_may_be_used_is_one_line(tmp_path):
    file = tmp_path / "large.json"
    file.write_text("[" + "[]," * (6 * 2**20) + "[]]")
    command = [sys.executable, "-c", READ, file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "memory" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    "command",
    [
        ["scripts/python", "-m", "plots", "report", "--results={place}/no"],
        ["scripts/python", "-m", "plots", "render", "--results={place}", "--output={place}"],
        ["scripts/python", "-m", "experiments", "reproduce", "streaming"],
        ["scripts/python", "-m", "experiments.merge", "{place}/merged", "{place}"],
        ["scripts/python", "-m", "plots", "claims", "--results={place}", "--output={place}/c"],
        ["scripts/python", "-m", "plots", "record", "--results={place}", "--gpu=t4"],
    ],
)
def test_a_path_reaches_the_terminal_as_an_escape(command, tmp_path):
    place = tmp_path / BIDI
    place.mkdir()
    settings = {"RESULTS": f"{place}/no", "RECORDED": f"{place}/none", "KERNEL": BIDI}
    settings |= {
        "PEER": f"{place}=name",
        "DRY_RUN": "1",
        "MEASURE": "1",
        "BIN": "no",
        "NO_GPU_WHY": "none",
        "PROBLEM": BIDI,
    }
    words = [word.replace("{place}", str(place)) for word in command]
    env = os.environ | settings
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    shown = done.stdout + done.stderr
    assert shown and all(line.isprintable() for line in shown.splitlines()), shown
    assert "b" in shown
