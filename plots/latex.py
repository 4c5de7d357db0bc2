"""Tables for LaTeX, as floats as wide as the page: they fit a text in one column or two."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from reprolab.console import GAP, texts_of, whole
from reprolab.printable import escaped
from reprolab.tables import NONE, Column, Noted, Row, Table

LATEX_FONTS = {"scriptsize": 80, "tiny": 106}  # characters in a line of an article

LATEX = {c: "\\" + c for c in "{}$&#%_"} | {"\\": r"\textbackslash{}"}
LATEX |= {"^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}"}
LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "`": r"\textasciigrave{}"}
LATEX['"'] = "''"  # LaTeX's own double quote sign needs another font encoding
LATEX |= {"\u2013": r"\textendash{}", "\u2014": r"\textemdash{}", "\u2026": r"\ldots{}"}
LATEX |= {"\u2018": r"\textquoteleft{}", "\u2019": r"\textquoteright{}"}
LATEX |= {"\u201c": r"\textquotedblleft{}", "\u201d": r"\textquotedblright{}"}
LATEX |= {"\u2020": r"\textdagger{}", "\u2022": r"\textbullet{}", "\u2212": "$-$"}
LATEX |= {"\u00d7": r"$\times$", "\u2264": r"$\leq$", "\u2265": r"$\geq$", "\u2248": r"$\approx$"}
LATEX |= {c: f"{{{c}}}" for c in "[]*"}  # after \\ at the end of a row, they would be its options
BREAKS = re.compile("([_/]|(?<=[a-z])-)")  # after which LaTeX breaks a word
LATIN_1 = 255  # beyond it, few characters are known to every LaTeX
NUMBER = re.compile(r"([+\-\u2212]?)(\d+)(?:\.(\d+))?")
MINUS = re.compile(r"(?<![\w.)-])-(?=\d)")
RANGE = re.compile(r"(?<![\w.-])(\d[\d.,]*)-(?!0\d)(\d[\d.,]*)(?![\w-])")  # but not 2025-09


class Page(NamedTuple):
    width: float  # 1: an article in one column
    lines: int  # in a float, without its caption


ARTICLE, TWO_COLUMNS = Page(1, 60), Page(1.6, 74)


def latex_escape(text: str) -> str:
    """`text`, escaped for LaTeX; consecutive hyphens are kept apart."""
    text = "".join(c if ord(c) <= LATIN_1 or c in LATEX else escaped(c) for c in text)
    return re.sub("-(?=-)", "-{}", "".join(LATEX.get(c, c) for c in text))


def typeset(text: str) -> str:
    """The text with typographic signs for hyphens: a minus; a dash in ranges and for no value."""
    if text == NONE:
        return "\u2013"
    return RANGE.sub("\\1\u2013\\2", MINUS.sub("\u2212", text))


def number_format(texts: Sequence[str]) -> str:
    """siunitx's format of a column of numbers: '-3.2'; '' if a text is not a number."""
    matches = [NUMBER.fullmatch(text) for text in texts if text != NONE]
    if not matches or not all(matches):
        return ""
    whole_digits = max(len(m[2]) for m in matches)
    decimals = max(len(m[3] or "") for m in matches)
    return f"{'-' * any(m[1] for m in matches)}{whole_digits}.{decimals}"


def formats_of(table: Table, rows: Sequence[Row]) -> list[str]:
    columns = [[cell.text for cell, _ in column] for column in zip(*rows, strict=True)]
    columns = columns or [[]] * len(table.columns)
    pairs = zip(table.columns, columns, strict=True)
    return [number_format(texts) if c.align == "r" and not c.code else "" for c, texts in pairs]


def latex_layout(table: Table, rows: list[list[str]], width: float) -> tuple[str, list[float]]:
    """The largest font that breaks no word, and each column's part of the line: the width of its
    longest word, plus a part of the rest in proportion to its texts.
    """
    # Counted in letters as wide as a digit: capitals, m and w are wider.
    heads = [re.sub("([A-Zmw])", r"\1\1", column.name) for column in table.columns]
    heads, *body = [[BREAKS.sub(r"\1 ", text) for text in row] for row in (heads, *rows)]
    least = whole(table, [heads, *body], in_parts=True)
    texts = [max([w, *(len(row[i]) for row in body)]) for i, w in enumerate(least)]
    least = [w if c.wrap else t for c, w, t in zip(table.columns, least, texts, strict=True)]
    for font, line in LATEX_FONTS.items():  # noqa: B007
        rest = int(line * width) - len(GAP) * (len(least) - 1) - sum(least)
        if rest >= 0:
            break
    longer = [text - width for text, width in zip(texts, least, strict=True)]
    part = min(1.0, max(0, rest) / max(1, sum(longer)))
    needed = [width + part * more + 1.5 for width, more in zip(least, longer, strict=True)]
    return font, [0.999 * width / sum(needed) for width in needed]


def latex_words(text: str, code: bool = False) -> str:
    """A cell's or heading's text, in which names may be broken after underscores and slashes."""
    return re.sub(r"(\\_|/)", r"\1\\allowbreak{}", latex_escape(text if code else typeset(text)))


