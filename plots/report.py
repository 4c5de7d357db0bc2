"""`make report`: all results as one HTML page, which needs no network and no other file."""

import argparse
import base64
import itertools
import lzma
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reprolab.claims import findings
from reprolab.claims.evidence import machines
from reprolab.claims.ledger import Decision
from reprolab.claims.published import Source
from plots import claim_details, ledger
from plots.document import MachineResults, heading, machine_of, tables_by_gpu
from plots.experiments import Run, all_tables, experiment, sentences
from plots.figures import figure_style, take_caption
from plots.first_screen import compared, place
from plots.html import Links, evidence_html, markdown_html, table_html, templates
from plots.sentences import counts, spell
from plots.summary import TIMES, claim_figure, deciding, ranges_figure
from plots.svg import Sheet, dark_theme, inline
from reprolab import captions
from reprolab.command_line import paths
from reprolab.declared import FOLDER
from reprolab.errors import InputError
from reprolab.json_files import read_text
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.tables import Table

OWN, RECORDED = Path("results"), Path("data/recorded")
WIDTHS = {"wide": 2, "narrow": 1}  # columns of a paper, by the CSS class of the drawing


@dataclass
class Report:
    """Collected while a page is made: the targets of links, and the styles."""

    machines: list[MachineResults]
    ids: dict[Path, str]
    sheet: Sheet


def run(args: argparse.Namespace) -> int:
    results = [Path(folder) for given in args.results for folder in paths(given)]
    output = args.output or results[0] / "report.html"
    if results == [OWN] and not any(OWN.glob("*/*.json")):
        say("no results of your own yet (make reproduce-table2, with a GPU): of the recorded runs")
        results = [RECORDED]
    say(f"reading the result files of {', '.join(map(str, results))}")
    measured = (evidence for evidence in machines(results) if evidence.newest)
    # Folders of this machine's GPUs only keep their links apart.
    folders = (results[0] / f"gpu{i}" for i in itertools.count(1))
    every = [machine_of(evidence, evidence.folder or next(folders)) for evidence in measured]
    shown = [machine for machine in every if machine.runs]
    if not shown:
        names = ", ".join(map(str, results))
        raise InputError(
            f"{names}: no results that can be shown; on a machine with a GPU, make "
            "reproduce-table2 measures some; RESULTS=data/recorded/h200 shows recorded ones"
        )
    content = report(shown).encode("utf-8")
    write_files({output: content})
    gpus = ", ".join(machine.evidence.newest.gpu for machine in shown)
    print(f"{printable(str(output))}: {gpus}; {len(content) / 1e6:.1f} MB")
    return 0


def report(machines: list[MachineResults]) -> str:
    made = Report(machines, {}, Sheet())
    names = in_order(machines)
    protocols = [(name, f"protocol-{name}", FOLDER / name / "README.md") for name in names]
    made.ids |= {file: id for _, id, file in protocols}
    files = {
        machine.folder: list(result_files(machine, gpu_id(made, machine))) for machine in machines
    }
    made.ids |= {f["path"].resolve(): f["id"] for listed in files.values() for f in listed}
    made.ids |= {file: id for machine in machines for file, id in places(made, machine)}
    parts = [part(made, machine, names, files[machine.folder]) for machine in machines]
    facts: dict[str, Any] = {"machines": parts, "cards": list(cards(made, names)), "spell": spell}
    facts["question"] = findings.PAPER_IS_RIGHT
    facts["banner"] = ledger.recorded_banner([machine.evidence for machine in machines])
    facts["answer"] = findings.answer(compared(machines))
    facts["findings"] = list(headlines(made))
    if len(machines) > 1:
        folder = machines[0].folder.parent
        tables = tables_by_gpu(machines, folder)
        links = Links(made.ids, folder)
        facts["by_gpu"] = [table_html(t, f"by-gpu-{i}", links) for i, t in enumerate(tables, 1)]
    facts["protocols"] = [
        (id, heading(name), markdown_html(read_text(file), id, Links(made.ids, file.parent)))
        for name, id, file in protocols
    ]
    facts |= {"styles": made.sheet.rules, "dark": dark_theme()}
    return templates().get_template("report.html").render(facts)


