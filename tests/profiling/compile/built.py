"""The output of `make mojo` and `make triton`; without it, tests are skipped with a reason."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compile.compiled import ROOT
from sass.cubin import program

from reprolab.errors import InputError


def built(language: str, family: str) -> list[tuple[dict[str, Any], Path]]:
    """(manifest of the kernel, PTX) of every variant and architecture."""
    manifests = sorted((ROOT / "build/ptx").glob(f"sm_*/{language}_*.json"))
    read = [(json.loads(path.read_text()), path.parent) for path in manifests]
    pairs = [
        (facts, place / variant["file"])
        for facts, place in read
        if facts["family"] == family
        for variant in facts["variants"].values()
    ]
    if not pairs:
        pytest.skip(f"{language}, {family}: not built; make {language}")
    return pairs


def assembled(ptx: Path, cubin: Path, arch: str = "") -> str:
    """ptxas' output when it compiles the PTX, for its own architecture or another."""
    target = arch or ptx.read_text().split(".target ")[1].split()[0]
    try:
        command = [program("ptxas"), "-v", f"-arch={target}", ptx, "-o", cubin]
    except InputError as missing:
        pytest.skip(f"NOT TESTED, {missing}")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr
