"""Digests of code, by the reader that the measuring programs have: profiling/machine_code.hpp."""

from functools import cache
from pathlib import Path

from records.json_files import ROOT
from sass import cubin, tools


@cache
def program() -> Path:
    cubin.build("code_digest")
    return ROOT / f"build/{cubin.PRESET}/bin/code_digest"


def of(file: Path) -> str:
    """The digest of a cubin, or of PTX."""
    return tools.output_of([program(), file]).split()[1]
