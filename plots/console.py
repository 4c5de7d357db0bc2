"""Tables for the terminal: plain ASCII furniture, at most 100 columns."""

import textwrap

from plots.tables import Group, Row, Table, cells

WIDTH = 100
GAP = "  "
NARROWEST = 8


def wrap(text: str, width: int = WIDTH, indent: str = "") -> list[str]:
    """Lines of at most `width`; hyphens of names and options are left alone."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def box(text: str) -> str:
    """`text` in a box, so that nobody takes a recorded run for a measurement."""
    lines = wrap(text, WIDTH - 4)
    width = max(len(line) for line in lines)
    edge = "+" + "-" * (width + 2) + "+"
    return "\n".join([edge, *(f"| {line:<{width}} |" for line in lines), edge]) + "\n"


def render(table: Table) -> str:
    """The table with title, banner, notes and provenance, ending in a newline."""
    table = table.without_details()
    footnotes = table.footnotes()
    body = [row if isinstance(row, Group) else console_row(row, footnotes) for row in table.rows]
    heads = [column.name for column in table.columns]
    widths = column_widths(table, heads, [row for row in body if not isinstance(row, Group)])
    rule = "-" * (sum(widths) + len(GAP) * (len(widths) - 1))
    lines = [table.title]
    if table.banner:
        lines += wrap(table.banner)
    lines += ["", *line_up(table, heads, widths), rule]
    for i, row in enumerate(body):
        if isinstance(row, Group):
            lines += [""] if i else []
            lines += wrap(row.text, indent="  ")
        else:
            lines += line_up(table, row, widths)
    lines += [rule]
    for i, note in enumerate(footnotes, 1):
        lines += wrap(f"[{i}] {note}", indent="    ")
    for note in table.notes + table.provenance:
        lines += wrap(note, indent="  ")
    return "\n".join(lines) + "\n"


def console_row(row: Row, footnotes: list[str]) -> list[str]:
    return [
        cell.text + (" *" if cell.best else "") + (f" [{numbers}]" if numbers else "")
        for cell, numbers in cells(row, footnotes)
    ]


def column_widths(table: Table, heads: list[str], body: list[list[str]]) -> list[int]:
    """Natural widths; the widest of the columns that may wrap give way until the line fits."""
    widths = []
    for i, head in enumerate(heads):
        words = max(len(word) for word in head.split(" "))
        widths.append(max([words, *(len(row[i]) for row in body)]))
    limit = WIDTH - len(GAP) * (len(widths) - 1)
    longest = [
        max([c.wrap, *(len(w) for row in [heads, *body] for w in row[i].split(" "))])
        for i, c in enumerate(table.columns)
    ]
    for floors in (longest, [NARROWEST] * len(heads)):  # whole words first
        while sum(widths) > limit:
            wide = [i for i, c in enumerate(table.columns) if c.wrap and widths[i] > floors[i]]
            if not wide:
                break
            widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def line_up(table: Table, row: list[str], widths: list[int]) -> list[str]:
    """One row as one or more lines."""
    columns = []
    for text, width in zip(row, widths, strict=True):
        columns.append(wrap(text, width) or [""])
    lines = []
    for k in range(max(len(column) for column in columns)):
        parts = []
        for column, width, spec in zip(columns, widths, table.columns, strict=True):
            part = column[k] if k < len(column) else ""
            parts.append(part.rjust(width) if spec.align == "r" else part.ljust(width))
        lines.append(GAP.join(parts).rstrip())
    return lines
