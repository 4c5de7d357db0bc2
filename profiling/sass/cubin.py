"""A kernel's file, compiled by the build's own command for one architecture, so that ccache serves
both; or assembled, where another language's compiler made PTX of it. And digests of its code, by
the reader that the measuring programs have: profiling/machine_code.hpp.
"""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from records.errors import InputError
from records.json_files import ROOT, read_text
from sass import tools

PRESET = "sass"  # its commands are those of every preset, but for the architectures
FOLDER = ROOT / "build/sass"


def known_architectures() -> list[str]:
    return tools.output_of([tools.program("nvcc"), "--list-gpu-code"]).split()


def architecture(text: str) -> str:
    """'sm_80' of 'sm_80' or '80'; InputError where nvcc does not know it."""
    name, known = text if text.startswith("sm_") else f"sm_{text}", known_architectures()
    if name not in known:
        raise InputError(f"ARCH: nvcc does not compile for '{text}'; it knows {', '.join(known)}")
    return name


def architectures() -> list[str]:
    """Those of PRESET=all-archs that this nvcc knows."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    (preset,) = (preset for preset in presets if preset["name"] == "all-archs")
    numbers = re.findall(r"\d+", preset["cacheVariables"]["CMAKE_CUDA_ARCHITECTURES"])
    known = known_architectures()
    return [f"sm_{number}" for number in numbers if f"sm_{number}" in known]


@cache
def build_commands() -> dict[Path, tuple[Path, list[str]]]:
    """The folder and the words of the command by which the build compiles each file."""
    build()
    entries = json.loads((ROOT / f"build/{PRESET}/compile_commands.json").read_text())
    return {
        Path(entry["file"]): (Path(entry["directory"]), shlex.split(entry["command"]))
        for entry in entries
    }


def build(*targets: str) -> None:
    """Builds the targets; without any, only configures."""
    environment = os.environ | {"PRESET": PRESET, "ARCH": ""}
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["scripts/build", *targets]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise InputError(f"sass: {(done.stderr.splitlines() or ['scripts/build failed'])[-1]}")


def prepare() -> None:
    """What is done once, before there are threads."""
    build_commands(), digest_program()


@cache
def digest_program() -> Path:
    build("code_digest")
    return ROOT / f"build/{PRESET}/bin/code_digest"


@cache
def digest(file: Path) -> str:
    """Of a cubin, or of PTX."""
    return tools.output_of([digest_program(), file]).split()[1]


def command_for(source: Path, arch: str, lines: bool = False) -> tuple[Path, list[str]]:
    """The build's command, but for one architecture, without output, and with the table of source
    lines if asked for: it makes an object three times as large.
    """
    if source not in build_commands():
        raise InputError(f"sass: the build does not compile {source.relative_to(ROOT)}")
    folder, words = build_commands()[source]
    compiler = next(i for i, word in enumerate(words) if Path(word).name.startswith("nvcc"))
    output = words.index("-o")
    words = [*words[compiler:output], *words[output + 2 :]]
    targets = [word for word in words if word.startswith("--generate-code=")]
    number = arch.removeprefix("sm_")
    if any(f"compute_{number}a" in word for word in targets):  # code for this architecture alone
        number += "a"
    target = f"--generate-code=arch=compute_{number},code=[compute_{number},sm_{number}]"
    words = [target if word == targets[0] else word for word in words if word not in targets[1:]]
    if lines:  # nvcc then names the code itself, and would warn of another name
        words = [word for word in words if not word.startswith("-Xfatbin=--ident=")]
        words.append("-lineinfo")
    cache = shutil.which("ccache")
    return folder, [cache, *words] if cache else words


def compiled(source: Path, arch: str, lines: bool = False) -> Path:
    """The cubin of a file; compiled again only where the file, a header or the command changed."""
    folder, command = command_for(source, arch, lines)
    name = f"{source.parent.name}-{source.stem}{'-lines' if lines else ''}"
    folders = ["common", "kernels"]
    if source.relative_to(ROOT).parts[0] not in folders:
        folders += ["experiments", "profiling"]
    sources = [source, *headers(*folders)]

    def make(cubin: Path) -> None:
        compile_to(cubin, folder, command)

    return made_by(make, command, FOLDER / arch, name, sources)


def compile_to(cubin: Path, folder: Path, command: Sequence[str]) -> None:
    """Runs a command_for, and takes the cubin out of the object; an empty one where there is none,
    because the file calls a library.
    """
    with TemporaryDirectory(dir=cubin.parent) as scratch:
        tools.output_of([*command, "-o", f"{scratch}/code.o"], folder)
        tools.output_of([tools.program("cuobjdump"), "--extract-elf", "all", "code.o"], scratch)
        found = list(Path(scratch).glob("*.cubin"))
        if not found:
            cubin.touch()
        for file in found:
            file.replace(cubin)


def assembled(ptx: Path, arch: str) -> Path:
    """The cubin of what another language's compiler made; `arch` has the features of its target."""
    target = re.search(r"^\.target\s+(sm_\w+)", read_text(ptx), re.MULTILINE)
    if not target:
        raise InputError(f"{ptx}: names no .target")
    command = [str(tools.program("ptxas")), f"-arch={target[1]}", "-lineinfo", str(ptx)]

    def make(cubin: Path) -> None:
        tools.output_of([*command, "-o", str(cubin)], ROOT)

    return made_by(make, command, FOLDER / arch, f"ptx-{ptx.stem}", [ptx])


def made_by(
    make: Callable[[Path], None],
    command: Sequence[str],
    place: Path,
    name: str,
    sources: Sequence[Path],
) -> Path:
    content = hashlib.sha256(f"{tools.nvcc_version()}\0{command}\0".encode())
    for file in sources:
        content.update(file.read_bytes())
    place = place / f"{name}-{content.hexdigest()[:16]}.cubin"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_suffix(f".{os.getpid()}.tmp")
        try:
            make(unfinished)
            with suppress(FileExistsError):  # another process was faster: its names are read now
                place.hardlink_to(unfinished)
            for older in set(place.parent.glob(f"{name}-{'[0-9a-f]' * 16}.cubin")) - {place}:
                older.unlink(missing_ok=True)
        finally:
            unfinished.unlink(missing_ok=True)
    return place


@cache
def headers(*folders: str) -> list[Path]:
    """Every header that a file may include which uses these folders alone."""
    found = [p for name in folders for p in (ROOT / name).rglob("*")]
    return sorted(p for p in found if p.suffix in (".hpp", ".cuh"))
