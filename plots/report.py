"""`make report`: one HTML page of all that was measured, which needs no network and no other file.

It is made of the pages that plots/document.py writes for the web. Their links lead to headings of
the report, and those to result files to where it holds them.
"""

import argparse
import base64
import itertools
import lzma
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import jinja2
import matplotlib
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from matplotlib.figure import Figure

from claims.evidence import machines
from claims.rules import VERDICTS
from experiments.declared import FOLDER
from plots import captions, claim_details
from plots.document import GENERATED, ORIGINS, Machine, machine_of, page_by_gpu, pages_of
from plots.documents import markdown
from plots.experiments import experiment
from plots.figures import encode, house_style
from plots.ledger import machine_table
from plots.sentences import counts, spell, verdict_sentence
from records.errors import InputError
from records.json_files import read_text
from records.output import write_files
from records.printable import printable

# Raw HTML is let through: the pages are our own, and texts of result files are escaped in them.
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
TITLE = re.compile(r"^\*\*(.+)\*\*$", re.MULTILINE)  # of a table or list, in a line of its own
LEVELS_ABOVE = 2  # of headings: the report's, and the machine's
TABLE = re.compile(r"<table( aria-labelledby=\S+)>(.*?)</table>", re.DOTALL)
# A row that is a heading over others: a bold cell, and empty ones.
GROUP = re.compile(r"<tr>\n<td[^>]*>(<strong>.*</strong>)</td>\n((?:<td[^>]*></td>\n)+)</tr>\n")
FIGURE = re.compile(r'<p>(<img src="[^"]*" alt="([^"]*)"[^>]*>)</p>')
WORDS = "|".join(verdict.replace("_", " ") for verdict in VERDICTS)
VERDICT = re.compile(rf"(<td>(?:<a [^>]*>)?|Verdict: <strong>)({WORDS})\b", re.IGNORECASE)
FONT = "font-family: 'DejaVu Sans'"
STYLE = re.compile(r" style='([^']*)'")


@dataclass(frozen=True)
class Page:
    id: str  # of its heading
    title: str  # in the contents
    file: Path  # that its links are seen from
    text: str  # Markdown


def run(args: argparse.Namespace) -> int:
    measured = (evidence for evidence in machines(args.results) if evidence.newest)
    # The folder of an own GPU is only for links: two are told apart by it.
    folders = (args.results[0] / f"gpu{i}" for i in itertools.count(1))
    found = [machine_of(evidence, evidence.folder or next(folders)) for evidence in measured]
    found = [machine for machine in found if machine.runs]
    if not found:
        names = ", ".join(map(str, args.results))
        raise InputError(f"{names}: no results that can be shown; make reproduce-table2 makes some")
    content = report(found).encode("utf-8")
    write_files({args.output: content})
    gpus = ", ".join(machine.evidence.newest.gpu for machine in found)
    print(f"{printable(str(args.output))}: {gpus}; {len(content) / 1e6:.1f} MB")
    return 0


def report(found: list[Machine]) -> str:
    names = sorted({name for machine in found for name in machine.runs})
    files = [(name, FOLDER / name / "README.md") for name in names]
    protocols = [Page(f"protocol-{name}", name, file, read_text(file)) for name, file in files]
    parts = [part(machine, f"gpu{i}", protocols) for i, machine in enumerate(found, 1)]
    ids = {file: place for shown in parts for file, place in shown["ids"].items()}
    by_gpu = None
    if len(found) > 1:
        folder = found[0].folder.parent
        page = Page("by-gpu", "", folder / "README.md", page_by_gpu(found, folder))
        by_gpu = html(page, ids, {})
    folder = jinja2.FileSystemLoader(Path(__file__).parent)
    shell = jinja2.Environment(loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return shell.get_template("report.html").render(
        machines=parts,
        by_gpu=by_gpu,
        protocols=[(page, html(page, ids, {})) for page in protocols],
        spell=spell,
    )


def part(found: Machine, name: str, protocols: list[Page]) -> dict[str, Any]:
    """What the template shows of one machine; its ids begin with `name`."""
    newest, own = found.evidence.newest, list(pages(found, name))
    files = list(result_files(found, name))
    ids = {page.file.resolve(): page.id for page in (*own, *protocols)}
    ids |= {file["path"].resolve(): file["id"] for file in files}
    images = dict(figures(found))
    return {
        "id": name,
        "ids": ids,
        "gpu": newest.gpu,
        "banner": captions.banner(newest) if found.evidence.folder else "",
        "facts": "; ".join(captions.machine(newest)),
        "counts": counts(found.decisions),
        "headlines": list(headlines(found, f"{name}-claims")),
        "pages": [(page, html(page, ids, images)) for page in own],
        "files": files,
    }


def pages(found: Machine, name: str) -> Iterator[Page]:
    """The ledger, the experiments, and what stands behind the ledger."""
    table = machine_table(found.evidence, "claims", "claims.md", found.folder)
    ledger = markdown(replace(table, banner="", provenance=[]))
    readme, *others = pages_of(found)
    yield Page(f"{name}-ledger", "Claims", readme[0], f"# Claims\n\n{ledger}")
    for file, text in sorted(others, key=lambda page: page[0].name != "README.md"):
        of = file.parent.name if file.name == "README.md" else file.stem
        title = of if file.name == "README.md" else text.partition("\n")[0].removeprefix("# ")
        yield Page(f"{name}-{of}", title, file, text.partition(ORIGINS)[0])


def headlines(found: Machine, details: str) -> Iterator[dict[str, str]]:
    """The claim that each experiment is about, with what became of it."""
    for name, shown in found.runs.items():
        if shown.decisions and (claim := experiment(name).HEADLINE):
            d = shown.decision(claim)
            link = f"#{details}-{claim_details.anchor(d)}"
            said = {"verdict": d.verdict, "text": d.claim.text, "link": link}
            yield said | {"sentence": verdict_sentence(d).removeprefix(spell(d.verdict))}


def result_files(found: Machine, name: str) -> Iterator[dict[str, Any]]:
    """Every result file, compressed, with its provenance."""
    files = sorted(found.evidence.results.values(), key=lambda r: (r.experiment, r.pass_name))
    for i, results in enumerate(files, 1):
        content = results.file.read_bytes()
        packed = base64.b64encode(lzma.compress(content)).decode()
        yield {
            "id": f"{name}-file{i}",
            "path": results.file,
            "name": f"{results.experiment}/{results.name}",
            "kilobytes": len(content) // 1000,
            "download": f"{results.experiment}-{results.name}.xz",
            "content": f"data:application/x-xz;base64,{packed}",
            "facts": {k: captions.in_words(v) for k, v in results.provenance.items()},
        }


def figures(found: Machine) -> Iterator[tuple[Path, str]]:
    """Every figure by the file that the pages name."""
    with house_style(), matplotlib.rc_context({"svg.fonttype": "none"}):
        for name, shown in found.runs.items():
            for file, (_, draw) in experiment(name).FIGURES.items():
                yield (found.folder / name / f"{file}.png").resolve(), svg(draw(shown))


def svg(figure: Figure) -> str:
    """The figure as an address that holds it. Its texts are texts, in a font that most have."""
    text = re.sub(r"\s*\n\s*", " ", encode(figure, "svg").decode()).replace(f"; {FONT}", "")
    text = re.sub(r"<[^>]+>", shorter, text)
    # Most of what matplotlib writes is the same few styles, again with each point.
    styles = {style: f"s{i}" for i, style in enumerate(dict.fromkeys(STYLE.findall(text)))}
    rules = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    text = STYLE.sub(lambda found: f" class='{styles[found[1]]}'", text)
    text = text.replace("</style>", f"text{{{FONT}, Verdana}}{rules}</style>")
    return "data:image/svg+xml," + quote(text, safe=" =:/;,'()+-.@!$*?[]{}|^`~")


def shorter(tag: re.Match[str]) -> str:
    """Hundredths of a point are enough, and a double quote takes three letters of an address."""
    return re.sub(r"(\.\d\d)\d+", r"\1", tag[0]).replace('"', "'")


def html(page: Page, ids: dict[Path, str], images: dict[Path, str]) -> Markup:
    """`ids`: where the report has what a link may lead to."""
    tokens = MARKDOWN.parse(TITLE.sub(r"## \1", page.text.replace(GENERATED, "")))
    heading, taken = page.id, {page.id}
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            if token.tag != "h1":
                text = "".join(child.content for child in tokens[i + 1].children or [])
                words = "-".join(text.lower().split())
                heading = f"{page.id}-{re.sub('[^a-z0-9-]', '', words)}"
                while heading in taken:
                    heading += "-"
                taken.add(heading)
            token.attrSet("id", heading)
        elif token.type == "table_open":
            token.attrSet("aria-labelledby", heading)
        elif token.type == "th_open":
            token.attrSet("scope", "col")
        if token.type.startswith("heading"):
            token.tag = f"h{int(token.tag[1]) + LEVELS_ABOVE}"
        for child in token.children or []:
            if child.type == "link_open":
                follow(child, page.file, ids)
            elif child.type == "image":
                if found := images.get(target(str(child.attrs["src"]), page.file)):
                    child.attrSet("src", found)
                else:  # no figure of ours: its words alone
                    child.type, child.tag = "text", ""
    text = MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})
    figure = r'<figure tabindex="0">\1<figcaption>\2</figcaption></figure>'
    return Markup(FIGURE.sub(figure, tables(text)))


def follow(link: Token, file: Path, ids: dict[Path, str]) -> None:
    """Within the report; what that does not have is named and not linked."""
    href = str(link.attrs["href"])
    path, _, anchor = href.partition("#")
    if "://" in href:
        return
    if found := ids.get(target(path, file)):
        link.attrSet("href", f"#{found}" + f"-{anchor}" * bool(anchor))
    else:
        del link.attrs["href"]


def target(path: str, file: Path) -> Path:
    return (file.parent / os.fsdecode(unquote_to_bytes(path))).resolve()


def tables(text: str) -> str:
    """Each group of rows is a body of its own, wide tables scroll, and verdicts stand out."""
    text = text.replace('style="text-align:right"', 'class="number"')
    text = GROUP.sub(group, text).replace("<tbody>\n</tbody>\n", "")
    region = r'<div class="table" role="region" tabindex="0"\1><table\1>\2</table></div>'
    return VERDICT.sub(badge, TABLE.sub(region, text))


def group(row: re.Match[str]) -> str:
    columns = 1 + row[2].count("<td")
    cell = f'<th scope="rowgroup" colspan="{columns}">{row[1]}</th>'
    return f"</tbody>\n<tbody>\n<tr>{cell}</tr>\n"


def badge(found: re.Match[str]) -> str:
    verdict = found[2].lower().replace(" ", "_")
    return f'{found[1]}<span class="verdict {verdict}">{found[2]}</span>'