def in_order(machines: list[MachineResults]) -> list[str]:
    """The experiments: those that decide claims, in the order of the claims; then our own."""
    names = dict.fromkeys(name for machine in machines for name in machine.runs)
    every = [name for m in machines for d in m.decisions for name in d.claim.experiments]
    deciding = [name for name in dict.fromkeys(every) if name in names]
    others = sorted(set(names) - set(deciding), key=lambda n: (not experiment(n).QUESTION, n))
    return [*deciding, *others]


def gpu_id(made: Report, machine: MachineResults) -> str:
    return f"gpu{made.machines.index(machine) + 1}"


def places(made: Report, machine: MachineResults) -> Iterator[tuple[Path, str]]:
    """The files of a machine's pages, and the places of their contents in the report."""
    name, folder = gpu_id(made, machine), machine.folder
    yield (folder / "README.md").resolve(), f"{name}-ledger"
    yield (folder / "claims.md").resolve(), f"{name}-claims"
    yield (folder / "numbers.md").resolve(), f"{name}-numbers"
    for shown in machine.runs:
        yield (folder / shown / "README.md").resolve(), f"{name}-{shown}"


def part(
    made: Report, machine: MachineResults, names: list[str], files: list[dict[str, Any]]
) -> dict[str, Any]:
    """The template's values for one machine, whose ids begin with `name`."""
    name, newest, links = gpu_id(made, machine), machine.evidence.newest, links_of(made, machine)
    table = ledger.machine_table(machine.evidence, "claims", "claims.md", machine.folder)
    numbers = claim_details.numbers_table("numbers", machine.decisions)
    evidence = claim_details.by_source(machine.decisions)
    return {
        "id": name,
        "gpu": newest.gpu,
        "banner": captions.banner(newest) if machine.evidence.folder else "",
        "facts": "; ".join(captions.machine(newest.runs()[-1])),
        "counts": counts(machine.decisions),
        "ledger": table_html(replace(table, provenance=[]), f"{name}-ledger", links),
        "sections": list(sections(made, machine, names)),
        "details": evidence_html(evidence, f"{name}-claims", links),
        "numbers": table_html(numbers, f"{name}-numbers", links),
        "files": files,
    }


def links_of(made: Report, machine: MachineResults, name: str = "") -> Links:
    return Links(made.ids, machine.folder / name)


def sections(made: Report, machine: MachineResults, names: list[str]) -> Iterator[dict[str, Any]]:
    """The experiments by the source whose claims they decide, then this project's own."""
    by_source: dict[str, list[str]] = {}
    sources: dict[str, Source] = {}
    for name in [name for name in names if name in machine.runs]:
        shown = machine.runs[name]
        source = shown.source if shown.decisions else None
        by_source.setdefault(source.id if source else "", []).append(name)
        sources |= {source.id: source} if source else {}
    for i, (source_id, members) in enumerate(by_source.items(), 1):
        source = sources.get(source_id)
        yield {
            "id": f"{gpu_id(made, machine)}-section{i}",
            "title": f"{source.author}: {source.title}" if source else "Beyond the sources",
            "reference": source.reference if source else "",
            "experiments": [article(made, machine, name) for name in members],
        }


def article(made: Report, machine: MachineResults, name: str) -> dict[str, Any]:
    """Everything about one experiment."""
    id, shown, view = f"{gpu_id(made, machine)}-{name}", machine.runs[name], experiment(name)
    say(f"{machine.evidence.newest.gpu}: {name}")
    links = links_of(made, machine, name)
    tables = all_tables(name, shown, "../claims.md", machine.folder / name)
    return {
        "id": id,
        "title": heading(name),
        "protocol": f"protocol-{name}",
        "highlights": sentences(name, shown),
        "figures": [
            drawn
            for file, (caption, draw) in view.FIGURES.items()
            if (drawn := figure(made, shown, draw, f"{id}-{file}", caption))
        ],
        "tables": [titled(table, f"{id}-{table.name}", links) for table in tables],
    }


def titled(table: Table, name: str, links: Links) -> Markup:
    return table_html(replace(table, provenance=[], banner=""), name, links)


