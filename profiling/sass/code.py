"""The machine code of one kernel of a file, and the resources that the compiler allocated for
it."""

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from reprolab.errors import InputError
from sass import cubin, tools
from sass.flow import Flow, flow_of
from sass.kernels import Kernel
from sass.parse import SECTION, Function, parse

# From compute capability 9.0 on, cuobjdump includes the memory that CUDA reserves in each block.
SYSTEM_SHARED, SYSTEM_SHARED_BYTES = b".nv.shared.reserved.0", 1024
NAMESPACES = re.compile(r"reprolab::(?:\w+::|\(anonymous namespace\)::)*")


class Resources(NamedTuple):
    """Per thread, except the shared memory, which is per block."""

    registers: int
    stack_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Code:
    kernel: Kernel
    arch: str  # sm_80
    name: str  # as in C++, without namespaces and parameters
    function: Function
    resources: Resources
    files: dict[str, Path]  # what is compiled, by the name that result files have

    @cached_property
    def sha256(self) -> dict[str, str]:
        return {name: cubin.digest(file) for name, file in self.files.items()}

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.function)


def measured_code(kernel: Kernel, arch: str, wanted: str = "", lines: bool = False) -> Code | None:
    """The code that the measurement launches, or the function with `wanted` in its name; with
    source lines where they are wanted. None if the file has no code for the GPU, because it calls a
    library, or if another language's compiler was not run for the architecture.
    """
    if kernel.maker and arch not in kernel.ptx:
        return None
    if kernel.maker:
        file = cubin.assembled(kernel.ptx[arch], arch)
    else:
        file = cubin.compiled(kernel.source, arch, lines)
    contents = contents_of(file)
    if not contents:
        return None
    symbol = choose(kernel, {symbol: content.name for symbol, content in contents.items()}, wanted)
    name, usage, listing = contents[symbol]
    # PTX has its own digest: the driver makes the code that runs.
    part = kernel.ptx[arch].name if kernel.maker else kernel.source_file
    files = {part: kernel.ptx[arch] if kernel.maker else file}
    return Code(kernel, arch, name, parse(listing, symbol), usage, files)


class Content(NamedTuple):
    """One function in a file; `listing` is nvdisasm's output for it."""

    name: str
    resources: Resources
    listing: str


@lru_cache(maxsize=8)  # as many architectures of one file
def contents_of(file: Path) -> dict[str, Content]:
    """By the mangled name of each kernel."""
    usage = resources_of(file)
    if not usage:
        return {}
    disassemble = [tools.program("nvdisasm"), "--print-code", "--print-line-info-inline", file]
    text = tools.output_of(disassemble)
    sections = list(re.finditer(SECTION, text))
    ends = [*(section.start() for section in sections[1:]), len(text)]
    listings = {s[1]: text[s.start() : end] for s, end in zip(sections, ends, strict=True)}
    names = map(plain, tools.output_of(["c++filt", *usage]).splitlines())
    of_each = zip(usage.items(), names, strict=True)
    return {symbol: Content(name, has, listings[symbol]) for (symbol, has), name in of_each}


def measured_codes(kernels: Iterable[Kernel], archs: Iterable[str]) -> list[Code]:
    """The digests of each kernel with its own code, for each architecture; on all cores."""
    wanted = [(kernel, arch) for arch in archs for kernel in kernels]
    cubin.prepare()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = [code for code in pool.map(lambda one: measured_code(*one), wanted) if code]
        list(pool.map(lambda code: code.sha256, codes))  # each is another process
    return codes


def choose(kernel: Kernel, names: dict[str, str], wanted: str) -> str:
    """One of the symbols, by their C++ names."""
    chosen = list(names)
    for part in [wanted] if wanted else kernel.family.measured_code:
        having = [symbol for symbol in chosen if part in names[symbol]]
        chosen = having if having or wanted else chosen
    if len(chosen) != 1:
        candidates = "; ".join(names[symbol] for symbol in chosen or names)
        raise InputError(
            f"FUNCTION: '{wanted}' is in the names of {len(chosen)} of the {len(names)} that "
            f"{kernel.name} has; give a part of only one: {candidates}"
        )
    return chosen[0]


def plain(name: str) -> str:
    """'tile_walk<SharedLut, ...>' from the output of c++filt."""
    short = NAMESPACES.sub("", name).removeprefix("void ")
    depth = 0
    for at, character in enumerate(short):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return short[:at]
    return short


def resources_of(file: Path) -> dict[str, Resources]:
    """By the mangled name. A block's shared memory without the part that the system reserves."""
    reserved = SYSTEM_SHARED_BYTES if SYSTEM_SHARED in file.read_bytes() else 0
    resources = {}
    text = tools.output_of([tools.program("cuobjdump"), "-res-usage", file])
    for name, usage in re.findall(r"Function (\S+):\n(.*)", text):
        value = {key: int(number) for key, number in re.findall(r"(\w+):(\d+)", usage)}
        shared = max(0, value["SHARED"] - reserved)
        resources[name] = Resources(value["REG"], value["STACK"], shared)
    return resources
