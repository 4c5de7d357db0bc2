"""The text that nvdisasm prints, as instructions with their labels and source lines."""

import os.path
import re
from dataclasses import dataclass, field
from functools import cached_property

from reprolab.errors import InputError

INSTRUCTION_BYTES = 16  # since compute capability 7.0

SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)", re.MULTILINE)
LABEL = re.compile(r"(\S+):$")
INSTRUCTION = re.compile(
    r"/\*(?P<address>[0-9a-f]{4,})\*/\s+"
    r"(?:@(?P<guard>!?U?P(?:\d|T))\s+)?"
    r"(?P<opcode>[A-Z][\w.]*)"
    r"(?:\s+(?P<operands>[^;]*?))?\s*;"
)
FRAME = re.compile(r'File "([^"]*)", line (\d+)(?: inlined at "[^"]*", line \d+)?$')
TARGET = re.compile(r"`\(([^)]+)\)")


@dataclass(frozen=True)
class Frame:
    """A place in the source; a relative path starts at nvcc's working directory."""

    file: str
    line: int


@dataclass(frozen=True)
class Instruction:
    """One machine instruction: `@guard opcode operands`."""

    address: int
    opcode: str  # with its modifiers: LDG.E.128
    operands: str = ""
    guard: str = ""  # P0, !P0, UP0; empty: it always runs
    frames: tuple[Frame, ...] = ()  # from the innermost inlined call out to the kernel itself

    @cached_property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @cached_property
    def modifiers(self) -> frozenset[str]:
        return frozenset(self.opcode.split(".")[1:])

    @property
    def targets(self) -> list[str]:
        return TARGET.findall(self.operands)

    @property
    def width_bytes(self) -> int:
        """Bytes that a load or store moves for each thread."""
        widths = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
        return next((widths[m] for m in self.modifiers if m in widths), 4)

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {self.operands}".rstrip()


@dataclass
class Function:
    """A kernel: its instructions in order, and the addresses of its labels."""

    name: str  # mangled
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def parse(text: str, name: str) -> Function:
    """The named kernel in the output of `nvdisasm --print-code --print-line-info-inline`."""
    function = Function(name)
    frames: tuple[Frame, ...] = ()
    chain: list[Frame] = []  # of the lines that name frames, until an instruction follows
    here = False
    for line in text.splitlines():
        if section := SECTION.match(line):
            here = section[1] == name
            continue
        stripped = line.strip()
        if not here or not stripped:
            continue
        if stripped.startswith("//##"):
            if frame := FRAME.search(stripped):
                chain.append(Frame(os.path.normpath(frame[1]), int(frame[2])))
        elif stripped.startswith("/*"):
            frames, chain = tuple(chain) or frames, []
            function.instructions.append(instruction(stripped, frames))
        elif label := LABEL.match(stripped):
            function.labels[label[1]] = len(function.instructions) * INSTRUCTION_BYTES
    check(function)
    return function


def instruction(text: str, frames: tuple[Frame, ...]) -> Instruction:
    match = INSTRUCTION.match(text)
    if not match:
        raise InputError(f"sass: nvdisasm printed an invalid instruction: {text}")
    operands = " ".join((match["operands"] or "").split())
    return Instruction(
        int(match["address"], 16), match["opcode"], operands, match["guard"] or "", frames
    )


def check(function: Function) -> None:
    """InputError unless there are instructions, without a gap between them."""
    if not function.instructions:
        raise InputError(f"sass: nvdisasm printed no instruction of {function.name}")
    for i, instruction in enumerate(function.instructions):
        if instruction.address != i * INSTRUCTION_BYTES:
            place = f"{function.name}, {instruction.address:#06x}"
            raise InputError(f"sass: {place}: an instruction is missing before this one")
