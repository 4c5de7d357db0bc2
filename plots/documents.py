"""Tables for documents: Markdown, CSV and LaTeX."""

import csv
import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from records.console import GAP, render, texts_of, whole
from records.printable import escaped
from records.tables import Column, Noted, Table

LATEX_FONTS = {"scriptsize": 80, "tiny": 106}  # characters in the line of an article, and less

LATEX = {c: "\\" + c for c in "{}$&#%_"} | {"\\": r"\textbackslash{}"}
LATEX |= {"^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}"}
LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "`": r"\textasciigrave{}"}
LATEX['"'] = "''"  # LaTeX's own double quote sign needs another font encoding
LATEX |= {"\u2013": r"\textendash{}", "\u2014": r"\textemdash{}", "\u2026": r"\ldots{}"}
LATEX |= {"\u2018": r"\textquoteleft{}", "\u2019": r"\textquoteright{}"}
LATEX |= {"\u201c": r"\textquotedblleft{}", "\u201d": r"\textquotedblright{}"}
LATEX |= {"\u2020": r"\textdagger{}", "\u2022": r"\textbullet{}", "\u2212": "$-$"}
LATEX |= {"\u00d7": r"$\times$", "\u2264": r"$\leq$", "\u2265": r"$\geq$", "\u2248": r"$\approx$"}
LATEX |= {c: f"{{{c}}}" for c in "[]*"}  # behind \\ at the end of a row, they would be its options
BREAKS = re.compile("([_/]|(?<=[a-z])-)")  # behind which LaTeX breaks a word
# What a spreadsheet calculates, or runs, unless an apostrophe stands before it.
FORMULA = "(?=[=+@\uff1d\uff0b\uff0d\uff20-])"
LATIN_1 = 255  # beyond it, few characters are known to every LaTeX


def latex_escape(text: str) -> str:
    """`text` so that LaTeX prints it as it is; several hyphens stay as many."""
    text = "".join(c if ord(c) <= LATIN_1 or c in LATEX else escaped(c) for c in text)
    return re.sub("-(?=-)", "-{}", "".join(LATEX.get(c, c) for c in text))


def markdown_escape(text: str) -> str:
    """`text` so that a Markdown table cell, heading or list shows it as it is."""
    for char in "\\`*|[]~#":
        text = text.replace(char, "\\" + char)
    # An underscore within a word is a plain one; most kernel names stay readable so.
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)
    # GitHub takes dollars for mathematics, and a backslash before one does not stop it.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("$", "&#36;")


def markdown_code(text: str) -> str:
    """`text` in the font of code; where backticks could not hold it in a table, by a tag."""
    return f"<code>{markdown_escape(text)}</code>" if re.search(r"[`|\\]", text) else f"`{text}`"


def markdown_link(text: str, path: str | Path, anchor: str = "") -> str:
    """A link with a text that is Markdown already, to a file or to a heading in it."""
    return f"[{text}]({quote(os.fsencode(path))}{f'#{anchor}' * bool(anchor)})"


def markdown_banner(text: str) -> list[str]:
    """Lines that nobody overlooks; none without a text."""
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


def markdown_cell(column: Column, found: tuple[Noted, str]) -> str:
    cell, numbers = found
    part = markdown_code(cell.text) if column.code else markdown_escape(cell.text)
    part = f"**{part}**" if cell.best else part
    part = markdown_link(part, cell.link, cell.anchor) if cell.link else part
    return part + f" <sup>{numbers}</sup>" * bool(numbers)


def csv_text(table: Table) -> str:
    """Header and rows under `#` lines with title, banner, notes and provenance."""
    out = io.StringIO()
    for line in [table.title, table.banner, *table.notes_saying("marked as best")]:
        if line:  # a spreadsheet takes it apart at commas or semicolons
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
    # A spreadsheet may take a row apart at semicolons, too.
    return re.sub(f'(^|;"?){FORMULA}', r"\1'", value) if isinstance(value, str) else value


