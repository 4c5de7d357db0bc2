"""Counts in a kernel's code, taken without running it.

Counts are of the hot region: the loop that stores most of the output in one iteration, or the whole
kernel if straight-line code stores more. Elements are those of the output: their bytes are counted
at the stores, along the path through an iteration that stores most, so no kernel declares how many
it handles. With the tensor memory accelerator, which stores from shared memory, they are counted at
the stores to shared memory.

An iteration may have several paths. `least` and `most` are the instructions of the shortest and the
longest path that stores all elements, which a thread runs. `all` is every instruction of the
region, which a warp runs if its threads together take every path.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sass.code import Code
from sass.dataflow import uses_and_results
from sass.decoding import LOOK_UPS, decoding_of
from sass.flow import ENDS, Block, Region, is_jump
from sass.parse import INSTRUCTION_BYTES, Instruction

GLOBAL_LOADS, GLOBAL_STORES = ("LDG", "LD"), ("STG", "ST")
SHARED_LOADS, SHARED_STORES = ("LDS", "LDSM"), ("STS", "STSM")
LOCAL_LOADS, LOCAL_STORES = ("LDL",), ("STL",)  # spilled registers, or a stack
CONSTANT_LOADS = ("LDC", "ULDC", "LDCU")
BULK_STORES = ("UTMASTG", "UBLKCP")


class Ways(NamedTuple):
    """Instructions of a trip: see above."""

    least: int
    most: int
    all: int


@dataclass(frozen=True)
class Facts:
    code: Code

    @cached_property
    def region(self) -> Region:
        """The hot region."""
        flow = self.code.flow
        loops = [loop for loop in flow.loops if self.stored_by(loop)]
        if not loops:
            return flow.everything
        hottest = max(loops, key=self.stored_by)  # of equals the first, which is the innermost
        in_loops = frozenset().union(*(loop.blocks for loop in flow.loops))
        (straight,) = flow.best_way(
            flow.everything,
            lambda block, to: (0 if block.number in in_loops else self.stored(block, to),),
        )
        return hottest if self.stored_by(hottest) >= straight else flow.everything

    @cached_property
    def inside(self) -> list[Instruction]:
        return list(self.code.flow.instructions(self.region.blocks))

    @cached_property
    def everywhere(self) -> list[Instruction]:
        return list(self.code.flow.instructions(self.code.flow.blocks))

    @cached_property
    def output_stores(self) -> tuple[str, ...]:
        by_threads = of(self.everywhere, GLOBAL_STORES)
        bulk = of(self.everywhere, BULK_STORES)
        return SHARED_STORES if bulk and not by_threads else GLOBAL_STORES

    def stored(self, block: Block, successor: int) -> int:
        """Bytes that a thread stores in the block if it goes on to the successor.

        It runs one of two stores under opposite guards; the successor shows whether the guard of
        the block's last jump was true.
        """
        total = 0
        open_guards: dict[str, dict[str, int]] = {}  # predicate -> guard -> bytes
        for one in block.instructions:
            if one.name in self.output_stores:
                sums = open_guards.setdefault(one.guard.removeprefix("!"), {})
                sums[one.guard] = sums.get(one.guard, 0) + one.width_bytes
            for written in uses_and_results(one)[1]:
                total += max(open_guards.pop(written, {}).values(), default=0)
        last = block.last
        if last.guard and (len(block.successors) > 1 or last.name in ENDS):
            was_true = successor != block.number + 1
            known = last.guard if was_true else opposite(last.guard)
            total += open_guards.pop(last.guard.removeprefix("!"), {}).get(known, 0)
        return total + sum(max(sums.values()) for sums in open_guards.values())

    def stored_by(self, region: Region) -> int:
        return self.code.flow.best_way(region, lambda *way: (self.stored(*way),))[0]

    @property
    def elements(self) -> int:
        """Elements that one thread stores in one iteration; 0: the kernel stores nothing on this
        architecture."""
        return self.stored_by(self.region) // self.code.kernel.family.element_bytes

    def ways(self, counts: Callable[[Instruction], bool] = lambda _: True) -> Ways:
        """The counted instructions."""

        def number(block: Block) -> int:
            return sum(map(counts, block.instructions))

        flow, region = self.code.flow, self.region
        least = -flow.best_way(region, lambda b, to: (self.stored(b, to), -number(b)))[1]
        most = flow.best_way(region, lambda b, to: (self.stored(b, to), number(b)))[1]
        return Ways(least, most, sum(map(counts, self.inside)))

    @cached_property
    def decoding(self) -> frozenset[int]:
        """Addresses of the instructions that decode: table look-ups and the index computation."""
        return decoding_of(self.code.flow, self.region)

    def is_index(self, instruction: Instruction) -> bool:
        return instruction.address in self.decoding and instruction.name not in LOOK_UPS

    def is_look_up(self, instruction: Instruction) -> bool:
        return instruction.address in self.decoding and instruction.name in LOOK_UPS

    @cached_property
    def branches(self) -> list[Block]:
        """Blocks that end in a two-way jump, both of whose targets are in the same iteration."""
        onward = self.region.blocks - ({self.region.header} if self.region.is_loop else set())
        return [b for b in self.conditional(self.region.blocks) if set(b.successors) <= onward]

    def conditional(self, blocks: Iterable[int]) -> list[Block]:
        candidates = (self.code.flow.blocks[number] for number in sorted(blocks))
        return [block for block in candidates if is_jump(block.last) and len(block.successors) > 1]

    @property
    def code_bytes(self) -> int:
        """Without instructions that never run, such as the padding at the end."""
        return len(self.everywhere) * INSTRUCTION_BYTES


def opposite(guard: str) -> str:
    return guard[1:] if guard.startswith("!") else f"!{guard}"


def of(instructions: Iterable[Instruction], names: tuple[str, ...]) -> list[Instruction]:
    return [instruction for instruction in instructions if instruction.name in names]


def is_uniform(block: Block) -> bool:
    """Whether the block's last jump is known to be the same for all threads of a warp: it tests a
    uniform predicate, or a predicate copied from one within the block.
    """
    jump = block.last
    predicate = jump.guard.removeprefix("!")
    if "U" in jump.modifiers or jump.name.startswith("U") or predicate.startswith("U"):
        return True
    for instruction in reversed(block.instructions[:-1]):
        uses, results = uses_and_results(instruction)
        if predicate in results:
            return bool(uses) and all(name.startswith("U") for name in uses)
    return False
