"""Every command and path that Markdown files name must exist, and README must be short.

Commands are lines of ```sh blocks and `make ...` in backticks; paths are links and backticked words
with a slash.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from make_targets import ROOT

LINK = re.compile(r'(?:\]\(|src=")([^)"\s#]+)')  # without its anchor
PATH = re.compile(r"`((?!path/)[\w.-]+(?:/[\w.-]+)+/?)`")
COMMAND = re.compile(r"\bmake ([a-z][a-z0-9_-]*)(?![a-z0-9_<>-])")
MADE_BY_COMMANDS = ("build/", "dist/", "results/", ".venv/")  # written by commands


def make_targets(root: Path) -> set[str]:
    """The targets that the Makefile spells out, and one for each experiment."""
    text = (root / "Makefile").read_text()
    experiments = {f"reproduce-{file.parent.name}" for file in root.glob("experiments/*/*.toml")}
    return set(re.findall(r"^([a-z0-9][a-z0-9_-]*):", text, re.MULTILINE)) | experiments


def is_there(path: str, here: Path, root: Path) -> bool:
    if "://" in path or path.startswith(MADE_BY_COMMANDS):
        return True
    places = [(base / path.rstrip("/")).resolve() for base in (here, root)]
    return any(place.is_relative_to(root) and place.exists() for place in places)


def faults(file: Path, root: Path = ROOT) -> Iterator[str]:
    fence, targets = "", make_targets(root)
    for number, line in enumerate(file.read_text().split("\n"), 1):
        where = f"{file.relative_to(root)}:{number}"
        if line.startswith("```"):
            fence = "" if fence else line[3:].strip() or "text"
            continue
        commands = [line] if fence == "sh" else re.findall(r"`(make [^`]*)`", line) * (not fence)
        for target in (name for command in commands for name in COMMAND.findall(command)):
            if target not in targets:
                yield f"{where}: the Makefile has no target '{target}'"
        for path in [] if fence else [*LINK.findall(line), *PATH.findall(line)]:
            if not is_there(path, file.parent, root):
                yield f"{where}: there is no '{path}'"


FILES = [
    file
    for glob in ("*.md", "docs/*.md", "experiments/*/*.md", "data/recorded/*.md")
    for file in sorted(ROOT.glob(glob))
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_commands_and_paths_exist(file):
    assert list(faults(file)) == []


def test_readme_is_short_and_begins_with_a_command():
    """At most 90 lines and 900 words; a claim has at most 25 words and one number per GPU."""
    text = (ROOT / "README.md").read_text()
    lines = text.split("\n")
    assert len(lines) <= 90 and len(text.split()) <= 900
    assert any(line.startswith("make ") for line in lines[:12])
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("| Claimed")) :]
    rows = [line.strip("| ").split(" | ") for line in table[2 : table.index("")]]
    assert len(rows) <= 10
    for claim, *ours in rows:
        assert len(re.findall(r"[\w.'%-]+", claim)) <= 25, claim
        assert all(len(re.findall(r"[\d.]+(?:-[\d.]+)?", cell)) <= 1 for cell in ours), claim


def test_a_missing_command_or_path_is_named_with_its_line(tmp_path):
    (tmp_path / "Makefile").write_text("test: build ## Run\n")
    page = tmp_path / "README.md"
    page.write_text("\n`make tset`\n[the map](docs/mop.md)\n")
    assert list(faults(page, tmp_path)) == [
        "README.md:2: the Makefile has no target 'tset'",
        "README.md:3: there is no 'docs/mop.md'",
    ]
