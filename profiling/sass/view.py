"""What `make sass` shows of one kernel: its facts, its source lines, and the hot region's code."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from plots.tables import NONE, WORDS, Column, Table
from records.printable import printable, shortened
from sass.facts import Facts
from sass.flow import Block
from sass.measures import Measure, measures
from sass.parse import TARGET, Frame, Instruction

INSTRUCTION_WIDTH, SOURCE_WIDTH = 60, 72


def tables(facts: Facts) -> list[Table]:
    """The facts, and how the region's instructions spread over the kernel's lines."""
    code = facts.code
    title = f"{code.kernel.name} on {code.arch}: {code.name}"
    rows = []
    for base, found in groupby(measures(facts), lambda m: m.name.partition(".")[0]):
        ways = list(found)
        meaning = ways[0].meaning
        rows.append({"fact": base.replace("_", " "), "value": values_text(ways), "of": meaning})
    columns = [Column("fact", "fact", **WORDS), Column("value", "value")]
    columns.append(Column("of what", "of", **WORDS))
    note = (
        "a-b (c): a and b on the shortest and the longest way of one thread, c in all of the code, "
        "as a warp runs it whose threads between them take every way. "
        "Index: every instruction that works on a code until the table is read, or an entry chosen."
    )
    return [Table("facts", title, columns, rows, [note]), lines_table(facts)]


def values_text(ways: list[Measure]) -> str:
    """'34.31-36.31 (57.31)' of least, most and all; one value where they are the same."""
    if ways[0].missing:
        return f"{NONE}: {ways[0].missing}"
    texts = [value_text(m) for m in ways]
    if len(set(texts)) == 1:
        return texts[0]
    return f"{'-'.join(dict.fromkeys(texts[:2]))} ({texts[2]})"


def value_text(measure: Measure) -> str:
    return NONE if measure.value is None else f"{measure.value:.2f}".rstrip("0").rstrip(".")


def region_name(facts: Facts) -> str:
    return "the loop" if facts.region.is_loop else "the kernel"


def lines_table(facts: Facts) -> Table:
    """One row per line of the kernel itself, calls that were inlined there included."""
    frames = {i.address: i.frames[-1] for i in facts.inside if i.frames}
    counts = Counter(frames.values())
    rows = []
    for frame, count in sorted(counts.items(), key=lambda found: (found[0].file, found[0].line)):
        here = [address for address, found in frames.items() if found == frame]
        index = sum(address in facts.decoding.index for address in here)
        look_ups = sum(address in facts.decoding.look_ups for address in here)
        row = {"line": place(frame), "count": count, "index": index or None}
        rows.append(row | {"look_ups": look_ups or None, "source": shortened(source_line(frame))})
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
        for found in block.instructions:
            text = f"  {found.address:04x} {mark(facts, found)} {spelled(facts, found)}"
            lines = source_text(found.frames) if found.frames != before else ""
            yield printable(f"{text:<{INSTRUCTION_WIDTH}}  {lines}".rstrip())
            before = found.frames


def heading(facts: Facts, block: Block) -> str:
    flow = facts.code.flow
    start = f"{block.instructions[0].address:04x}"
    onward = ", ".join(f"{flow.blocks[s].instructions[0].address:04x}" for s in block.successors)
    return f"{start}:  goes on to {onward}" if onward else f"{start}:  ends the kernel"


def mark(facts: Facts, found: Instruction) -> str:
    """i: index computation; t: look-up in the table."""
    if found.address in facts.decoding.index:
        return "i"
    return "t" if found.address in facts.decoding.look_ups else " "


def spelled(facts: Facts, found: Instruction) -> str:
    """The instruction with addresses for labels."""
    labels = facts.code.function.labels
    text = TARGET.sub(lambda m: f"{labels[m[1]]:04x}" if m[1] in labels else m[1], found.operands)
    guard = f"@{found.guard}" if found.guard else ""
    return f"{guard:>5} {found.opcode} {text}".rstrip()


def source_text(frames: tuple[Frame, ...]) -> str:
    """'tile_walk.cuh:77 weights[2 * j] = ... < format.hpp:49': the kernel's line, then where in
    the calls inlined there."""
    if not frames:
        return ""
    text = f"{place(frames[-1])}  {source_line(frames[-1])}"
    inner = f"  < {place(frames[0])}" if len(frames) > 1 else ""
    room = SOURCE_WIDTH - len(inner)
    return (text if len(text) <= room else f"{text[: room - 3]}...") + inner


def place(frame: Frame) -> str:
    return f"{Path(frame.file).name}:{frame.line}"


@cache
def source(file: str) -> list[str]:
    """The lines of a file; none where it cannot be read."""
    try:
        return Path(file).read_text(errors="replace").split("\n")
    except OSError:
        return []


def source_line(frame: Frame) -> str:
    lines = source(frame.file)
    return re.sub(r"\s+", " ", lines[frame.line - 1].strip()) if frame.line <= len(lines) else ""
