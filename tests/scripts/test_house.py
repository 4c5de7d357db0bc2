"""The folders of the house: which may use which (CONTRIBUTING.md), as their includes and imports
say.
"""

import re
import subprocess
from pathlib import PurePath

from records.json_files import ROOT

# Each may use those below it that it names, and what those use.
MAY_USE = {
    "common": (),
    "reference": ("common",),
    "kernels": ("common",),
    "profiling": ("common",),
    "harness": ("kernels", "reference", "profiling"),
    "programs": ("harness",),
    "reprolab_nf4/csrc": ("kernels",),
    "records": ("reprolab_nf4",),
    "claims": ("records",),
    "compile": ("records",),
    "reprolab_nf4": (),
    "experiments": ("programs", "records", "reprolab_nf4"),
    "rules": ("claims", "experiments"),
    "matplotlib": (),
    "plots": ("claims", "matplotlib"),
    "views": ("plots", "rules"),
    "reprolab": ("plots",),
    "profiling/sass": ("compile",),
    "profiling/ncu": ("records",),
}
IMPORT = re.compile(r'^ *(?:from|import) ([\w.]+)|^ *#include "([^"]+)"', re.MULTILINE)


def folder_of(path: str) -> str:
    """Of a file or module: that of an experiment's rules and views is what they are. sass and ncu
    are imported by these names.
    """
    parts = PurePath(path).parts
    if "tests" in parts or parts == ("conftest.py",):
        return "tests"
    if parts[0] == "experiments" and len(parts) > 2 and PurePath(parts[2]).stem in MAY_USE:
        return PurePath(parts[2]).stem
    if "/".join(parts[:2]) in MAY_USE:
        return "/".join(parts[:2])
    found = {"sass": "profiling/sass", "ncu": "profiling/ncu"}
    return found.get(parts[0], parts[0])


def reachable(folder: str) -> set[str]:
    below = MAY_USE[folder]
    return {folder, *below, *(further for one in below for further in reachable(one))}


def test_no_folder_uses_one_above_it():
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.cpp", "*.hpp", "*.cu", "*.cuh"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = [f for f in listed.stdout.splitlines() if folder_of(f) != "tests"]
    assert len(files) > 100
    found = set()
    for file in files:
        for module, header in IMPORT.findall((ROOT / file).read_text(encoding="utf-8")):
            used = folder_of(header or module.replace(".", "/"))
            if used in MAY_USE and used not in reachable(folder_of(file)):
                found.add(f"{file} uses {header or module}")
    assert not found