def latex_cell(column: Column, entry: tuple[Noted, str], number: str) -> str:
    """`number`: the format of a column of numbers, in which other texts are in braces."""
    cell, numbers = entry
    notes = rf"\textsuperscript{{{numbers}}}" * bool(numbers)
    if number and NUMBER.fullmatch(cell.text):
        return r"\bfseries " * cell.best + cell.text + f"{{{notes}}}" * bool(notes)
    part = latex_words(cell.text, column.code)
    part = rf"\texttt{{{part}}}" if column.code else part
    part = (rf"\textbf{{{part}}}" if cell.best else part) + notes
    return f"{{{part}}}" if number else part


def latex_head(column: Column, number: str) -> str:
    """A heading above numbers, whose column is only as wide as they are: a line for each word or
    its parts."""
    if not number:
        return latex_words(column.name)
    words = [part for word in column.name.split(" ") for part in re.split(r"(?<=_)", word)]
    lines = r"\\".join(map(latex_words, words))
    return rf"{{\begin{{tabular}}[b]{{@{{}}c@{{}}}}{lines}\end{{tabular}}}}"


def column_spec(column: Column, width: float, number: str) -> str:
    if number:
        return f"S[table-format={number},detect-weight]"
    ragged = rf">{{\ragged{'left' if column.align == 'r' else 'right'}\arraybackslash}}"
    return ragged + rf"p{{\dimexpr{width:.4f}\linewidth-2\tabcolsep}}"


def latex(table: Table, with_notes: bool = True, page: Page = ARTICLE) -> str:
    """A table in floats of at most a page, for a document that loads array, booktabs and siunitx.
    `with_notes`: also the notes below it, besides the footnotes of its cells.
    """
    table = table.without_details()
    body, footnotes = table.body()
    every = [row for _, rows in body for row in rows]
    formats = formats_of(table, every)
    texts = [
        [
            "0" * (sum(map(int, re.findall(r"\d+", f))) + 2) if f else t
            for f, t in zip(formats, texts_of(row), strict=True)
        ]
        for row in every
    ]
    font, widths = latex_layout(table, texts, page.width)
    spec = "".join(map(column_spec, table.columns, widths, formats))
    head = " & ".join(map(latex_head, table.columns, formats)) + r" \\"
    line = int(LATEX_FONTS[font] * page.width)
    heights = [row_lines(row, widths, line) for row in texts]
    lines = ["% Generated by python -m plots; needs array, booktabs and siunitx"]
    parts = pages(body, heights, page.lines)
    for i, part in enumerate(parts):
        lines += [r"\begin{table*}[tp]", r"\centering", rf"\{font}\setlength{{\tabcolsep}}{{2pt}}"]
        lines += [caption(table)] if i == 0 else [r"\addtocounter{table}{-1}", continued(table)]
        lines += [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head, r"\midrule"]
        lines += body_lines(table, part, formats)
        lines += [r"\bottomrule", r"\end{tabular}"]
        if i == len(parts) - 1:
            lines += notes_below(table, footnotes, with_notes)
        lines.append(r"\end{table*}")
    return "\n".join(lines) + "\n"


def caption(table: Table) -> str:
    text = latex_escape(typeset(table.title))
    if table.banner:
        text += r". \textbf{" + latex_escape(table.banner) + "}"
    label = re.sub(r"[^A-Za-z0-9_.-]", "-", "-".join(filter(None, (table.experiment, table.name))))
    return rf"\caption{{{text}}}\label{{tab:{label}}}"


def continued(table: Table) -> str:
    return rf"\caption{{{latex_escape(typeset(table.title))} (continued)}}"


Groups = list[tuple[str, list[Row]]]


def row_lines(texts: Sequence[str], widths: Sequence[float], line: int) -> int:
    """The approximate number of lines of a row."""
    return max(
        -(-len(text) // max(1, int(width * line)))
        for text, width in zip(texts, widths, strict=True)
    )


def pages(body: Groups, heights: Sequence[int], page_lines: int) -> list[Groups]:
    """The rows in parts that fit on a page; a group that continues repeats its heading."""
    parts: list[Groups] = [[]]
    filled, height = 0, iter(heights)
    for heading, rows in body:
        parts[-1].append((heading, []))
        filled += 1 + bool(heading)
        for row in rows:
            lines = next(height)
            if filled + lines > page_lines and parts[-1] != [(heading, [])]:
                parts.append([(heading, [])])
                filled = 1 + bool(heading)
            parts[-1][-1][1].append(row)
            filled += lines
    return [[group for group in part if group[1] or len(body) == 1] for part in parts]


def body_lines(table: Table, groups: Groups, formats: Sequence[str]) -> list[str]:
    lines = []
    span = rf"\multicolumn{{{len(formats)}}}{{@{{}}p{{0.98\linewidth}}@{{}}}}"
    for i, (heading, rows) in enumerate(groups):
        if heading:
            lines += [r"\addlinespace"] * (i > 0)
            lines.append(rf"{span}{{\raggedright\textit{{{latex_escape(typeset(heading))}}}}} \\")
        for row in rows:
            lines.append(" & ".join(map(latex_cell, table.columns, row, formats)) + r" \\")
    return lines


def notes_below(table: Table, footnotes: Sequence[str], with_notes: bool) -> list[str]:
    notes = [rf"\textsuperscript{{{i}}} {latex_words(n)}" for i, n in enumerate(footnotes, 1)]
    below = table.notes_saying("in bold", with_commands=False) if with_notes else []
    notes += map(latex_words, below)
    lines = [note + r"\par" for note in notes]
    return [r"\par\smallskip\raggedright", *lines] if lines else []
