"""`make paper`: a write-up of the recorded runs in LaTeX, with figures, and as PDF where a LaTeX is
installed. Its numbers, tables and figures are those of claims and experiments.
"""

import argparse
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
from matplotlib.figure import Figure

from reprolab.claims import findings, prediction, uncertainty
from reprolab.claims.findings import PAPER
from reprolab.claims.headlines import months_between, table_merged
from reprolab.claims.published import load_sources
from reprolab.claims.rules import NOT_TESTABLE, NOT_TESTED
from plots import document, forest, ledger
from plots.document import MachineResults, fullest, read_recorded
from plots.experiments import experiment
from plots.figures import encode, figure_style, take_caption
from plots.first_screen import compared
from plots.latex import TWO_COLUMNS, latex
from plots.latex_text import Latex, markdown_latex, prose
from plots.sentences import count_line, counts, spell, verdict_sentence
from reprolab import run_to_run, stats
from reprolab.captions import dates, listed
from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_text
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.results import Results
from reprolab.tables import WORDS, Column, Table, Values

TEX = "paper.tex"
# Figures of the paper, from the machine with the most experiments: experiment, name, columns of the
# page.
FIGURES = (
    *(("table2", "speedup", 2), ("counters", "instructions", 2), ("table2", "bandwidth", 1)),
    ("end_to_end", "figure4", 2),
)
SHORT_TABLES = ("table2", "transpose", "puzzle")
TABLES = (("counters", "divergence"),)
# Experiments whose sentences are in the text.
NEEDED = ("table2", "counters", "ladder", "streaming", "end_to_end", "transpose", "puzzle")
UNDECIDABLE = (spell(NOT_TESTABLE), spell(NOT_TESTED))
FOREST = (
    "Every claim with a number",
    "Ours over the source's value, for the deciding cell, with its interval; in grey the range "
    "of all cells. Values beyond the axis are at its end, with their numbers.",
)
LATEX_RUNS = 3  # until references are settled


@dataclass(frozen=True)
class Drawn:
    """A figure's file and caption."""

    file: str
    content: bytes
    title: str
    note: str
    columns: int

    def latex(self, label: str) -> Latex:
        float_of, width = ("figure*", 0.72) if self.columns > 1 else ("figure", 0.9)
        note = prose(self.note)
        return Latex(
            rf"\begin{{{float_of}}}[tp]\centering"
            rf"\includegraphics[width={width}\linewidth]{{{self.file}}}"
            rf"\caption{{{prose(self.title)}. {note}}}\label{{fig:{label}}}\end{{{float_of}}}"
        )


def run(args: argparse.Namespace) -> int:
    recorded = list(read_recorded(args.recorded_dir))
    if not recorded:
        raise InputError(f"{args.recorded_dir}: no recorded run that can be shown")
    if missing := [name for name in NEEDED if name not in fullest(recorded).runs]:
        folder = fullest(recorded).folder
        raise InputError(f"{folder}: the paper needs {listed(missing)}, which it has no run of")
    drawn = dict(drawings(recorded))
    files = {args.output / one.file: one.content for one in drawn.values()}
    files[args.output / TEX] = tex(recorded, drawn).encode("utf-8")
    write_files(files)
    print(f"{printable(str(args.output / TEX))}: with {len(drawn)} figures")
    if not shutil.which("pdflatex"):
        print("no PDF: pdflatex is not installed (texlive-latex-extra, texlive-science)")
        return 0
    pdf = args.output / TEX.replace(".tex", ".pdf")
    write_files({pdf: compiled(args.output)})
    print(printable(str(pdf)))
    return 0


def compiled(folder: Path) -> bytes:
    """The PDF, from only the text and its figures."""
    with TemporaryDirectory() as made:
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error"]
        command += [f"-output-directory={made}", TEX]
        for _ in range(LATEX_RUNS):
            done = subprocess.run(command, cwd=folder, capture_output=True)
            log = done.stdout.decode(errors="replace")
        write_files({folder / "paper.log": log.encode()})
        if done.returncode:
            error = next((line for line in log.splitlines() if line.startswith("!")), "it failed")
            raise InputError(f"{folder / 'paper.log'}: pdflatex: {error}")
        return (Path(made) / TEX).with_suffix(".pdf").read_bytes()


