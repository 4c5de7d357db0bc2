"""The machine code of a kernel's file, as cuobjdump prints it: instructions, and the resources that
the compiler allocated."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from reprolab.errors import InputError
from sass import cubin, identity, tools
from sass.kernels import Kernel

INSTRUCTION_BYTES = 16
FUNCTION = re.compile(r"^\s*Function : (\S+)$", re.MULTILINE)
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", re.MULTILINE)
OPCODE = re.compile(r"(?:\{\s*)?(?:@!?U?P\w\s+)?([A-Z]\w*)")
NAMESPACES = re.compile(r"reprolab::(?:\w+::|\(anonymous namespace\)::)*")
NUMBERED = re.compile(r"\b(U?[RP])\d+\b")  # a register
# From compute capability 9.0 on, cuobjdump includes the memory that CUDA reserves in each block.
SYSTEM_SHARED, SYSTEM_SHARED_BYTES = b".nv.shared.reserved.0", 1024
LOADS, STORES = ("LDG", "LD"), ("STG", "ST", "RED", "REDG", "ATOM", "ATOMG", "UTMASTG", "UBLKCP")


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


@dataclass(frozen=True)
class Code:
    """What a measurement launches of a kernel."""

    kernel: Kernel
    arch: str  # sm_80
    function: Function
    sha256: dict[str, str]  # by the name that result files have


def functions_in(file: Path) -> dict[str, Function]:
    """By the mangled name; none if the file has no code for the GPU."""
    dump = tools.program("cuobjdump")
    reserved = SYSTEM_SHARED_BYTES if SYSTEM_SHARED in file.read_bytes() else 0
    usage = re.findall(r"Function (\S+):\n(.*)", tools.output_of([dump, "-res-usage", file]))
    if not usage:
        return {}
    parts = FUNCTION.split(tools.output_of([dump, "-sass", file]))
    listings = dict(zip(parts[1::2], parts[2::2], strict=True))
    names = map(plain, tools.output_of(["c++filt", *(symbol for symbol, _ in usage)]).splitlines())
    functions = {}
    for (symbol, text), name in zip(usage, names, strict=True):
        has = {key: int(number) for key, number in re.findall(r"(\w+):(\d+)", text)}
        shared = max(0, has["SHARED"] - reserved)
        code = without_padding(INSTRUCTION.findall(listings[symbol]))
        functions[symbol] = Function(name, has["REG"], has["STACK"], shared, code)
    return functions


def without_padding(instructions: list[str]) -> tuple[str, ...]:
    """Without the NOPs, and the jump to itself before them, that end a function."""
    while instructions and instructions[-1] == "NOP":
        instructions.pop()
    jump = f"BRA {INSTRUCTION_BYTES * (len(instructions) - 1):#x}"
    return tuple(instructions[:-1] if instructions[-1:] == [jump] else instructions)


def plain(name: str) -> str:
    """'tile_walk<SharedLut, ...>' from the output of c++filt."""
    short = NAMESPACES.sub("", name).removeprefix("void ")
    depth = 0
    for at, character in enumerate(short):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return short[:at]
    return short


def file_of(kernel: Kernel, arch: str) -> Path | None:
    """The kernel's cubin; None if another language's compiler was not run for the architecture."""
    if not kernel.maker:
        return cubin.compiled(kernel.source, arch)
    return cubin.assembled(kernel.ptx[arch], arch) if arch in kernel.ptx else None


def measured_code(kernel: Kernel, arch: str) -> Code | None:
    """The code that the measurement launches; None if there is none for the architecture."""
    file = file_of(kernel, arch)
    functions = functions_in(file) if file else {}
    if not functions:
        return None
    name = kernel.ptx[arch].name if kernel.maker else kernel.source_file
    digest = identity.of_file(kernel.ptx[arch]) if kernel.maker else identity.of_cubin(file)
    return Code(kernel, arch, choose(kernel, [*functions.values()]), {name: digest})


def measured_codes(kernels: Iterable[Kernel], archs: Iterable[str]) -> list[Code]:
    """On all cores."""
    wanted = [(kernel, arch) for arch in archs for kernel in kernels]
    cubin.build_commands()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [code for code in pool.map(lambda one: measured_code(*one), wanted) if code]


def choose(kernel: Kernel, chosen: list[Function]) -> Function:
    """The measured one, by the parts of its name that the family gives."""
    for part in kernel.family.measured_code:
        chosen = [function for function in chosen if part in function.name] or chosen
    if len(chosen) != 1:
        names = "; ".join(function.name for function in chosen)
        raise InputError(f"{kernel.name}: which function is measured is not known: {names}")
    return chosen[0]
