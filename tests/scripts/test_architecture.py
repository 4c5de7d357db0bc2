"""Rules of CONTRIBUTING.md: which folder may use which, as includes and imports say."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

from reprolab.json_files import ROOT

# Each may use those below it that it names, and what those use.
MAY_USE = {
    "reference": (),
    "kernels": (),
    "profiling": ("kernels",),
    "harness": ("kernels", "reference", "profiling"),
    "reprolab_nf4/csrc": ("kernels", "reference"),
    "reprolab": ("reprolab_nf4",),
    "reprolab/claims": ("reprolab",),
    "profiling/compile": (),
    "reprolab_nf4": (),
    "experiments": ("harness", "reprolab", "reprolab_nf4"),
    "rules": ("reprolab/claims", "experiments"),
    "matplotlib": (),
    "plots": ("reprolab/claims", "matplotlib"),
    "derived": ("plots", "rules"),
    "profiling/sass": ("profiling/compile", "reprolab"),
    "profiling/ncu.py": ("reprolab",),
}
OF_EXPERIMENTS = ("rules", "derived", "figures")  # modules that stand above plots/
INCLUDE = re.compile(r'^ *#include "([^"]+)"', re.MULTILINE)
WRITTEN = ("build", "dist", "results")  # folders of what commands write
CODE = (".py", ".cpp", ".hpp", ".cu", ".cuh")


def folder_of(path: str) -> str:
    """The folder of a file or module. What experiments decide and derive counts as folders of
    their own; compile and sass are imported by these names.
    """
    parts = PurePath(path).parts
    if parts == ("reprolab", "__init__.py"):  # users' `load`, which decides claims
        return "reprolab/claims"
    if parts[0] == "kernels" and parts[-1] == "family.cu":  # next to the kernels that it measures
        return "harness"
    if "tests" in parts or parts == ("conftest.py",):
        return "tests"
    if parts[0] == "experiments" and (own := PurePath(*parts[2:3]).stem) in OF_EXPERIMENTS:
        return "derived" if own == "figures" else own
    if "/".join(parts[:2]) in MAY_USE:
        return "/".join(parts[:2])
    return f"profiling/{parts[0]}" if parts[0] in ("compile", "sass") else parts[0]


def used_by(file: Path) -> Iterator[str]:
    """The files that it includes; the modules and names that it imports, as paths."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield from INCLUDE.findall(text)
        return
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
        if isinstance(node, ast.ImportFrom):
            names = [node.module, *(f"{node.module}.{name}" for name in names)]
        yield from (name.replace(".", "/") for name in names)


def reachable(folder: str) -> set[str]:
    below = MAY_USE[folder]
    return {folder, *below, *(further for one in below for further in reachable(one))}


@pytest.fixture(scope="module")
def every_file():
    """Also of a tarball, without git."""
    places = [p for p in ROOT.iterdir() if p.name not in WRITTEN and not p.name.startswith(".")]
    files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
    return sorted(str(f.relative_to(ROOT)) for f in files if f.suffix in CODE)


@pytest.fixture(scope="module")
def files(every_file):
    """The files of every folder except tests; scripts depend on no folder."""
    code = [file for file in every_file if folder_of(file) not in ("tests", "scripts")]
    assert len(code) > 100
    return code


def test_no_folder_uses_one_above_it(files):
    wrong = set()
    for file in files:
        allowed = reachable(folder_of(file))
        for used in used_by(ROOT / file):
            if folder_of(used) in MAY_USE.keys() - allowed:
                wrong.add(f"{file} uses {used}")
    assert not wrong