def say(text: str) -> None:
    """Progress while the page is made, because figures take a while."""
    print(f"report: {printable(text)}", file=sys.stderr, flush=True)


def figure(made: Report, shown: Run, draw: Any, name: str, caption: str) -> dict[str, Any] | None:
    """A figure in the widths of a page, with its captions; None if its pass is missing."""
    drawings, note = {}, ""
    for kind, columns in WIDTHS.items():
        with figure_style(columns):
            if (drawn := shown.if_measured(draw)) is None:
                return None
            note = take_caption(drawn)
            drawings[kind] = inline(drawn, f"{name}-{kind}-", caption, made.sheet)
    return {"drawings": drawings, "caption": caption, "note": note}


def headlines(made: Report) -> Iterator[dict[str, Any]]:
    """The findings, with the places of their numbers."""
    machines = compared(made.machines)
    for one in findings.findings(machines):
        places = {
            m.gpu: links_of(made, pages).follow(*place(one))
            for m, pages in zip(machines, made.machines, strict=True)
        }
        yield {"finding": one, "links": places, "link": next(iter(places.values()))}


def cards(made: Report, names: list[str]) -> Iterator[dict[str, Any]]:
    """The claim and the finding for each question that an experiment answers."""
    for name in [name for name in names if experiment(name).QUESTION]:
        measured = [machine for machine in made.machines if name in machine.runs]
        fullest = max(measured, key=lambda machine: len(machine.runs))
        view, shown = experiment(name), fullest.runs[name]
        decision = shown.decision(view.HEADLINE) if view.HEADLINE and shown.decisions else None
        highlights = shown.if_measured(view.highlights, [])
        by_gpu = {m.evidence.newest.gpu: m.runs[name] for m in measured}
        yield {
            "name": name,
            "question": view.QUESTION,
            "claimed": decision.claim.text if decision else "",
            "author": decision.source.author if decision else "",
            "verdicts": [
                verdict_on_gpu(made, m, m.runs[name], view.HEADLINE) for m in measured if decision
            ],
            "meaning": highlights[0] if highlights else "",
            "gpu": fullest.evidence.newest.gpu,
            "link": f"#{gpu_id(made, fullest)}-{name}",
            "drawing": card_figure(made, name, by_gpu, shown),
        }


def card_figure(made: Report, name: str, by_gpu: dict[str, Run], fullest: Run) -> Markup | None:
    """The values of the experiment's main claim, or else its own summary; None without a value."""
    view = experiment(name)
    with figure_style():
        if view.HEADLINE:
            decisions = {gpu: shown.decision(view.HEADLINE) for gpu, shown in by_gpu.items()}
            drawn, label = claim_figure(decisions), "The source's values, and ours"
        else:
            ranges = fullest.if_measured(view.SUMMARY, {})
            drawn, label = ranges_figure(ranges, TIMES) if ranges else None, view.QUESTION
        return inline(drawn, f"card-{name}-", label, made.sheet) if drawn else None


def verdict_on_gpu(made: Report, machine: MachineResults, shown: Run, claim: str) -> dict[str, str]:
    """The verdict on one GPU in a few words, with a link to its evidence."""
    d = shown.decision(claim)
    row = ledger.claim_row(d, "")
    ours = row["ours"].text + " (of an older kernel)" * bool(row["ours"].notes)
    return {
        "gpu": machine.evidence.newest.gpu,
        "verdict": d.verdict,
        "shown": cells_line(d) or row["why"] or ours,
        "link": f"#{gpu_id(made, machine)}-claims-{claim_details.anchor(d)}",
    }


def cells_line(d: Decision) -> str:
    """'7 of 14 cells reproduced', in the reading that gives the verdict."""
    counted = deciding(d)
    fits = sum(v.verdict == ledger.REPRODUCED for v in counted)
    return f"{fits} of {len(counted)} cells reproduced" if len(counted) > 1 else ""


def result_files(machine: MachineResults, name: str) -> Iterator[dict[str, Any]]:
    """Every result file, compressed, with its provenance."""
    files = sorted(machine.evidence.results.values(), key=lambda r: (r.experiment, r.pass_name))
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
            "runs": [
                {k: captions.in_words(v) for k, v in run.provenance.items()}
                for run in results.runs()
            ],
        }
