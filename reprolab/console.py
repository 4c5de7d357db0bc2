"""Tables for the terminal: plain ASCII lines, none longer than the terminal's width."""

import os
import re
import sys
import textwrap
from collections.abc import Sequence

from reprolab.command_line import discard
from reprolab.tables import Row, Table

WIDTH = 100  # of files and pipes
NARROWEST_TERMINAL, WIDEST_TERMINAL = 80, 200
GAP = "  "
NARROWEST = 8


def show(
    banner: str, tables: Sequence[Table], lines: Sequence[str] = (), closing: Sequence[Table] = ()
) -> None:
    """Prints the tables in this order, as wide as the terminal; `banner` marks a recorded run."""
    width = WIDTH
    if sys.stdout.isatty():
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
        width = min(max(columns, NARROWEST_TERMINAL), WIDEST_TERMINAL)
    parts = [box(banner, width)] if banner else []
    parts += [render(table, width) for table in tables]
    if lines:
        wrapped = [part for line in lines for part in wrap(line, width, indent="  ")]
        parts.append("\n".join(wrapped) + "\n")
    parts += [render(table, width) for table in closing]
    try:
        print("\n".join(parts), end="", flush=True)
    except BrokenPipeError:  # the reader has seen enough; the exit status stays
        discard(sys.stdout)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width`; hyphens of names and options are left alone."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def unbroken(text: str, code: bool) -> list[str]:
    """Pieces that stay on one line where possible: words, or the parts of a kernel's name."""
    return re.findall(r"[^ _]*[ _]|[^ _]+", text) if code else text.split(" ")


def wrap_name(text: str, width: int) -> list[str]:
    """A kernel's name, broken after underscores if necessary."""
    lines = [""]
    for part in unbroken(text, code=True):
        if lines[-1] and len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [piece for line in lines for piece in wrap(line.rstrip(), width)]


def box(text: str, width: int = WIDTH) -> str:
    """`text` in a box, so that a recorded run is not mistaken for a measurement."""
    lines = wrap(text, width - 4)
    inside = max(len(line) for line in lines)
    edge = "+" + "-" * (inside + 2) + "+"
    return "\n".join([edge, *(f"| {line:<{inside}} |" for line in lines), edge]) + "\n"


def render(table: Table, width: int = WIDTH) -> str:
    """The table with title, banner, notes and provenance, ending in a newline."""
    table = table.without_details()
    groups, footnotes = table.body()
    body = [(heading, list(map(texts_of, rows))) for heading, rows in groups]
    heads = [column.name for column in table.columns]
    widths = column_widths(table, heads, [row for _, rows in body for row in rows], width)
    rule = "-" * (sum(widths) + len(GAP) * (len(widths) - 1))
    lines = [table.title, *wrap(table.banner, width), "", *line_up(table, heads, widths), rule]
    for i, (heading, rows) in enumerate(body):
        if heading:
            lines += [""] * (i > 0) + wrap(heading, width, indent="  ")
        for row in rows:
            lines += line_up(table, row, widths)
    lines += [rule]
    for i, note in enumerate(footnotes, 1):
        lines += wrap(f"[{i}] {note}", width, indent="    ")
    for note in table.notes_saying("marked *"):
        lines += wrap(note, width, indent="  ")
    return "\n".join(lines) + "\n"


def texts_of(row: Row) -> list[str]:
    return [c.text + " *" * c.best + f" [{numbers}]" * bool(numbers) for c, numbers in row]


def whole(table: Table, lines: list[list[str]], in_parts: bool) -> list[int]:
    """The widths that break no word; names of kernels are words, or stay whole in parts."""
    return [
        max([c.wrap, *(len(x) for line in lines for x in unbroken(line[i], c.code and in_parts))])
        for i, c in enumerate(table.columns)
    ]


def column_widths(table: Table, heads: list[str], body: list[list[str]], width: int) -> list[int]:
    """Natural widths; the widest columns that may wrap are narrowed until the line fits."""
    widths = []
    for i, head in enumerate(heads):
        words = max(len(word) for word in head.split(" "))
        widths.append(max([words, *(len(row[i]) for row in body)]))
    limit = width - len(GAP) * (len(widths) - 1)
    lines = [heads, *body]
    narrowest = [NARROWEST] * len(heads)  # at last, anything is broken
    for floors in (whole(table, lines, False), whole(table, lines, True), narrowest):
        while sum(widths) > limit:
            wide = [i for i, c in enumerate(table.columns) if c.wrap and widths[i] > floors[i]]
            if not wide:
                break
            widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def line_up(table: Table, row: list[str], widths: list[int]) -> list[str]:
    """One row as one or more lines."""
    columns = []
    for text, width, spec in zip(row, widths, table.columns, strict=True):
        columns.append((wrap_name if spec.code else wrap)(text, width) or [""])
    lines = []
    for k in range(max(len(column) for column in columns)):
        parts = []
        for column, width, spec in zip(columns, widths, table.columns, strict=True):
            part = column[k] if k < len(column) else ""
            parts.append(part.rjust(width) if spec.align == "r" else part.ljust(width))
        lines.append(GAP.join(parts).rstrip())
    return lines
