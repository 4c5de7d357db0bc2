"""Digests of machine code, which show whether two measurements were of the same kernel.

A digest covers what the GPU executes and reads as a constant: code, constant banks, initialised
global memory, sizes of shared memory, registers, and relocations. It does not depend on comments,
line numbers, the order of functions and their names (those in an unnamed namespace contain a hash
of the file's path), nor on the host's choices: grid, block and dynamic shared memory.
"""

import hashlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

from reprolab.errors import InputError
from sass import cubin

# A cubin's sections that the GPU uses, without the name of a kernel; the bank is part of the kind.
KIND = re.compile(r"\.(?:text|nv\.global\.init|nv\.global|nv\.shared)(?=\.|$)|\.nv\.constant[^.]*")
EMBEDDED = re.compile(r"Fatbin elf code:\n=+\narch = sm_(\d+).*?\nidentifier = (\S+)", re.DOTALL)
EXTRACTED = re.compile(r"^Extracting ELF file +\d+: (\S+)$", re.MULTILINE)
PLACES_IN_PTX = re.compile(r"\.(?:loc|file)\b|\$L__tmp\w*:$")


def sha256(content: bytes | str) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def kind_of(name: str) -> str:
    match = KIND.match(name)
    return match[0] if match else ""


def of_cubin(file: Path) -> str:
    """Empty for a cubin without code."""
    with file.open("rb") as content:
        elf = ELFFile(content)
        lines = sorted(filter(None, (of_section(elf, section) for section in elf.iter_sections())))
    return sha256("".join(f"{line}\n" for line in lines)) if lines else ""


def of_section(elf: ELFFile, section) -> str:
    """A line; ptxas orders sections by names that hold hashes, so that the lines are sorted."""
    if section["sh_type"] in ("SHT_REL", "SHT_RELA"):
        kind = kind_of(elf.get_section(section["sh_info"]).name)
        return f"into {kind} {sha256(''.join(sorted(relocations(elf, section))))}" if kind else ""
    kind = kind_of(section.name)
    if not kind or not section["sh_size"]:
        return ""
    # ptxas stores the number of registers in the bits above the index of a symbol.
    registers = section["sh_info"] >> 24 if kind == ".text" else 0
    content = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
    return f"{kind} {section['sh_size']:x} {registers:x} {sha256(content)}"


def relocations(elf: ELFFile, section) -> Iterator[str]:
    symbols = elf.get_section(section["sh_link"])
    for one in section.iter_relocations():
        symbol = symbols.get_symbol(one["r_info_sym"])
        place = symbol["st_shndx"]  # a text where it is undefined
        target = kind_of(elf.get_section(place).name) if isinstance(place, int) else ""
        addend = one["r_addend"] % 2**64 if section["sh_type"] == "SHT_RELA" else 0
        place_and_type = f"{one['r_offset']:x} {one['r_info_type']:x}"
        yield f"{place_and_type} {addend:x} {symbol['st_value']:x} {target}\n"


def of_ptx(text: str) -> str:
    """Of PTX without comments, line numbers and debug information."""
    kept, debugs = "", False
    for line in (line.partition("//")[0].strip(" \t\r") for line in text.split("\n")):
        debugs = debugs or line.startswith(".section")
        if line and not debugs and not PLACES_IN_PTX.match(line):
            kept += f"{line}\n"
        debugs = debugs and not line.endswith("}")
    return sha256(kept)


def of_file(file: Path) -> str:
    """Of PTX as above, of any other file all its bytes."""
    content = file.read_bytes()
    return of_ptx(content.decode()) if file.suffix == ".ptx" else sha256(content)


def embedded_in(file: Path) -> Iterator[tuple[str, str, str]]:
    """The architecture (90), the digest and the source of each code in a program or library of this
    project's build, which names sources by their paths from the root."""
    cuobjdump = cubin.program("cuobjdump")
    named = EMBEDDED.findall(cubin.output_of([cuobjdump, file]))
    with tempfile.TemporaryDirectory() as folder:
        text = cubin.output_of([cuobjdump, "--extract-elf", "all", file.resolve()], Path(folder))
        extracted = EXTRACTED.findall(text)
        if len(extracted) != len(named):
            raise InputError(f"{file}: cuobjdump lists other code than it extracts")
        for (arch, source), name in zip(named, extracted, strict=True):
            if digest := of_cubin(Path(folder, name)):
                yield arch, digest, source
