"""Dataflow: which instruction uses which other one's result, within a loop or a whole kernel.
Registers and predicates are followed, memory is not: a loaded value depends only on its address.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from sass.flow import Block, Flow, Region, closure, dominators
from sass.parse import Instruction

# All other instructions write their first register, or the predicates that come first.
WRITE_NOTHING = frozenset(
    "ST STG STS STL STSM RED BRA UBRA JMP CALL EXIT RET BSSY BSYNC BMOV BAR NOP DEPBAR MEMBAR "
    "FENCE WARPSYNC YIELD NANOSLEEP UTMALDG UTMASTG UTMACMDFLUSH UBLKCP CCTL KILL BPT".split()
)
REGISTER = re.compile(r"\b(U?R)(\d+)\b(\.64)?")
PREDICATE = re.compile(r"\bU?P\d\b")
COUNTS = {"64": 2, "128": 4, "256": 8}  # of registers


def registers(text: str, count: int = 1) -> list[str]:
    return [
        f"{kind}{int(number) + i}"
        for kind, number, wide in REGISTER.findall(text)
        for i in range(max(count, 2 if wide else 1))
    ]


def uses_and_results(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers and predicates that an instruction reads, and those it writes."""
    return of_text(instruction.opcode, instruction.operands, instruction.guard)


@cache
def of_text(opcode: str, text: str, guard: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    (name, *modifiers), operands = opcode.split("."), text.split(", ") if text else []
    wide = "WIDE" in modifiers
    results: list[str] = []
    at = 0
    if name not in WRITE_NOTHING:
        only_predicates = name.endswith("SETP") or name in ("PLOP3", "UPLOP3")
        while at < min(2, len(operands)) and re.fullmatch(r"U?P[\dT]", operands[at]):
            results += PREDICATE.findall(operands[at])
            at += 1
        if not only_predicates and at < len(operands):
            count = next((COUNTS[m] for m in modifiers if m in COUNTS), 2 if wide else 1)
            results += registers(operands[at], count)
            at += 1
            while at < len(operands) and re.fullmatch(r"U?P[\dT]", operands[at]):
                results += PREDICATE.findall(operands[at])  # carries
                at += 1
    uses = PREDICATE.findall(guard)
    for operand in operands[at:]:
        uses += registers(operand) + PREDICATE.findall(operand)
    if wide and operands:
        uses += registers(operands[-1], 2)  # the addend
    return tuple(uses), tuple(results)


@dataclass(frozen=True)
class Dataflow:
    flow: Flow
    region: Region

    @cached_property
    def blocks(self) -> list[Block]:
        return [self.flow.blocks[n] for n in self.flow.order if n in self.region.blocks]

    @cached_property
    def sources(self) -> dict[int, frozenset[int]]:
        """For each instruction, the instructions of the region whose results it may use; all by
        address. A result of one iteration may be used in the next.
        """
        used: dict[int, frozenset[int]] = {}
        after: dict[int, dict[str, frozenset[int]]] = {b.number: {} for b in self.blocks}
        changed = True
        while changed:
            changed = False
            for block in self.blocks:
                state = merged(after[p] for p in self.flow.predecessors[block.number] if p in after)
                for instruction in block.instructions:
                    uses, results = uses_and_results(instruction)
                    own = frozenset({instruction.address})
                    used[instruction.address] = frozenset().union(
                        *(state.get(name, frozenset()) for name in uses)
                    )
                    for name in results:  # under a guard, the former result may remain
                        kept = state.get(name, frozenset()) if instruction.guard else frozenset()
                        state[name] = own | kept
                changed |= state != after[block.number]
                after[block.number] = state
        return used

    @cached_property
    def deciders(self) -> dict[int, frozenset[int]]:
        """For each block, the blocks whose last jump decides whether an iteration reaches it."""
        after = self.postdominators
        deciding: dict[int, set[int]] = defaultdict(set)
        for block in self.blocks:
            ways = [after.get(s, frozenset()) for s in self.onward(block)]
            if len(block.successors) > 1:
                sometimes = frozenset().union(*ways) - frozenset.intersection(*ways)
                for number in sometimes:
                    deciding[number].add(block.number)
        return {number: frozenset(deciding[number]) for number in self.region.blocks}

    def onward(self, block: Block) -> list[int]:
        """Successors in the same iteration; -1 for its end."""
        inside = self.region.blocks - ({self.region.header} if self.region.is_loop else set())
        return [s if s in inside else -1 for s in block.successors] or [-1]

    @cached_property
    def postdominators(self) -> dict[int, frozenset[int]]:
        """The post-dominators of each block: every path to the iteration's end leads through
        them."""
        onward = {block.number: self.onward(block) for block in reversed(self.blocks)}
        return dominators([-1, *onward], onward)

    @cached_property
    def block_of(self) -> dict[int, Block]:
        """By the address of an instruction."""
        return {i.address: block for block in self.blocks for i in block.instructions}

    @cached_property
    def causes(self) -> dict[int, frozenset[int]]:
        """As `sources`, plus the jumps that decide whether the instruction is run."""
        return {
            address: sources
            | {
                self.flow.blocks[number].last.address
                for number in self.deciders[self.block_of[address].number]
            }
            for address, sources in self.sources.items()
        }

    def leading_to(self, wanted: Collection[int]) -> set[int]:
        """Addresses that the instructions at these addresses depend on, directly or not."""
        return closure(wanted, self.causes)

    def following_from(self, wanted: Collection[int]) -> set[int]:
        """Addresses that depend on the instructions at these addresses, directly or not."""
        effects: dict[int, set[int]] = defaultdict(set)
        for address, causes in self.causes.items():
            for cause in causes:
                effects[cause].add(address)
        return closure(wanted, effects)


def merged(states: Iterable[dict[str, frozenset[int]]]) -> dict[str, frozenset[int]]:
    union: dict[str, frozenset[int]] = {}
    for state in states:
        for name, results in state.items():
            union[name] = union.get(name, frozenset()) | results
    return union
