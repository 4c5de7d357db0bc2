"""Checks that every command and path that Markdown files name exists.

Commands are lines of ```sh blocks and `make ...` in backticks; paths are links and backticked words
with a slash. Prints each fault with its line and exits 1.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MADE_BY_COMMANDS = ("build/", "dist/", "results/", ".venv/")  # there only after a command has run
LINK = re.compile(r'(?:\]\(|src=")([^)"\s#]+)')  # without its anchor


def make_targets() -> set[str]:
    """The targets that the Makefile spells out, and one for each experiment."""
    text = (ROOT / "Makefile").read_text()
    experiments = {f"reproduce-{file.parent.name}" for file in ROOT.glob("experiments/*/*.toml")}
    return set(re.findall(r"^([a-z0-9][a-z0-9_-]*):", text, re.MULTILINE)) | experiments


def command_faults(line: str, targets: set[str]) -> list[str]:
    return [
        f"the Makefile has no target '{target}'"
        for target in re.findall(r"\bmake ([a-z][a-z0-9_<>-]*)", line)
        if target not in targets and "<" not in target
    ]


def looks_like_a_path(word: str) -> bool:
    return bool(re.fullmatch(r"[\w.-]+(/[\w.*{}<>-]+)+/?", word)) and not word.startswith("path/")


def path_faults(word: str, here: Path) -> list[str]:
    """`word`: a link's target, or a word in backticks that looks like a path of the project."""
    if any(mark in word for mark in "*{}<>") or word.startswith(MADE_BY_COMMANDS):
        return []
    for base in (here.parent, ROOT):
        target = (base / word.rstrip("/")).resolve()
        if target.is_relative_to(ROOT) and target.exists():
            return []
    return [f"there is no '{word}'"]


def faults(path: Path, targets: set[str]) -> list[str]:
    found = []
    fence = ""
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith("```"):
            fence = "" if fence else line[3:].strip() or "text"
            continue
        problems = []
        if fence == "sh":
            problems = command_faults(line, targets)
        elif not fence:
            for command in re.findall(r"`(make [^`]*)`", line):
                problems += command_faults(command, targets)
            words = [link for link in LINK.findall(line) if "://" not in link]
            words += filter(looks_like_a_path, re.findall(r"`([^`\s]+)`", line))
            for word in words:
                problems += path_faults(word, path)
        found += [f"{path.relative_to(ROOT)}:{number}: {problem}" for problem in problems]
    return found


def main() -> int:
    targets = make_targets()
    found = [fault for name in sys.argv[1:] for fault in faults(Path(name).resolve(), targets)]
    for fault in found:
        print(fault)
    if not found:
        print(f"commands and paths: all there in {len(sys.argv) - 1} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
