"""Shows one kernel for `make sass`: its facts, its source lines, and the hot region's code."""

import re
from collections import defaultdict
from collections.abc import Iterator
from difflib import unified_diff
from itertools import groupby
from linecache import getline
from pathlib import Path

from reprolab.printable import printable, shortened
from reprolab.tables import NONE, WORDS, Column, Table
from sass.facts import Facts
from sass.flow import Block
from sass.measures import Measure, measures
from sass.parse import TARGET, Frame, Instruction

INSTRUCTION_WIDTH, SOURCE_WIDTH = 60, 72
NUMBERED = re.compile(r"\b(U?[RP])\d+\b")  # a register


def tables(facts: Facts) -> list[Table]:
    """The facts, and the distribution of the region's instructions over the kernel's lines."""
    code = facts.code
    title = f"{code.kernel.name} on {code.arch}: {code.name}"
    rows = []
    for base, ways in groupby(measures(facts), lambda m: m.name.partition(".")[0]):
        first, *others = ways
        value = values_text([first, *others])
        rows.append({"fact": base.replace("_", " "), "value": value, "meaning": first.meaning})
    columns = [Column("fact", "fact", **WORDS), Column("value", "value")]
    columns.append(Column("meaning", "meaning", **WORDS))
    note = (
        "a-b (c): a and b on the shortest and the longest way of one thread, c in all of the code, "
        "as a warp runs it whose threads between them take every way. "
        "Index: every instruction that works on a code until the table is read, or an entry chosen."
    )
    return [Table("facts", title, columns, rows, [note]), lines_table(facts)]


def values(facts: Facts) -> dict[str, str]:
    """Each fact as text, by its name."""
    ways = groupby(measures(facts), lambda m: m.name.partition(".")[0])
    return {base.replace("_", " "): values_text(list(sizes)) for base, sizes in ways}


def differing_facts(a: Facts, b: Facts) -> Table:
    """The facts of two kernels, where they differ."""
    names = [facts.code.kernel.name for facts in (a, b)]
    ours, theirs = values(a), values(b)
    rows = [
        {"fact": fact, "a": ours[fact], "b": theirs[fact]}
        for fact in ours
        if fact in theirs and ours[fact] != theirs[fact]
    ]
    columns = [Column("fact", "fact", **WORDS), Column(names[0], "a"), Column(names[1], "b")]
    return Table("diff", f"Facts of {names[0]} and {names[1]} on {a.code.arch}", columns, rows, [])


def difference(a: Facts, b: Facts) -> Iterator[str]:
    """A unified diff of the hot regions; registers have no numbers, which the compiler chooses."""
    names = [facts.code.kernel.name for facts in (a, b)]
    return unified_diff(*map(plain_instructions, (a, b)), *names, n=2, lineterm="")


def plain_instructions(facts: Facts) -> list[str]:
    lines = (f"{f'@{i.guard}' if i.guard else ''} {i.opcode} {i.operands}" for i in facts.inside)
    return [printable(NUMBERED.sub(r"\1", line).strip()) for line in lines]


def values_text(ways: list[Measure]) -> str:
    """'34.31-36.31 (57.31)' for least, most and all; one value if they are equal."""
    if ways[0].missing:
        return f"{NONE}: {ways[0].missing}"
    texts = [f"{m.value:.2f}".rstrip("0").rstrip(".") for m in ways]
    if len(set(texts)) == 1:
        return texts[0]
    return f"{'-'.join(dict.fromkeys(texts[:2]))} ({texts[2]})"


def region_name(facts: Facts) -> str:
    return "the loop" if facts.region.is_loop else "the kernel"


def lines_table(facts: Facts) -> Table:
    """One row per line of the kernel itself, including calls that were inlined there."""
    of_line = defaultdict(list)
    for instruction in facts.inside:
        if instruction.frames:
            of_line[instruction.frames[-1]].append(instruction)
    rows = []
    for frame, here in sorted(of_line.items(), key=lambda each: (each[0].file, each[0].line)):
        row = {"line": place(frame), "count": len(here)}
        row |= {"index": sum(map(facts.is_index, here)) or None}
        row |= {"look_ups": sum(map(facts.is_look_up, here)) or None}
        rows.append(row | {"source": shortened(source_line(frame))})
    columns = [
        Column("line", "line", align="l"),
        Column("instructions", "count", wrap=5),
        Column("index", "index", wrap=5),
        Column("look-ups", "look_ups", wrap=5),
        Column("source", "source", **WORDS),
    ]
    title = f"Instructions of {region_name(facts)} by the kernel's lines"
    note = "The compiler's line table: an instruction without a line counts for the one before it."
    return Table("lines", title, columns, rows, [note])


def listing(facts: Facts) -> Iterator[str]:
    """The hot region's instructions, each with the source line that it comes from."""
    blocks = [facts.code.flow.blocks[number] for number in sorted(facts.region.blocks)]
    what = f"{facts.elements} {facts.code.kernel.family.element}s"
    yield f"{region_name(facts).capitalize()}: {len(facts.inside)} instructions for {what}"
    yield "(i: index computation, t: look-up in the table)"
    before: tuple[Frame, ...] = ()
    for block in blocks:
        yield heading(facts, block)
        for instruction in block.instructions:
            mark = (
                "i"
                if facts.is_index(instruction)
                else "t"
                if facts.is_look_up(instruction)
                else " "
            )
            text = f"  {instruction.address:04x} {mark} {spelled(facts, instruction)}"
            lines = source_text(instruction.frames) if instruction.frames != before else ""
            yield printable(f"{text:<{INSTRUCTION_WIDTH}}  {lines}".rstrip())
            before = instruction.frames


def heading(facts: Facts, block: Block) -> str:
    following = (facts.code.flow.blocks[number] for number in block.successors)
    onward = ", ".join(f"{b.instructions[0].address:04x}" for b in following)
    does = f"goes on to {onward}" if onward else "ends the kernel"
    return f"{block.instructions[0].address:04x}:  {does}"


def spelled(facts: Facts, instruction: Instruction) -> str:
    """The instruction with addresses for labels."""
    labels = facts.code.function.labels
    text = TARGET.sub(
        lambda m: f"{labels[m[1]]:04x}" if m[1] in labels else m[1], instruction.operands
    )
    guard = f"@{instruction.guard}" if instruction.guard else ""
    return f"{guard:>5} {instruction.opcode} {text}".rstrip()


def source_text(frames: tuple[Frame, ...]) -> str:
    """'tile_walk.cuh:77 weights[2 * j] = ... < format.hpp:49': the kernel's line, then the place
    in the calls inlined there."""
    if not frames:
        return ""
    text = f"{place(frames[-1])}  {source_line(frames[-1])}"
    inner = f"  < {place(frames[0])}" if len(frames) > 1 else ""
    room = SOURCE_WIDTH - len(inner)
    return (text if len(text) <= room else f"{text[: room - 3]}...") + inner


def place(frame: Frame) -> str:
    return f"{Path(frame.file).name}:{frame.line}"


def source_line(frame: Frame) -> str:
    """Empty if the file cannot be read."""
    return " ".join(getline(frame.file, frame.line).split())
