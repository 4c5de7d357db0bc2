"""The commit of the sources that rows of result files depend on, and whether they differ from it.

`python3 -I reprolab/sources.py` prints both as JSON, for a program's result file. Needs only
Python's standard library.
"""

from __future__ import annotations  # for the python3 of older systems

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# What rows depend on, as git's pathspecs. Left out is what only reads results, and what a row says
# itself: options, and the compiler and architectures that scripts/ chose.
ROW_SOURCES = """CMakeLists.txt CMakePresets.json data/counters.json
data/families.json data/models.json experiments harness kernels profiling reference reprolab
reprolab_nf4 :!*.md :!*/tests/* :!experiments/*/rules*
:!experiments/*/derived.py :!experiments/*/figures.py :!experiments/*/experiment.toml
:!profiling/ncu.py :!reprolab/claims :!reprolab/compare.py :!reprolab/record.py""".split()


class Sources(NamedTuple):
    """As in a result file's provenance."""

    commit: str  # "unknown" where git does not say
    dirty: bool  # whether the sources differ from the commit's

    @classmethod
    def of(cls, provenance: dict[str, Any]) -> Sources:
        return cls(provenance["commit"], provenance["dirty"])

    def is_same(self, now: Sources) -> bool:
        """Whether rows of these sources need not be measured again."""
        return self == now and not now.dirty


def find() -> Sources:
    """The sources on disk. ValueError where REPROLAB_COMMIT is wrong, which names the commit of
    sources that were copied without their history; REPROLAB_DIRTY=0 says that they are its own.
    """
    if given := os.environ.get("REPROLAB_COMMIT", ""):
        if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", given):
            raise ValueError("REPROLAB_COMMIT: give the 40 or 64 hexadecimal digits of a commit")
        return Sources(given, os.environ.get("REPROLAB_DIRTY") != "0")
    commit = git("rev-parse", "HEAD", say_why=True).strip()
    changed = git("status", "--porcelain", "--untracked-files=all", "--", *ROW_SOURCES, other="?")
    return Sources(commit or "unknown", bool(changed) or not commit)


def git(*arguments: str, say_why: bool = False, other: str = "") -> str:
    """git's output on this folder's own repository: not on one around it, as around a tarball's
    folder, nor on one that the user's environment names. `other`, if it fails, which may be
    reported on stderr in a checkout.
    """
    command = ["git", "--no-replace-objects", "--no-optional-locks", *arguments]
    others = "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_COMMON_DIR".split()
    own = {name: value for name, value in os.environ.items() if name not in others}
    own["GIT_CEILING_DIRECTORIES"] = str(ROOT.parent)
    as_paths = {"encoding": "utf-8", "errors": "surrogateescape"}  # as Python has file names
    given = {"cwd": ROOT, "env": own, "capture_output": True, "check": False}
    try:
        done = subprocess.run(command, **given, **as_paths)
    except OSError as error:
        done = subprocess.CompletedProcess(command, 1, "", f"git: {error.strerror}")
    if done.returncode == 0:
        return done.stdout
    if say_why and (ROOT / ".git").exists():
        why = done.stderr.strip().partition("\n")[0]
        print(f"the commit of {ROOT} is not known: {why}", file=sys.stderr)
    return other


if __name__ == "__main__":
    try:
        print(json.dumps(find()._asdict()))
    except ValueError as error:
        print(json.dumps({"wrong": str(error)}))
