"""Tables for documents: Markdown and CSV, and the files of all writers."""

import csv
import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from plots.latex import latex
from reprolab.console import render
from reprolab.tables import Column, Noted, Table

# The first characters of texts that a spreadsheet evaluates, unless an apostrophe precedes them.
FORMULA = "(?=[=+@\uff1d\uff0b\uff0d\uff20-])"


def markdown_escape(text: str) -> str:
    """`text`, escaped for a Markdown table cell, heading or list."""
    for char in "\\`*|[]~#":
        text = text.replace(char, "\\" + char)
    # An underscore within a word needs no escape, which keeps most kernel names readable.
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)
    # GitHub renders text between dollars as mathematics, even after a backslash.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("$", "&#36;")


def markdown_code(text: str) -> str:
    """`text` in the font of code; by a tag if backticks would not work in a table."""
    return f"<code>{markdown_escape(text)}</code>" if re.search(r"[`|\\]", text) else f"`{text}`"


def markdown_link(text: str, path: str | Path, anchor: str = "") -> str:
    """A link with a text that is Markdown already, to a file or to a heading in it."""
    return f"[{text}]({quote(os.fsencode(path))}{f'#{anchor}' * bool(anchor)})"


def markdown_banner(text: str) -> list[str]:
    """A prominent line; none without a text."""
    return [f"> **{markdown_escape(text)}**", ""] if text else []


def markdown(table: Table) -> str:
    body, footnotes = table.body()
    lines = [f"**{markdown_escape(table.title)}**", "", *markdown_banner(table.banner)]
    rows = [[markdown_escape(column.name) for column in table.columns]]
    rows.append(["---:" if column.align == "r" else "---" for column in table.columns])
    lines += [f"| {' | '.join(row)} |" for row in rows]
    for heading, members in body:
        if heading:
            lines.append(f"| **{markdown_escape(heading)}** |{' |' * (len(table.columns) - 1)}")
        for row in members:
            parts = map(markdown_cell, table.columns, row)
            lines.append(f"| {' | '.join(parts)} |")
    lines.append("")
    for i, note in enumerate(footnotes, 1):
        lines += [f"<sup>{i}</sup> {markdown_escape(note)}", ""]
    for note in table.notes_saying("in bold"):
        lines += [f"<sub>{markdown_escape(note)}</sub>", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def markdown_cell(column: Column, entry: tuple[Noted, str]) -> str:
    cell, numbers = entry
    part = markdown_code(cell.text) if column.code else markdown_escape(cell.text)
    part = f"**{part}**" if cell.best else part
    part = markdown_link(part, cell.link, cell.anchor) if cell.link else part
    return part + f" <sup>{numbers}</sup>" * bool(numbers)


def csv_text(table: Table) -> str:
    """Header and rows under `#` lines with title, banner, notes and provenance."""
    out = io.StringIO()
    for line in [table.title, table.banner, *table.notes_saying("marked as best")]:
        if line:  # a spreadsheet splits it at commas or semicolons
            text = re.sub(f'([,;]"?){FORMULA}', r"\1'", line)
            out.write(f"# {text}\n")
    rows, data = csv.writer(out, lineterminator="\n"), table.csv_rows
    names = list(dict.fromkeys(name for row in data for name in row))
    lines = [names] * bool(names) + [[row.get(name) for name in names] for row in data]
    rows.writerows(map(csv_value, line) for line in lines)
    return out.getvalue()


def csv_value(value: object) -> object:
    """Numbers to six significant digits, nothing for None, and texts that stay texts."""
    if isinstance(value, float):
        return f"{value:.6g}"
    # A spreadsheet may split a row at semicolons, too.
    return re.sub(f'(^|;"?){FORMULA}', r"\1'", value) if isinstance(value, str) else value


WRITERS: dict[str, Callable[[Table], str]] = {
    "txt": render,
    "md": markdown,
    "csv": csv_text,
    "tex": latex,
}


def table_files(
    tables: Sequence[Table], directory: Path, latex_notes: bool = True
) -> dict[Path, bytes]:
    """Each table in every format, as UTF-8 with plain newlines."""
    writers = WRITERS | {"tex": lambda table: latex(table, latex_notes)}
    return {
        directory / f"{table.name}.{suffix}": write(table).encode("utf-8")
        for table in tables
        for suffix, write in writers.items()
    }
