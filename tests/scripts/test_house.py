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
    "dropin": ("kernels",),
    "records": ("reprolab_nf4",),
    "claims": ("records",),
    "languages": ("records",),
    "reprolab_nf4": (),
    "experiments": ("programs", "claims", "reprolab_nf4"),
    "matplotlib": (),
    "plots": ("experiments", "matplotlib"),
    "reprolab.py": ("plots",),
    "profiling/sass": ("languages", "plots"),
    "profiling/ncu": ("plots",),
}
IMPORT = re.compile(r'^ *(?:from|import) ([\w.]+)|^ *#include "([^"]+)"', re.MULTILINE)


def folder_of(path: str) -> str:
    """Of a file or module; sass and ncu are imported by these names."""
    parts = PurePath(path).parts
    if parts[0] == "profiling" and len(parts) > 2:
        return "/".join(parts[:2])
    found = {"sass": "profiling/sass", "ncu": "profiling/ncu", "reprolab": "reprolab.py"}
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
