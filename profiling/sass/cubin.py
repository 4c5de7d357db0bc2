"""Cubins: a kernel's file, compiled by the build's own command for one architecture; or assembled
from the PTX of another language's compiler. And digests of code, by the reader of the measuring
programs: profiling/machine_code.hpp.
"""

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_text
from sass import tools

PRESET = "sass"  # its commands are those of every preset, but for the architectures
FOLDER = ROOT / "build/sass"
BUILT = "gpu"  # the preset whose object files are used where they are of the same command
COMMENT = re.compile(rb"""^([^"']*?)//.*""")
INCLUDED = re.compile(r'^\s*#\s*include\s+"(.+)"', re.MULTILINE)


def known_architectures() -> list[str]:
    return tools.output_of([tools.program("nvcc"), "--list-gpu-code"]).split()


def architecture(text: str) -> str:
    """'sm_80' from 'sm_80' or '80'; InputError if nvcc does not support it."""
    name, known = text if text.startswith("sm_") else f"sm_{text}", known_architectures()
    if name not in known:
        raise InputError(f"ARCH: nvcc does not compile for '{text}'; it knows {', '.join(known)}")
    return name


def architectures() -> list[str]:
    """The architectures of PRESET=all-archs that this nvcc supports."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    (preset,) = (preset for preset in presets if preset["name"] == "all-archs")
    numbers = re.findall(r"\d+", preset["cacheVariables"]["CMAKE_CUDA_ARCHITECTURES"])
    known = known_architectures()
    return [f"sm_{number}" for number in numbers if f"sm_{number}" in known]


Command = tuple[Path, list[str]]  # the folder and the words


@cache
def build_commands() -> dict[Path, Command]:
    """The command by which the build compiles each file."""
    build()
    return commands_of(PRESET)


@cache
def commands_of(preset: str) -> dict[Path, Command]:
    """Empty if the preset is not configured."""
    with suppress(FileNotFoundError):
        entries = json.loads(commands_file(preset).read_text())
        return {
            Path(entry["file"]): (Path(entry["directory"]), shlex.split(entry["command"]))
            for entry in entries
        }
    return {}


def commands_file(preset: str) -> Path:
    return ROOT / f"build/{preset}/compile_commands.json"


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
    """Does the work that is needed once, before threads start."""
    build_commands(), digest_program()


@cache
def digest_program() -> Path:
    build("code_digest")
    return ROOT / f"build/{PRESET}/bin/code_digest"


@cache
def digest(file: Path) -> str:
    """The digest of a cubin or PTX file."""
    return tools.output_of([digest_program(), file]).split()[1]


def command_for(source: Path, arch: str, lines: bool = False) -> Command:
    """The build's command for one architecture, to a cubin; without its output file."""
    if source not in build_commands():
        raise InputError(f"sass: the build does not compile {source.relative_to(ROOT)}")
    folder, words = build_commands()[source]
    return folder, [*to_cubin(words, arch), *["-lineinfo"] * lines]


def to_cubin(words: list[str], arch: str) -> list[str]:
    compiler = next(i for i, word in enumerate(words) if Path(word).name.startswith("nvcc"))
    output = words.index("-o")
    kept = [*words[compiler:output], *words[output + 2 :]]
    kept = [w for w in kept if w not in ("-c", "-lineinfo") and "--generate-code=" not in w]
    number = arch.removeprefix("sm_")
    if any(f"compute_{number}a" in word for word in words):  # code for this architecture alone
        number += "a"
    return [*kept, f"--generate-code=arch=compute_{number},code=sm_{number}", "-cubin"]


def compiled(source: Path, arch: str, lines: bool = False) -> Path:
    """The cubin of a file, with source lines where they are wanted; compiled again only if the
    file, a header that it includes or the command changed."""
    folder, command = command_for(source, arch, lines)
    sources = with_headers(source)

    def copy(file: Path) -> bool:
        return not lines and copied(source, arch, sources, file)

    return made_by(command, folder, place_of(source, arch, lines), copy)


