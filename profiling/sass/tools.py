"""nvcc, and the two programs that read its output: from the toolkit, or else from PyPI."""

import importlib.metadata
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from reprolab.errors import InputError
from reprolab.json_files import ROOT

WHERE_FROM = {
    "nvcc": "install the CUDA toolkit, 12.4 or newer; no GPU is needed",
    "nvdisasm": "run make deps",
    "cuobjdump": "run make deps",
    "ptxas": "install the CUDA toolkit, whose nvcc needs it too",
}


def program(name: str) -> Path:
    """InputError if it is missing."""
    path = shutil.which(name) or packaged(name)
    if not path:
        raise InputError(f"sass: there is no {name} on this machine: {WHERE_FROM[name]}")
    return Path(path)


def require_all() -> None:
    """InputError for the first missing one of the tools that every command needs."""
    for name in ("nvcc", "nvdisasm", "cuobjdump"):
        program(name)


def packaged(name: str) -> str:
    """The program in NVIDIA's package for this Python; empty if that is not installed."""
    try:
        files = importlib.metadata.files(f"nvidia-cuda-{name}") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    return next((str(f.locate()) for f in files if f.name == name), "")


def output_of(command: Sequence[str | Path], folder: Path = ROOT) -> str:
    """The command's output; InputError with the first line of its stderr if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        why = next((line for line in lines if "error" in line.lower()), [*lines, "no reason"][0])
        raise InputError(f"sass: {Path(command[0]).name} failed: {why}")
    return done.stdout


@cache
def nvcc_version() -> str:
    """'13.0.88'"""
    text = output_of([program("nvcc"), "--version"])
    return text.rpartition("release ")[2].partition(", V")[2].split()[0]
