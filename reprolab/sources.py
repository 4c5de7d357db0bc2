"""The sources that the rows of result files depend on, and whether they are those of the commit.

`python3 -I reprolab/sources.py find [COMPILED]` prints as JSON the sources for the result file of a
program that was compiled from sources of that digest; `compiled FILE` writes the digest as a C++
header, for the build. Needs only Python's standard library.
"""

from __future__ import annotations  # for the python3 of older systems

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = "reprolab/row_sources"
COMPILED = (".cpp", ".hpp", ".cu", ".cuh", ".h", ".map", "CMakeLists.txt", "CMakePresets.json")

AS_PATHS = {"encoding": "utf-8", "errors": "surrogateescape"}  # as Python has file names

Listing = dict[str, str]  # git's id of the content, by path


class Sources(NamedTuple):
    """As in a result file's provenance."""

    commit: str  # "unknown" where git does not say
    dirty: bool  # whether the sources differ from the commit's
    sha256: str  # of the sources; empty in files that are older than the digest

    @classmethod
    def of(cls, provenance: dict[str, Any]) -> Sources:
        sha256 = provenance.get("sources_sha256", "")
        return cls(provenance["commit"], provenance["dirty"], sha256)

    def is_same(self, now: Sources) -> bool:
        """Whether rows of these sources need not be measured again. Rows of changed sources are
        dropped.
        """
        is_known = self.sha256 in ("", now.sha256)
        return self.commit == now.commit and is_known and not (self.dirty or now.dirty)

    def told(self) -> dict[str, Any]:
        return {"commit": self.commit, "dirty": self.dirty, "sources_sha256": self.sha256}


def find(compiled: str = "") -> Sources:
    """The sources on disk. `compiled`: the digest of those that a program was compiled from, which
    may have changed since. ValueError where REPROLAB_COMMIT is wrong.

    REPROLAB_COMMIT names the commit of sources that were copied without their history, and
    REPROLAB_DIRTY=0 says that they are just those of it.
    """
    given = os.environ.get("REPROLAB_COMMIT", "")
    if given and not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", given):
        raise ValueError("REPROLAB_COMMIT: give the 40 or 64 hexadecimal digits of a commit")
    commit = given or git("rev-parse", "HEAD", say_why=True).strip()
    listing = on_disk(commit)
    sha256, is_changed = digest(listing), False
    if compiled and compiled != compiled_digest(on_disk()):
        is_changed, sha256 = True, digest({**listing, "compiled from": compiled})
    if given:
        is_of_commit = os.environ.get("REPROLAB_DIRTY") == "0"
        own = of_commit(given) or (sha256 if is_of_commit else "")
        return Sources(given, is_changed or not is_of_commit or own != sha256, sha256)
    return Sources(commit or "unknown", not commit or of_commit(commit) != sha256, sha256)


def digest(listing: Listing) -> str:
    lines = sorted(f"{content} {path}\n" for path, content in listing.items())
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def compiled_digest(listing: Listing) -> str:
    return digest({path: listing[path] for path in listing if path.endswith(COMPILED)})


@cache
def of_commit(commit: str) -> str | None:
    """The digest of a commit's own sources, only from its tree: git's index may ignore changes.
    None if the commit is not in this repository.
    """
    listed = git("show", f"{commit}:{LIST}")
    tree = git("ls-tree", "-r", "-z", "--full-tree", commit)
    if not listed or not tree:
        return None
    patterns, listing = patterns_of(listed), {}
    for entry in tree.split("\0")[:-1]:
        facts, path = entry.split("\t", 1)
        if is_source(path, patterns):
            listing[path] = facts.split()[2]
    return digest(listing)


def is_of_other_sources(provenance: dict[str, Any]) -> bool:
    """Whether a result file names a commit whose own sources are known to be different."""
    sha256 = Sources.of(provenance).sha256
    return bool(sha256) and of_commit(provenance["commit"]) not in (None, sha256)


def patterns_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def is_source(path: str, patterns: list[str]) -> bool:
    """Whether the patterns include a path; those that begin with :! exclude."""

    def in_any(names: Iterator[str]) -> bool:
        return any(path.startswith(f"{name}/") or fnmatchcase(path, name) for name in names)

    without = (name[2:] for name in patterns if name.startswith(":!"))
    return in_any(name for name in patterns if not name.startswith(":!")) and not in_any(without)


def on_disk(commit: str = "") -> Listing:
    """All files, tracked or not, because the build uses all files of a folder. With a commit, ids
    are in its repository's format.
    """
    algorithm = "sha256" if len(commit) == 64 else "sha1"
    patterns = patterns_of((ROOT / LIST).read_text(encoding="utf-8"))
    named = (ROOT / name for name in patterns if not name.startswith(":!"))
    paths = {str(file.relative_to(ROOT)): file for place in named for file in files_in(place)}
    sources = {path: file for path, file in paths.items() if is_source(path, patterns)}
    return {path: content_id(file, algorithm) for path, file in sources.items()}


def files_in(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, folders, names in os.walk(place):
        yield from (Path(folder, name) for name in names)
        yield from filter(Path.is_symlink, (Path(folder, name) for name in folders))


def content_id(file: Path, algorithm: str) -> str:
    """Git's id; a different one if a file cannot be read, or is a link to a folder."""
    try:
        content = file.read_bytes() if file.is_file() else None
    except OSError:
        content = None
    if content is None:
        return "unreadable"
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content).hexdigest()


def git(*arguments: str, say_why: bool = False) -> str:
    """git's output on this folder's own repository: not on one around it, as around a tarball's
    folder, nor on one that the user's environment names. Empty if it fails, which may be reported
    on stderr in a checkout.
    """
    command = ["git", "--no-replace-objects", *arguments]
    others = "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_COMMON_DIR".split()
    own = {name: value for name, value in os.environ.items() if name not in others}
    own["GIT_CEILING_DIRECTORIES"] = str(ROOT.parent)
    given = {"cwd": ROOT, "env": own, "capture_output": True, "check": False}
    try:
        done = subprocess.run(command, **given, **AS_PATHS)
    except OSError as error:
        done = subprocess.CompletedProcess(command, 1, "", f"git: {error.strerror}")
    if done.returncode == 0:
        return done.stdout
    if say_why and (ROOT / ".git").exists():
        why = done.stderr.strip().partition("\n")[0]
        print(f"the commit of {ROOT} is not known: {why}", file=sys.stderr)
    return ""


def main(what: str, argument: str = "") -> int:
    if what == "find":
        try:
            print(json.dumps(find(argument).told()))
        except ValueError as error:
            print(json.dumps({"wrong": str(error)}))
        return 0
    text = f'#define REPROLAB_COMPILED_SOURCES "{compiled_digest(on_disk())}"\n'
    file = Path(argument)
    if not file.is_file() or file.read_text() != text:  # or all that includes it is compiled anew
        file.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
