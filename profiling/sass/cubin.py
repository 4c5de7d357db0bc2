"""Cubins: a kernel's file, compiled by the build's own command for one architecture; or assembled
from the PTX of another language's compiler.
"""

import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_text

PRESET = "sass"  # its commands are those of every preset, but for the architectures
FOLDER = ROOT / "build/sass"
COMMENT = re.compile(rb"""^([^"']*?)//.*""")
INCLUDED = re.compile(r'^\s*#\s*include\s+"(.+)"', re.MULTILINE)
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


Command = tuple[Path, list[str]]  # the folder and the words


@cache
def build_commands() -> dict[Path, Command]:
    """The command by which the build compiles each file; of a preset that is only configured."""
    environment = os.environ | {"PRESET": PRESET, "ARCH": ""}
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["scripts/build"], cwd=ROOT, env=environment, capture_output=True, text=True
        )
    if done.returncode != 0:
        raise InputError(f"sass: {(done.stderr.splitlines() or ['scripts/build failed'])[-1]}")
    entries = json.loads((FOLDER / "compile_commands.json").read_text())
    return {
        Path(entry["file"]): (Path(entry["directory"]), shlex.split(entry["command"]))
        for entry in entries
    }


def command_for(source: Path, arch: str) -> Command:
    """The build's command for one architecture, to a cubin; without its output file."""
    if source not in build_commands():
        raise InputError(f"sass: the build does not compile {source.relative_to(ROOT)}")
    folder, words = build_commands()[source]
    compiler = next(i for i, word in enumerate(words) if Path(word).name.startswith("nvcc"))
    output = words.index("-o")
    kept = [*words[compiler:output], *words[output + 2 :]]
    kept = [w for w in kept if w not in ("-c", "-lineinfo") and "--generate-code=" not in w]
    number = arch.removeprefix("sm_")
    if any(f"compute_{number}a" in word for word in words):  # code for this architecture alone
        number += "a"
    return folder, [*kept, f"--generate-code=arch=compute_{number},code=sm_{number}", "-cubin"]


def compiled(source: Path, arch: str) -> Path:
    """The cubin of a file; compiled again only if the file, a header that it includes, or the
    command has changed."""
    folder, command = command_for(source, arch)
    return made_by(command, folder, place_of(source, arch))


def place_of(source: Path, arch: str) -> Path:
    """Where the cubin of a file is; the name has a digest of what it is made from."""
    name = f"{source.parent.name}-{source.stem}"
    command = command_for(source, arch)[1]
    return FOLDER / arch / file_name(name, command, with_headers(source))


def assembled(ptx: Path, arch: str) -> Path:
    """The cubin of another language's PTX; `arch` has the features of its target."""
    target = re.search(r"^\.target\s+(sm_\w+)", read_text(ptx), re.MULTILINE)
    if not target:
        raise InputError(f"{ptx}: names no .target")
    command = [str(program("ptxas")), f"-arch={target[1]}", str(ptx)]
    place = FOLDER / arch / file_name(f"ptx-{ptx.stem}", command, [ptx])
    return made_by(command, ROOT, place)


def file_name(name: str, command: Sequence[str], sources: Sequence[Path]) -> str:
    """With a digest that is the same in every checkout, and whatever comments say: without the
    compiler's path, the root's, and comments."""
    words = [word.replace(str(ROOT), "") for word in command[1:]]
    content = hashlib.sha256(f"{nvcc_version()}\0{words}\0".encode())
    for file in sources:
        content.update(without_comments(file.read_bytes()))
    return f"{name}-{content.hexdigest()[:16]}.cubin"


def without_comments(text: bytes) -> bytes:
    """Also without empty lines; a file with the other kind of comment stays as it is."""
    lines = text.splitlines()
    if b"/*" not in text:
        lines = [COMMENT.sub(rb"\1", line).rstrip() for line in lines]
    return b"\n".join(filter(None, lines))


def made_by(command: Sequence[str], folder: Path, place: Path) -> Path:
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_suffix(f".{os.getpid()}.tmp")
        try:
            output_of([*command, "-o", str(unfinished)], folder)
            unfinished.rename(place)
        finally:
            unfinished.unlink(missing_ok=True)
    return place


@cache
def with_headers(source: Path) -> list[Path]:
    """The file, and the project's headers that it includes, also through others."""
    files = [source]
    for file in files:  # which grows
        names = INCLUDED.findall(file.read_text(encoding="utf-8", errors="replace"))
        named = dict.fromkeys(folder / name for name in names for folder in (file.parent, ROOT))
        files += [header for header in named if header not in files and header.is_file()]
    return files