def tex(recorded: Sequence[MachineResults], drawn: dict[str, Drawn]) -> str:
    delimiters = {"variable_start_string": "<<", "variable_end_string": ">>"}
    delimiters |= {"block_start_string": "<%", "block_end_string": "%>"}
    delimiters |= {"comment_start_string": "<#", "comment_end_string": "#>"}
    environment = jinja2.Environment(
        **delimiters,
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        finalize=prose,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["within"] = lambda text: text[0].lower() + text[1:]
    return environment.get_template(f"{TEX}.j2").render(facts(recorded, drawn))


def facts(recorded: Sequence[MachineResults], drawn: dict[str, Drawn]) -> dict[str, Any]:
    """All values that the template names."""
    main = fullest(recorded)
    gpus = ledger.gpu_names([m.evidence for m in recorded])
    values = {
        "gpus": listed(gpus),
        "gpu": gpus[recorded.index(main)],
        "figures": {name: one.latex(name) for name, one in drawn.items()},
    }
    values |= {"tables": dict(tables(recorded)), "sources": list(sources(main))}
    values["counts"] = [
        count_line(m.decisions, f"claims on the {gpu}")
        for m, gpu in zip(recorded, gpus, strict=True)
    ]
    values["verdicts"] = {spell(v): n for v, n in counts(main.decisions).items()}
    values["baseline"], values["subject"] = main.runs["table2"].compared
    values["claims"] = len(main.decisions)
    values["findings"] = list(findings_of(recorded))
    by_id = {source.id: source for source in load_sources()}
    _, *both_dates = table_merged(by_id[PAPER], by_id["bitsandbytes"])
    values["months_before"] = months_between(*both_dates)
    values["answer"] = findings.answer(compared(recorded))
    values["highlights"] = {
        name: experiment(name).highlights(run) for name, run in main.runs.items()
    }
    values |= measured(recorded) | uncertain()
    page = read_text(ROOT / "ARTIFACT.md")
    values["appendix"] = markdown_latex(page, "artifact")
    return values


def sources(main: MachineResults) -> Iterator[dict[str, Any]]:
    for source in load_sources():
        decisions = [d for d in main.decisions if d.source.id == source.id]
        key = Latex(source.id.replace("_", "-"))
        yield {"source": source, "key": key, "count": count_line(decisions), "decisions": decisions}


def findings_of(recorded: Sequence[MachineResults]) -> Iterator[dict[str, Any]]:
    """Each finding with the sentences about the claim that decides it, if one does, by GPU."""
    machines = compared(recorded)
    for one in findings.findings(machines):
        claim = one.link.partition("#")[2]
        decided = {m.gpu: m.decisions[claim] for m in machines if claim in m.decisions}
        shown = {gpu: d for gpu, d in decided.items() if gpu in one.numbers} or decided
        sentences: dict[str, list[str]] = {}
        for gpu, d in shown.items():
            sentences.setdefault(verdict_sentence(d), []).append(gpu)
        yield {
            "finding": one,
            "claim": next((d.claim for d in shown.values()), None),
            "sentences": {listed(gpus): sentence for sentence, gpus in sentences.items()},
        }


def measured(recorded: Sequence[MachineResults]) -> dict[str, Any]:
    """The amount of recorded data, and the GPUs."""
    files = [r for m in recorded for r in m.evidence.results.values()]
    ran = [run for r in files if r.gpu for run in r.runs()]
    rows = [row for r in ran for row in r.records]
    samples = chain.from_iterable(row.metrics.values() for row in rows)
    verified = sum(row.is_verified and not row.is_ceiling for row in rows)
    return {
        "dates": dates(ran),
        "files": len(files),
        "rows": f"{len(rows):,}",
        "samples": f"{sum(len(metric.samples or ()) for metric in samples):,}",
        "verified": f"{verified:,}",
        "machines": machines_table(ran),
        "units": len({unit for r in ran if (unit := r.provenance["gpu"].get("unit"))}),
        "throttled": sum(bool(r.provenance["clocks"]["throttle_reasons"]) for r in ran),
        "ran": len(ran),
        "locked": sum(r.provenance["clocks"]["policy"] == "locked" for r in ran),
    }


def machines_table(ran: Sequence[Results]) -> Latex:
    """The GPUs, and the software of their measurements."""

    def values(name: str, files: Sequence[Results]) -> str:
        settings = (r.provenance["gpu"][name] for r in files)
        return ", ".join(sorted({f"{v:.0f}" if isinstance(v, float) else str(v) for v in settings}))

    rows = []
    for gpu in sorted({r.gpu for r in ran}):
        files = [r for r in ran if r.gpu == gpu]
        row = {"gpu": gpu, "files": str(len(files)), "dates": dates(files)}
        names = ("multiprocessors", "theoretical_bandwidth_gb_s", "power_limit_w")
        row |= {name: values(name, files) for name in (*names, "driver", "cuda_runtime")}
        rows.append(row)
    columns = [Column("GPU", "gpu", **WORDS), Column("SMs", "multiprocessors")]
    columns += [
        Column("peak GB/s", "theoretical_bandwidth_gb_s"),
        Column("limit W", "power_limit_w"),
    ]
    columns += [Column("driver", "driver", **WORDS), Column("CUDA", "cuda_runtime", **WORDS)]
    columns += [Column("files", "files"), Column("recorded", "dates", **WORDS)]
    return Latex(
        latex(
            Table("machines", "The GPUs, and what was recorded on them", columns, rows),
            page=TWO_COLUMNS,
        )
    )


def uncertain() -> dict[str, Any]:
    """The parts of the uncertainty budget, and the errors of predictions."""
    budgets = uncertainty.budgets().values()
    every = [c.percent for b in budgets for classes in b.values() for c in classes]
    hosts = uncertainty.host_classes()
    off = prediction.validation()
    tolerances = Counter(
        c.tolerance_percent
        for s in load_sources()
        for claim in s.claims
        for c in claim.comparisons
        if c.tolerance_percent
    )
    ((tolerance, _),) = tolerances.most_common(1)
    return {
        "tolerance": f"{tolerance:g} %",
        "confidence": f"{100 * stats.CONFIDENCE:g} %",
        "false_share": f"{100 * stats.FALSE_SHARE:g} %",
        "guard": f"{stats.SPREAD_PERCENT:g} %",
        "between_runs": f"{min(every):.1f} to {max(every):.1f} %",
        "runs": sum(len(gpu["runs"]) for gpu in run_to_run.recorded().values()),
        "hosts": [f"{h.gain_percent:.1f} %" for h in hosts],
        "host_freedom": [h.freedom for h in hosts],
        "host_split": f"{hosts[-1].from_us / 1e6:g} s",
        "off": {prediction.VALIDATED[name]: f"{abs(p):.1f} %" for name, p in off.items()},
    }


def is_decided(row: Values) -> bool:
    """Whether a row of the ledger has a verdict on some GPU."""
    cells = [str(ledger.plain_text(cell)) for name, cell in row.items() if name.startswith("on ")]
    return not all(cell.startswith(UNDECIDABLE) for cell in cells)


def tables(recorded: Sequence[MachineResults]) -> Iterator[tuple[str, Latex]]:
    main = fullest(recorded)
    (by_gpu, *_) = document.tables_by_gpu(list(recorded), ROOT)
    by_gpu = replace(
        by_gpu,
        title="Every claim that a recorded run decides",
        rows=[row for row in by_gpu.rows if is_decided(row)],
        provenance=[],
        notes=by_gpu.notes[-1:],
    )
    yield "ledger", Latex(latex(by_gpu, page=TWO_COLUMNS))
    for name in SHORT_TABLES:
        table = experiment(name).SHORT_TABLE(main.runs[name])
        yield name, Latex(latex(replace(table, experiment=name), page=TWO_COLUMNS))
    for name, wanted in TABLES:
        made = (make(main.runs[name]) for make in experiment(name).TABLES)
        every = chain.from_iterable(t if isinstance(t, list) else [t] for t in made if t)
        table = next(table for table in every if table.name == wanted)
        yield (
            wanted,
            Latex(
                latex(
                    replace(table, experiment=name, provenance=[], notes=table.notes[:2]),
                    page=TWO_COLUMNS,
                )
            ),
        )


def drawings(recorded: Sequence[MachineResults]) -> Iterator[tuple[str, Drawn]]:
    """The figures as PDF, with their captions as text."""
    main = fullest(recorded)
    with figure_style():
        gpus = ledger.gpu_names([m.evidence for m in recorded])
        figure = forest.figure(gpus, [m.decisions for m in recorded])
        yield "forest", drawn_as("forest", figure, *FOREST, 2)
    for name, wanted, columns in FIGURES:
        title, draw = experiment(name).FIGURES[wanted]
        with figure_style(columns):
            figure = draw(replace(main.runs[name], recorded=False))
            note = take_caption(figure)
            file = f"{name}-{wanted}".replace("_", "-")
            yield file, drawn_as(file, figure, title, note, columns)


def drawn_as(name: str, figure: Figure, title: str, note: str, columns: int) -> Drawn:
    return Drawn(f"{name}.pdf", encode(figure, "pdf"), title, note, columns)
