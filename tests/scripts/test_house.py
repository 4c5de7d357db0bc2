"""The folders of the house: which may use which (CONTRIBUTING.md), as their includes and imports
say.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

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
INCLUDE = re.compile(r'^ *#include "([^"]+)"', re.MULTILINE)


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


def used_by(file: Path) -> Iterator[str]:
    """What it includes; the modules and names that it imports, as paths."""
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
def files():
    """Of every folder but tests; scripts stand for themselves."""
    named = ("*.py", "*.cpp", "*.hpp", "*.cu", "*.cuh")
    done = subprocess.run(["git", "ls-files", *named], cwd=ROOT, check=True, capture_output=True)
    found = [
        f for f in done.stdout.decode().splitlines() if folder_of(f) not in ("tests", "scripts")
    ]
    assert len(found) > 100
    return found


def test_no_folder_uses_one_above_it(files):
    found = set()
    for file in files:
        allowed = reachable(folder_of(file))
        for used in used_by(ROOT / file):
            if folder_of(used) in MAY_USE.keys() - allowed:
                found.add(f"{file} uses {used}")
    assert not found


def test_nothing_that_measures_reads_what_sources_say(files):
    """An edited claim would make the next measurement dirty."""
    judging = {folder for folder in MAY_USE if "claims" in reachable(folder)}
    measuring = [file for file in files if folder_of(file) not in judging]
    named = re.compile(r'"[^"\n]*data/published')
    assert [f for f in measuring if named.search((ROOT / f).read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("experiments/puzzle/rules.py", "rules"),
        ("experiments/puzzle/views", "views"),  # as `from experiments.puzzle import views`
        ("experiments/counters/rules/occupancy", "rules"),
        ("experiments/end_to_end/rows.py", "experiments"),
        ("experiments/end_to_end/tests/on_cpu.py", "tests"),
        ("reprolab_nf4/csrc/calls.hpp", "reprolab_nf4/csrc"),
        ("sass/facts", "profiling/sass"),
    ],
)
def test_the_folder_of_a_module_is_known(path, folder):
    assert folder_of(path) == folder
