"""Parts of a page as HTML: tables and the evidence for claims from their data, and files that
people write in Markdown.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import jinja2
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from reprolab.claims.rules import VERDICTS
from plots.claim_details import TITLE, SourceEvidence
from plots.sentences import spell
from reprolab.tables import Noted, Table

# Raw HTML is kept: the pages are our own, and texts from result files are escaped in them.
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
LEVELS_ABOVE = 2  # heading levels of the report and the section
SPELT = {say(v): v for v in VERDICTS for say in (spell, lambda v: v.replace("_", " "))}
VERDICT = re.compile("|".join(sorted(SPELT, key=len, reverse=True)), re.IGNORECASE)


@dataclass(frozen=True)
class Links:
    """The targets of links within the page: `ids` by file; `seen_from` is a folder."""

    ids: Mapping[Path, str]
    seen_from: Path

    def follow(self, path: str | bytes, anchor: str = "") -> str:
        """The address within the page; '' if it does not contain the file."""
        target = self.ids.get((self.seen_from / os.fsdecode(path)).resolve())
        return f"#{target}" + f"-{anchor}" * bool(anchor) if target else ""


class Cell(NamedTuple):
    verdict: str  # at the start of the text
    lead: str  # its words
    text: str  # the rest
    href: str
    numbers: str  # its footnotes
    best: bool


@cache
def templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def table_html(table: Table, name: str, links: Links, is_open: bool = False) -> Markup:
    """`name`: the id of its heading. A closed table shows its title and its number of rows."""
    body, footnotes = table.body()
    groups = [
        (heading, [list(map(cell, row, [links] * len(row))) for row in rows])
        for heading, rows in body
    ]
    facts: dict[str, Any] = {"table": table, "name": name, "groups": groups, "is_open": is_open}
    facts |= {"rows": sum(len(rows) for _, rows in body), "footnotes": footnotes}
    facts |= {"notes": table.notes_saying("in bold", with_commands=False)}
    return Markup(templates().get_template("table.html").render(facts))


def evidence_html(sources: Sequence[SourceEvidence], name: str, links: Links) -> Markup:
    """`name`: the id of its heading, and the prefix of all others."""
    facts: dict[str, Any] = {"title": TITLE, "sources": sources, "name": name}
    return Markup(templates().get_template("evidence.html").render(facts, follow=links.follow))


def cell(entry: tuple[Noted, str], links: Links) -> Cell:
    noted, numbers = entry
    verdict, lead, text = leading_verdict(noted.text)
    href = links.follow(noted.link, noted.anchor) if noted.link else ""
    return Cell(verdict, lead, text, href, numbers, noted.best)


def leading_verdict(text: str) -> tuple[str, str, str]:
    """The verdict that a text begins with, its words, and what follows; ('', '', text) if none."""
    match = VERDICT.match(text)
    if not match or text[match.end() : match.end() + 1].isalnum():
        return "", "", text
    return SPELT[match[0].lower()], match[0], text[match.end() :]


def markdown_html(text: str, name: str, links: Links) -> Markup:
    """Markdown as part of the page; `name`: the id of its first heading, and the prefix of all
    other ids.
    """
    tokens = MARKDOWN.parse(text)
    set_headings(tokens, name)
    out = []
    for token in tokens:
        if token.type in ("td_open", "th_open") and token.attrs.pop("style", "") == RIGHT:
            token.attrSet("class", "number")
        if token.type == "th_open":
            token.attrSet("scope", "col")
        if token.type == "table_open":
            region = Token("region_open", "div", 1, block=True)
            region.attrs = {"class": "table", "role": "region", "tabindex": "0"}
            region.attrs |= {"aria-labelledby": token.attrs["aria-labelledby"]}
            out.append(region)
        out.append(token)
        if token.type == "table_close":
            out.append(Token("region_close", "div", -1, block=True))
        set_inline(token.children or [], links)
    return Markup(MARKDOWN.renderer.render(out, MARKDOWN.options, {}))


RIGHT = "text-align:right"  # Markdown's style of a right-aligned cell


def set_headings(tokens: list[Token], name: str) -> None:
    """Gives headings their ids and levels, and tables the heading above them."""
    heading, taken = name, {name}
    for i, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag != "h1":
            text = "".join(child.content for child in tokens[i + 1].children or [])
            words = "-".join(text.lower().split())
            heading = f"{name}-{re.sub('[^a-z0-9-]', '', words)}"
            while heading in taken:
                heading += "-"
            taken.add(heading)
        if token.type == "heading_open":
            token.attrSet("id", heading)
        if token.type == "table_open":
            token.attrSet("aria-labelledby", heading)
        if token.type.startswith("heading"):
            token.tag = f"h{min(6, int(token.tag[1]) + LEVELS_ABOVE)}"


def set_inline(children: list[Token], links: Links) -> None:
    """Links lead to places within the page, or become plain text; a picture becomes its text."""
    for child in children:
        if child.type == "link_open":
            path, _, anchor = str(child.attrs["href"]).partition("#")
            if "://" in path:
                continue
            if address := links.follow(unquote_to_bytes(path), anchor):
                child.attrSet("href", address)
            else:
                del child.attrs["href"]
        elif child.type == "image":
            child.type, child.tag = "text", ""
