"""`make report`: the results of a machine as one HTML page, which needs no network."""

import argparse
import sys
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from plots.machine import Claim, Machine, machines
from plots.tables import Table
from reprolab.claims.published import load_sources
from reprolab.command_line import paths
from reprolab.errors import printable
from reprolab.output import write_files

TEMPLATE = Path(__file__).with_name("report.html.j2")
OWN, RECORDED = Path("results"), Path("data/recorded")


def run(args: argparse.Namespace) -> int:
    """One page, or for the results of several machines one of each."""
    results = [Path(folder) for given in args.results for folder in paths(given)]
    output = results[0] / "report.html"
    if results == [OWN] and not any(OWN.glob("*/*.json*")):
        print("no results of your own yet: of the recorded runs", file=sys.stderr)
        results = [RECORDED]
    found = machines(results)
    for machine in found:
        file = output if len(found) == 1 else output.with_stem(f"{output.stem}-{machine.id}")
        content = page(machine).encode()
        write_files({file: content})
        print(printable(f"{file}: {machine.gpu}; {len(content) / 1e6:.1f} MB"))
    return 0


def page(machine: Machine) -> str:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made = {name: list(parts(machine, name)) for name in machine.experiments}
    sources = [(source, claims(machine, source.id)) for source in load_sources()]
    facts = {"machine": machine, "experiments": made, "sources": sources}
    return environment.from_string(TEMPLATE.read_text()).render(facts)


def claims(machine: Machine, source: str) -> list[Claim]:
    return [claim for claim in machine.claims.values() if claim.source == source]


def parts(machine: Machine, name: str) -> list[dict[str, Any]]:
    """The figures of an experiment, then its tables."""
    drawn = machine.figures(name).items()
    texts = ({"title": title, "html": inline(picture)} for title, picture in drawn)
    shown = [table for table in machine.tables(name) if table.spec.get("page", True)]
    return [*texts, *({"title": t.title, "html": html(t), "notes": t.notes} for t in shown)]


def inline(picture: bytes) -> Markup:
    """From its <svg> on: a page has no XML declaration."""
    text = picture.decode()
    return Markup(text[text.index("<svg") :])


def html(table: Table) -> Markup:
    """By pandas; the stylesheet aligns the columns after the first ones, which are texts."""
    texts = min(len(table.rows), 3)
    return Markup(table.shown_frame.to_html(index=False, border=0, classes=f"texts{texts}"))
