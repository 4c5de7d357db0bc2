"""Prose for LaTeX: sentences with kernels' names in them, and pages of Markdown."""

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from plots.latex import TWO_COLUMNS, latex, latex_words
from reprolab.tables import WORDS, Column, Table

MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
# Identifiers and paths, in the font of code.
CODE = re.compile(r"((?<![\w/.-])[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+(?:\.\w+)*)")
QUANTITY = re.compile(r"(?<=\d) (?=(?:%|x|s|us|ms|GB|GB/s)(?!\w))")
QUOTED = re.compile('"([^"]*)"')
HEADINGS = {"h1": r"\section", "h2": r"\subsection", "h3": r"\subsubsection"}
AROUND = {"paragraph": ("", "\n"), "bullet_list": (r"\begin{itemize}", r"\end{itemize}")}
AROUND |= {"list_item": (r"\item ", ""), "strong": (r"\textbf{", "}"), "em": (r"\emph{", "}")}
AROUND |= {"ordered_list": (r"\begin{enumerate}", r"\end{enumerate}")}


class Latex(str):
    """Text that is LaTeX already."""


def prose(value: object) -> Latex:
    """A sentence or a value in one, escaped for LaTeX."""
    if isinstance(value, Latex):
        return value
    text = QUANTITY.sub("\u00a0", QUOTED.sub("\u201c\\1\u201d", str(value)))
    parts = CODE.split(text)
    text = "".join(code(p) if i % 2 else latex_words(p) for i, p in enumerate(parts))
    return Latex(text.replace(r"GB/\allowbreak{}s", "GB/s"))


def code(text: str) -> str:
    """Text in the font of code, which may be broken after slashes and underscores."""
    return rf"\texttt{{{latex_words(text, code=True)}}}"


def markdown_latex(text: str, name: str) -> Latex:
    """A page as a section; `name`: in its label and in those of its tables."""
    tokens, parts, tables = MARKDOWN.parse(text), [], 0
    while tokens:
        token = tokens.pop(0)
        if token.type == "table_open":
            end = next(i for i, t in enumerate(tokens) if t.type == "table_close")
            rows, tokens = tokens[:end], tokens[end + 1 :]
            tables += 1
            table = table_of(rows, f"{name}-{tables}")
            parts.append(latex(table, page=TWO_COLUMNS) + rf"See Table~\ref{{tab:{table.name}}}.")
        else:
            is_title = (token.type, token.tag) == ("heading_close", "h1")
            parts += [block(token), rf"\label{{sec:{name}}}" * is_title]
    return Latex("\n".join(filter(None, parts)) + "\n")


def block(token: Token) -> str:
    if token.type == "inline":
        return "".join(inline(token.children or []))
    if token.type == "fence":
        return "\n".join(map(code_line, token.content.splitlines())) + "\n\\par\\medskip\n"
    if token.type.startswith("heading"):
        return HEADINGS[token.tag] + "{" if token.nesting > 0 else "}"
    kind, _, end = token.type.rpartition("_")
    if kind not in AROUND:
        raise ValueError(f"unsupported Markdown: {token.type}")
    return AROUND[kind][end == "close"] if not token.hidden else ""


def code_line(line: str) -> str:
    """A line of a listing, broken at spaces, with the continuation indented."""
    command, hash_sign, comment = line.partition(" #")
    text = code(command.rstrip())
    if hash_sign:
        text += rf" {{\rmfamily\itshape {prose(comment.strip())}}}"
    return rf"{{\par\raggedright\noindent\hangindent=1em\relax {text}\par}}"


def inline(children: Sequence[Token]) -> Iterator[str]:
    """Links become their text: a page of the project cannot be reached on paper."""
    for child in children:
        kind, _, end = child.type.rpartition("_")
        if child.type == "code_inline":
            yield code(child.content)
        elif child.type in ("text", "softbreak"):
            yield prose(child.content or "\n")
        elif kind in AROUND:
            yield AROUND[kind][end == "close"]


def table_of(tokens: Sequence[Token], name: str) -> Table:
    """A table titled by the heading of its first column."""
    heads, rows, texts = [], [], []
    for token in tokens:
        if token.type == "inline":
            texts.append(token.content)
        elif token.type == "tr_close":
            heads, rows, texts = (heads or texts), [*rows, texts], []
    columns = [Column(head, str(i), **WORDS) for i, head in enumerate(heads)]
    values = [{str(i): text for i, text in enumerate(row)} for row in rows[1:]]
    return Table(name, f"By {heads[0]}", columns, values)
