"""A target names the folder of CUDA's headers. A compiler may find others by default, which hides a
missing folder until a machine without them builds the target.
"""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from reprolab.json_files import ROOT, read_json

OWN = re.compile(r'^ *# *include "([^"]+)"', re.MULTILINE)
CUDA = re.compile(
    r"^ *# *include <((?:cub/|cublas|cuda|cupti|driver_types|library_types|nvml|nvtx)[^>]*)>",
    re.MULTILINE,
)
PRESETS = [p for p in ("cpu", "gpu") if (ROOT / "build" / p / "compile_commands.json").exists()]


def reads_cuda(file: Path, seen: set[Path]) -> str:
    """The first of CUDA's headers that the file includes, itself or by others of the project."""
    seen.add(file)
    text = file.read_text(encoding="utf-8")
    if found := CUDA.search(text):
        return f"{file.relative_to(ROOT)} includes {found[1]}"
    for name in OWN.findall(text):
        other = ROOT / name  # as every header is named; generated ones are elsewhere
        if other.exists() and other not in seen and (found := reads_cuda(other, seen)):
            return found
    return ""


def has_cuda(command: list[str]) -> bool:
    joined = [word[2:] for word in command if word.startswith("-I")]
    after = [word for flag, word in pairwise(command) if flag == "-isystem"]
    return any((Path(folder) / "cuda_runtime_api.h").exists() for folder in joined + after)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_target_that_includes_cuda_names_its_folder(preset):
    commands = read_json(ROOT / "build" / preset / "compile_commands.json")
    units = [
        (Path(one["file"]), shlex.split(one["command"]))
        for one in commands
        if not one["file"].endswith(".cu")
    ]
    assert len(units) > 20
    lacking = {}
    for file, command in units:
        if not has_cuda(command) and (found := reads_cuda(file, set())):
            lacking[str(file.relative_to(ROOT))] = found
    assert not lacking


def test_a_header_that_others_include_is_found(tmp_path):
    unit = tmp_path / "unit.cxx"
    unit.write_text(f'#include "{ROOT}/harness/family.cpp"\n')
    assert "cuda" in reads_cuda(unit, set())
    unit.write_text(f'#include "{ROOT}/harness/result_file.cpp"\n')
    assert reads_cuda(unit, set()) == ""
