"""What `make mojo` and `make triton` built here; where nothing is, tests are skipped and say so."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from languages.compiled import ROOT


def built(language: str, family: str) -> list[tuple[dict[str, Any], Path]]:
    """(manifest of the kernel, PTX) of every variant and architecture."""
    manifests = sorted((ROOT / "build/ptx").glob(f"sm_*/{language}_*.json"))
    read = [(json.loads(path.read_text()), path.parent) for path in manifests]
    found = [
        (facts, place / variant["file"])
        for facts, place in read
        if facts["family"] == family
        for variant in facts["variants"].values()
    ]
    if not found:
        pytest.skip(f"{language}, {family}: not built; make {language}")
    return found


def tool(name: str) -> str:
    """Of the CUDA toolkit, or of the project's environment."""
    wheel = sorted((ROOT / ".venv").glob(f"lib/*/site-packages/nvidia/*/bin/{name}"))
    found = shutil.which(name, path="/usr/local/cuda/bin") or shutil.which(name)
    found = found or next(map(str, wheel), None)
    if not found:
        pytest.skip(f"there is no {name}")
    return found


def assembled(ptx: Path, cubin: Path, arch: str = "") -> str:
    """What ptxas says when it compiles the PTX, for its own architecture or another."""
    target = arch or ptx.read_text().split(".target ")[1].split()[0]
    command = [tool("ptxas"), "-v", f"-arch={target}", str(ptx), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr
