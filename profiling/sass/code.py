"""The machine code of a kernel's file, as cuobjdump prints it: instructions, and the resources that
the compiler allocated."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from compile.compiled import outdated

from reprolab.errors import InputError
from reprolab.families import described
from reprolab.json_files import ROOT, read_json
from sass import cubin

OTHER_LANGUAGES = ROOT / "build/ptx"  # as profiling/compile/__main__.py writes it
INSTRUCTION_BYTES = 16
FUNCTION = re.compile(r"^\s*Function : (\S+)$", re.MULTILINE)
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", re.MULTILINE)
OPCODE = re.compile(r"(?:\{\s*)?(?:@!?U?P\w\s+)?([A-Z]\w*(?:(?<=UBLKCP)(?:\.[SG])+)?)")
NAMESPACES = re.compile(r"reprolab::(?:\w+::|\(anonymous namespace\)::)*")
NUMBERED = re.compile(r"\b(U?[RP])\d+\b")  # a register
# From compute capability 9.0 on, cuobjdump includes the memory that CUDA reserves in each block.
SYSTEM_SHARED, SYSTEM_SHARED_BYTES = b".nv.shared.reserved.0", 1024
LOADS = ("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP.S.G")
STORES = tuple("STG ST RED REDG ATOM ATOMG UTMASTG UTMAREDG UBLKCP.G.S UBLKRED".split())


@dataclass(frozen=True)
class Function:
    """A kernel in a file; registers and stack are per thread, shared memory is per block."""

    name: str  # as in C++, without namespaces and parameters
    registers: int
    stack_bytes: int
    static_shared_bytes: int
    instructions: tuple[str, ...]  # without the padding at the end

    @property
    def code_bytes(self) -> int:
        return len(self.instructions) * INSTRUCTION_BYTES

    @property
    def opcodes(self) -> Counter[str]:
        """By name, without modifiers."""
        found = (OPCODE.match(instruction) for instruction in self.instructions)
        return Counter(match[1] for match in found if match)

    def count(self, names: Iterable[str]) -> int:
        return sum(self.opcodes[name] for name in names)

    @property
    def plain_instructions(self) -> list[str]:
        """Without the numbers of registers, which the compiler chooses, and of addresses."""
        plain = (NUMBERED.sub(r"\1", one) for one in self.instructions)
        return [re.sub(r"(?<=\s)0x[0-9a-f]{3,}$", "...", one) for one in plain]


def functions_in(file: Path) -> list[Function]:
    """None if the file has no code for the GPU."""
    dump = cubin.program("cuobjdump")
    reserved = SYSTEM_SHARED_BYTES if SYSTEM_SHARED in file.read_bytes() else 0
    usage = re.findall(r"Function (\S+):\n(.*)", cubin.output_of([dump, "-res-usage", file]))
    if not usage:
        return []
    parts = FUNCTION.split(cubin.output_of([dump, "-sass", file]))
    listings = dict(zip(parts[1::2], parts[2::2], strict=True))
    names = cubin.output_of(
        ["c++filt", "--no-params", *(symbol for symbol, _ in usage)]
    ).splitlines()
    functions = []
    for (symbol, text), name in zip(usage, names, strict=True):
        has = {key: int(number) for key, number in re.findall(r"(\w+):(\d+)", text)}
        shared = max(0, has["SHARED"] - reserved)
        code = without_padding(INSTRUCTION.findall(listings[symbol]))
        functions.append(Function(NAMESPACES.sub("", name), has["REG"], has["STACK"], shared, code))
    return functions


def without_padding(instructions: list[str]) -> tuple[str, ...]:
    """Without the NOPs, and the jump to itself before them, that end a function."""
    while instructions and instructions[-1] == "NOP":
        instructions.pop()
    jump = f"BRA {INSTRUCTION_BYTES * (len(instructions) - 1):#x}"
    return tuple(instructions[:-1] if instructions[-1:] == [jump] else instructions)


def file_of(name: str, arch: str) -> Path:
    """The cubin of a kernel: of one in CUDA by data/families.json or a file of its name, of one in
    another language by what `make mojo` or `make triton` has compiled."""
    manifest = OTHER_LANGUAGES / arch / f"{name}.json"
    if manifest.exists():
        facts = read_json(manifest)
        if changed := outdated(manifest, facts["sources"]):
            raise InputError(f"{manifest}: {changed[0]} has changed; make {facts['language']}")
        variant = next(iter(facts["variants"].values()))
        return cubin.assembled(manifest.parent / variant["file"], arch)
    sources = {file.stem: file for file in ROOT.glob("kernels/**/*.cu")}
    for family in described().values():
        sources |= {one.name: ROOT / one.source_file for one in family.kernels.values()}
    if name not in sources:
        near = "".join(f"; did you mean {one}?" for one in get_close_matches(name, sources, 1))
        raise InputError(f"KERNEL: there is no kernel '{name}'{near} (make list)")
    if sources[name].suffix != ".cu":
        raise InputError(f"{name} is not compiled for {arch}; make mojo triton ARCH={arch}")
    return cubin.compiled(sources[name], arch)
