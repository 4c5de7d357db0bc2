"""The machine code of one kernel of a file, and what the compiler set aside for it."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from claims.errors import InputError
from sass import cubin, tools
from sass.flow import Flow, flow_of
from sass.kernels import FAMILIES, Kernel
from sass.parse import Function, parse

# From compute capability 9.0 on, cuobjdump counts what CUDA keeps for itself in each block.
SYSTEM_SHARED, SYSTEM_SHARED_BYTES = b".nv.shared.reserved.0", 1024
NAMESPACES = re.compile(r"reprolab::(?:\w+::|\(anonymous namespace\)::)*")


@dataclass(frozen=True)
class Resources:
    """Per thread, but for the shared memory, which is per block."""

    registers: int
    stack_bytes: int
    local_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Code:
    kernel: Kernel
    arch: str  # sm_80
    function: str  # as in C++, without namespaces and parameters
    instructions: Function
    resources: Resources

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.instructions)


def codes(kernel: Kernel, arch: str) -> list[Code]:
    """All that the kernel's file holds for the architecture; none where it calls a library."""
    file = cubin.compiled(kernel.source, arch)
    disassemble = [tools.nvdisasm(), "--print-code", "--print-line-info-inline", file]
    functions = parse(tools.output_of(disassemble))
    usage = resources_of(file)
    names = demangled([function.name for function in functions])
    return [
        Code(kernel, arch, name, function, usage[function.name])
        for name, function in zip(names, functions, strict=True)
    ]


def measured_code(kernel: Kernel, arch: str, wanted: str = "") -> Code | None:
    """What the measurement launches, or the one that has `wanted` in its name; None: no code."""
    found = codes(kernel, arch)
    if not found:
        return None
    chosen = found
    if wanted:
        chosen = [code for code in found if wanted in code.function]
    else:
        for part in FAMILIES[kernel.family].measured:
            chosen = [code for code in chosen if part in code.function] or chosen
    if len(chosen) != 1:
        raise InputError(
            f"FUNCTION: '{wanted}' is in the name of {len(chosen)} of {kernel.name}'s kernels: give "
            f"a part of one name: {'; '.join(code.function for code in found)}"
        )
    return chosen[0]


def demangled(names: list[str]) -> list[str]:
    lines = tools.output_of(["c++filt", *names]).splitlines() if names else []
    return [plain(line) for line in lines]


def plain(name: str) -> str:
    """'tile_walk<SharedLut, ...>' of what c++filt prints."""
    short = NAMESPACES.sub("", name).removeprefix("void ")
    depth = 0
    for at, character in enumerate(short):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return short[:at]
    return short


def resources_of(file: Path) -> dict[str, Resources]:
    """By the mangled name. What a block's shared memory holds for the system is not counted."""
    reserved = SYSTEM_SHARED_BYTES if SYSTEM_SHARED in file.read_bytes() else 0
    found = {}
    text = tools.output_of([tools.cuobjdump(), "-res-usage", file])
    for name, usage in re.findall(r"Function (\S+):\n(.*)", text):
        value = {key: int(number) for key, number in re.findall(r"(\w+):(\d+)", usage)}
        shared = max(0, value["SHARED"] - reserved)
        found[name] = Resources(value["REG"], value["STACK"], value["LOCAL"], shared)
    return found
