"""The control flow of a kernel: basic blocks, loops, and the paths through them. A block starts at
the entry, after a jump, and at the target of a jump; other labels, of which versions of nvdisasm
print more or fewer, do not start one. A loop is a natural loop: the blocks from which a jump back
to a block that dominates them can be reached without leaving.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from reprolab.errors import InputError
from sass.parse import INSTRUCTION_BYTES, Function, Instruction

JUMPS = ("BRA", "JMP", "UBRA", "UJMP")
INDIRECT = ("BRX", "BRXU", "JMX", "JMXU")  # where they lead is in a table, which is not read
# ptxas also leaves a loop by a call that never returns.
CALL_AS_JUMP = "CALL.REL.NOINC"
ENDS = ("EXIT", "RET", "KILL", "BPT")


@dataclass(frozen=True)
class Block:
    """Instructions that run one after the other; numbered in the order of the code."""

    number: int
    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]

    @property
    def last(self) -> Instruction:
        return self.instructions[-1]


@dataclass(frozen=True)
class Region:
    """A loop, which is entered only at its header, or the whole kernel."""

    header: int
    blocks: frozenset[int]
    is_loop: bool = True


@dataclass(frozen=True)
class Flow:
    """The blocks that can be reached from the kernel's entry, by number."""

    blocks: dict[int, Block]

    @cached_property
    def order(self) -> list[int]:
        """Reverse postorder: except for jumps back, each block comes before its successors."""
        done: list[int] = []
        seen = {0}
        stack = [(0, iter(self.blocks[0].successors))]
        while stack:
            following = next((s for s in stack[-1][1] if s not in seen), None)
            if following is None:
                done.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(self.blocks[following].successors)))
        return done[::-1]

    @cached_property
    def predecessors(self) -> dict[int, list[int]]:
        edges: dict[int, list[int]] = {number: [] for number in self.blocks}
        for block in self.blocks.values():
            for successor in block.successors:
                edges[successor].append(block.number)
        return edges

    @cached_property
    def back_edges(self) -> frozenset[tuple[int, int]]:
        """Jumps from a block to one that dominates it. InputError if the code jumps back
        elsewhere."""
        place = {number: i for i, number in enumerate(self.order)}
        edges = [(b.number, s) for b in self.blocks.values() for s in b.successors]
        back = [(a, b) for a, b in edges if place[b] <= place[a]]
        dominating = dominators(self.order, self.predecessors)
        for a, b in back:
            if b not in dominating[a]:
                where = f"{self.blocks[b].instructions[0].address:#06x}"
                raise InputError(f"sass: the loop at {where} is entered at several places")
        return frozenset(back)

    @cached_property
    def loops(self) -> list[Region]:
        """One loop for each target of a jump back, inner loops before outer ones."""
        bodies: dict[int, set[int]] = {}
        for end, header in self.back_edges:
            before = self.predecessors | {header: []}
            bodies.setdefault(header, {header}).update({end}, closure([end], before))
        regions = [Region(header, frozenset(body)) for header, body in bodies.items()]
        return sorted(regions, key=lambda loop: (len(loop.blocks), loop.header))

    @property
    def everything(self) -> Region:
        return Region(0, frozenset(self.blocks), is_loop=False)

    def instructions(self, blocks: Collection[int]) -> Iterator[Instruction]:
        for number in sorted(blocks):
            yield from self.blocks[number].instructions

    def best_way(
        self, region: Region, value: Callable[[Block, int], tuple[int, ...]]
    ) -> tuple[int, ...]:
        """The greatest sum of values on a path through the region, from its first block on.
        `value(block, successor)`: -1 is the end. A path through a loop ends where it
        jumps back to the header, a path through a kernel where the kernel ends; inner loops are
        traversed once. Tuples are compared from the left, as in Python.
        """
        best: dict[int, tuple[int, ...]] = {}
        ends = []
        for number in self.order:
            block = self.blocks[number]
            if number != region.header and number not in best:
                continue
            so_far = best.get(number)
            for successor in {*block.successors, *([-1] if block.last.name in ENDS else [])}:
                total = value(block, successor)
                if so_far is not None:
                    total = tuple(a + b for a, b in zip(so_far, total, strict=True))
                if successor == (region.header if region.is_loop else -1):
                    ends.append(total)
                elif successor in region.blocks and (number, successor) not in self.back_edges:
                    best[successor] = max(total, best.get(successor, total))
        if not ends:
            raise InputError("sass: the kernel never ends")
        return max(ends)


def dominators(
    order: Sequence[int], before: Mapping[int, Collection[int]]
) -> dict[int, frozenset[int]]:
    """The dominators of each node, itself included: the nodes on every path to it from the first of
    `order`. `before` has the predecessors of a node.
    """
    start, *others = order
    dominating = dict.fromkeys(order, frozenset(order)) | {start: frozenset({start})}
    changed = True
    while changed:
        changed = False
        for node in others:
            now = frozenset.intersection(*(dominating[other] for other in before[node])) | {node}
            changed |= now != dominating[node]
            dominating[node] = now
    return dominating


def closure(start: Collection[int], edges: Mapping[int, Collection[int]]) -> set[int]:
    """All nodes that can be reached from `start`, which is included only if an edge leads back to
    it."""
    reached: set[int] = set()
    waiting = list(start)
    while waiting:
        for node in edges.get(waiting.pop(), ()):
            if node not in reached:
                reached.add(node)
                waiting.append(node)
    return reached


def flow_of(function: Function) -> Flow:
    """The kernel's blocks; InputError if the target of a jump is unknown."""
    code = function.instructions
    jumps = [i for i, instruction in enumerate(code) if ends_block(function, instruction)]
    starts = {0, *(i + 1 for i in jumps)}
    starts |= {target(function, label) for i in jumps for label in code[i].targets}
    bounds = sorted(start for start in starts if start < len(code))
    numbers = {start: number for number, start in enumerate(bounds)}
    blocks = {}
    for number, start in enumerate(bounds):
        end = bounds[number + 1] if number + 1 < len(bounds) else len(code)
        last, following = code[end - 1], []  # the instructions that may run next
        if is_jump(last):
            following = [target(function, label) for label in last.targets]
        if not (is_jump(last) or last.name in ENDS) or is_conditional(last):
            following.append(end)
        known = tuple(numbers[i] for i in dict.fromkeys(following) if i in numbers)
        blocks[number] = Block(number, tuple(code[start:end]), known)
    # Without unreachable code, such as the padding after its end.
    kept = {0} | closure([0], {number: block.successors for number, block in blocks.items()})
    return Flow({number: blocks[number] for number in sorted(kept)})


def is_jump(instruction: Instruction) -> bool:
    return instruction.name in JUMPS or instruction.opcode == CALL_AS_JUMP


def is_conditional(instruction: Instruction) -> bool:
    """Whether a jump may fall through: it has a guard, or (BRA.U, BRA.DIV) tests an operand."""
    return (
        bool(instruction.guard and instruction.guard not in ("PT", "UPT"))
        or "," in instruction.operands
    )


def ends_block(function: Function, instruction: Instruction) -> bool:
    if instruction.name in INDIRECT or (
        instruction.name == "CALL" and instruction.opcode != CALL_AS_JUMP
    ):
        place = f"{function.name}, {instruction.address:#06x}"
        raise InputError(f"sass: {place}: {instruction.opcode} jumps to an unknown address")
    return is_jump(instruction) or instruction.name in ENDS


def target(function: Function, label: str) -> int:
    if label not in function.labels:
        raise InputError(f"sass: {function.name}: there is no label '{label}'")
    return function.labels[label] // INSTRUCTION_BYTES