def place_of(source: Path, arch: str, lines: bool = False) -> Path:
    """Where the cubin of a file is; the name has a digest of what it is made from."""
    name = f"{source.parent.name}-{source.stem}{'.lines' * lines}"
    command = command_for(source, arch, lines)[1]
    return FOLDER / arch / file_name(name, command, with_headers(source))


def copied(source: Path, arch: str, sources: Sequence[Path], file: Path) -> bool:
    """Copies the code from the build's object file, unless that is of another command, older than
    what it is made of, or being written.
    """
    folder, words = commands_of(BUILT).get(source, (ROOT, []))
    if not words or to_cubin(words, arch) != command_for(source, arch)[1]:
        return False
    made, nvcc = folder / words[words.index("-o") + 1], tools.program("nvcc")
    building = os.open(ROOT / "build" / BUILT, os.O_RDONLY)
    try:
        fcntl.flock(building, fcntl.LOCK_SH | fcntl.LOCK_NB)  # scripts/build locks it
        parts = [*sources, commands_file(BUILT)]
        newest = max(nvcc.stat().st_ctime, *(part.stat().st_mtime for part in parts))
        return made.stat().st_mtime > newest and extracted(made, arch, file)
    except (BlockingIOError, FileNotFoundError, InputError):
        return False
    finally:
        os.close(building)


def extracted(made: Path, arch: str, file: Path) -> bool:
    """Whether an object file has code of the architecture, which is written to the file."""
    with tempfile.TemporaryDirectory() as place:
        tools.output_of([tools.program("cuobjdump"), "--extract-elf", "all", made], Path(place))
        cubins = [*Path(place).glob(f"*.{arch}.cubin"), *Path(place).glob(f"*.{arch}a.cubin")]
        if len(cubins) == 1:
            shutil.copy(cubins[0], file)
    return len(cubins) == 1


def assembled(ptx: Path, arch: str) -> Path:
    """The cubin of another language's PTX; `arch` has the features of its target."""
    target = re.search(r"^\.target\s+(sm_\w+)", read_text(ptx), re.MULTILINE)
    if not target:
        raise InputError(f"{ptx}: names no .target")
    command = [str(tools.program("ptxas")), f"-arch={target[1]}", "-lineinfo", str(ptx)]
    place = FOLDER / arch / file_name(f"ptx-{ptx.stem}", command, [ptx])
    return made_by(command, ROOT, place)


def file_name(name: str, command: Sequence[str], sources: Sequence[Path]) -> str:
    """With a digest that is the same in every checkout, and whatever comments say: without the
    compiler's path, the root's, and comments that move no line of a line table."""
    words = [word.replace(str(ROOT), "") for word in command[1:]]
    content = hashlib.sha256(f"{tools.nvcc_version()}\0{words}\0".encode())
    for file in sources:
        text = file.read_bytes()
        content.update(text if "-lineinfo" in words else without_comments(text))
    return f"{name}-{content.hexdigest()[:16]}.cubin"


def without_comments(text: bytes) -> bytes:
    """Also without empty lines; a file with the other kind of comment stays as it is."""
    lines = text.splitlines()
    if b"/*" not in text:
        lines = [COMMENT.sub(rb"\1", line).rstrip() for line in lines]
    return b"\n".join(filter(None, lines))


def made_by(
    command: Sequence[str],
    folder: Path,
    place: Path,
    copy: Callable[[Path], bool] = lambda file: False,
) -> Path:
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished, name = place.with_suffix(f".{os.getpid()}.tmp"), place.stem.rpartition("-")[0]
        try:
            if not copy(unfinished):
                tools.output_of([*command, "-o", str(unfinished)], folder)
            with suppress(FileExistsError):  # another process was faster: its names are read now
                place.hardlink_to(unfinished)
            for older in set(place.parent.glob(f"{name}-*.cubin")) - {place}:
                older.unlink(missing_ok=True)
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