def latex_layout(table: Table, rows: list[list[str]]) -> tuple[str, list[float]]:
    """The largest font that breaks no word, and each column's part of the line: what its longest
    word needs, and of the rest the more, the longer its texts.
    """
    # Counted in letters as wide as a digit: capitals, m and w are wider.
    heads = [re.sub("([A-Zmw])", r"\1\1", column.name) for column in table.columns]
    heads, *body = [[BREAKS.sub(r"\1 ", text) for text in row] for row in (heads, *rows)]
    least = whole(table, [heads, *body], in_parts=True)
    texts = [max([w, *(len(row[i]) for row in body)]) for i, w in enumerate(least)]
    least = [w if c.wrap else t for c, w, t in zip(table.columns, least, texts, strict=True)]
    for font, line in LATEX_FONTS.items():  # noqa: B007
        rest = line - len(GAP) * (len(least) - 1) - sum(least)
        if rest >= 0:
            break
    longer = [text - width for text, width in zip(texts, least, strict=True)]
    part = min(1.0, max(0, rest) / max(1, sum(longer)))
    needed = [width + part * more + 1.5 for width, more in zip(least, longer, strict=True)]
    return font, [0.999 * width / sum(needed) for width in needed]


def latex_words(text: str) -> str:
    """A cell's or heading's text: names in it may be broken behind underscores and slashes."""
    return re.sub(r"(\\_|/)", r"\1\\allowbreak{}", latex_escape(text))


def latex_cell(column: Column, found: tuple[Noted, str]) -> str:
    cell, numbers = found
    part = latex_words(cell.text)
    part = rf"\texttt{{{part}}}" if column.code else part
    part = rf"\textbf{{{part}}}" if cell.best else part
    return part + rf"\textsuperscript{{{numbers}}}" * bool(numbers)


def latex(table: Table, with_notes: bool = True) -> str:
    """A table as wide as the line, for a document that loads array, booktabs and longtable.

    `with_notes`: also what stands below it, but for the footnotes of its cells.
    """
    table = table.without_details()
    body, footnotes = table.body()
    font, widths = latex_layout(table, [texts_of(row) for _, rows in body for row in rows])
    spec = "".join(
        rf">{{\ragged{'left' if column.align == 'r' else 'right'}\arraybackslash}}"
        rf"p{{\dimexpr{width:.4f}\linewidth-2\tabcolsep}}"
        for column, width in zip(table.columns, widths, strict=True)
    )
    head = " & ".join(latex_words(c.name) for c in table.columns) + r" \\"
    caption = latex_escape(table.title)
    if table.banner:
        caption += r". \textbf{" + latex_escape(table.banner) + "}"
    label = re.sub(r"[^A-Za-z0-9_.-]", "-", "-".join(filter(None, (table.experiment, table.name))))
    lines = ["% Generated by python -m plots; needs array, booktabs and longtable"]
    lines += [rf"{{\{font}\setlength{{\tabcolsep}}{{2pt}}\setlength{{\LTcapwidth}}{{\linewidth}}%"]
    lines += [rf"\begin{{longtable}}{{{spec}}}", rf"\caption{{{caption}}}\label{{tab:{label}}} \\"]
    for end in (r"\endfirsthead", r"\endhead"):  # further pages have no caption
        lines += [r"\toprule", head, r"\midrule", end]
    span = rf"\multicolumn{{{len(widths)}}}{{p{{\dimexpr\linewidth-2\tabcolsep}}}}"
    for i, (heading, rows) in enumerate(body):
        if heading:
            lines += [r"\addlinespace"] * (i > 0)
            lines.append(rf"{span}{{\raggedright\textit{{{latex_escape(heading)}}}}} \\")
        lines += [" & ".join(map(latex_cell, table.columns, row)) + r" \\" for row in rows]
    lines += [r"\bottomrule", r"\end{longtable}", r"\raggedright"]
    notes = [rf"\textsuperscript{{{i}}} {latex_escape(n)}" for i, n in enumerate(footnotes, 1)]
    below = table.notes_saying("in bold", with_commands=False) if with_notes else []
    lines += [note + r"\par" for note in (*notes, *map(latex_escape, below))]
    return "\n".join([*lines, "}"]) + "\n"


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
