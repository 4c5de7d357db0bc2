"""Every command, counter and path that Markdown files name must exist.

Commands are lines of ```sh blocks and `make ...` in backticks; paths are links and backticked words
with a slash.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from make_targets import ROOT

LINK = re.compile(r'(?:\]\(|src=")([^)"\s#]+)')  # without its anchor
PATH = re.compile(r"`((?!path/)[\w.-]+(?:/[\w.-]+)+/?)`")
COUNTERS = re.compile(r"METRICS=(\S+)")
COMMAND = re.compile(r"\bmake ([a-z][a-z0-9_-]*)(?![a-z0-9_<>-])")
COLUMNS = {
    column["id"] for column in json.loads((ROOT / "data/counters.json").read_text())["counters"]
}
MADE_BY_COMMANDS = ("build/", "dist/", "results/", ".venv/")  # written by commands


def make_targets() -> set[str]:
    """The targets that the Makefile spells out, and one for each experiment."""
    text = (ROOT / "Makefile").read_text()
    experiments = {f"reproduce-{file.parent.name}" for file in ROOT.glob("experiments/*/*.toml")}
    return set(re.findall(r"^([a-z0-9][a-z0-9_-]*):", text, re.MULTILINE)) | experiments


def is_there(path: str, here: Path) -> bool:
    if "://" in path or path.startswith(MADE_BY_COMMANDS):
        return True
    places = [(base / path.rstrip("/")).resolve() for base in (here, ROOT)]
    return any(place.is_relative_to(ROOT) and place.exists() for place in places)


def faults(file: Path) -> Iterator[str]:
    fence, targets = "", make_targets()
    for number, line in enumerate(file.read_text().split("\n"), 1):
        where = f"{file.relative_to(ROOT)}:{number}"
        if line.startswith("```"):
            fence = "" if fence else line[3:].strip() or "text"
            continue
        commands = [line] if fence == "sh" else re.findall(r"`(make [^`]*)`", line) * (not fence)
        for target in (name for command in commands for name in COMMAND.findall(command)):
            if target not in targets:
                yield f"{where}: the Makefile has no target '{target}'"
        for name in (n for names in COUNTERS.findall(" ".join(commands)) for n in names.split(",")):
            if name not in COLUMNS and "__" not in name:  # as CUPTI's names have it
                yield f"{where}: there is no counter {name}"
        for path in [] if fence else [*LINK.findall(line), *PATH.findall(line)]:
            if not is_there(path, file.parent):
                yield f"{where}: there is no '{path}'"


FILES = [
    file
    for glob in ("*.md", "docs/*.md", "experiments/*/*.md", "data/recorded/*.md")
    for file in sorted(ROOT.glob(glob))
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_commands_and_paths_exist(file):
    assert list(faults(file)) == []
