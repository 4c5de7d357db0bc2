"""The experiments as they are rendered: the passes of experiments/<name>/experiment.toml, and the
optional views.py or views/ of the experiment.

It defines, each as a function of a `Run`: TABLES, the functions that make its tables (None for an
empty one), of which a terminal shows those in ON_TERMINAL; FIGURES, by the file's name a caption
and the function that draws it; highlights, sentences for the terminal and the page; CLOSING, the
source's own table with ours next to it, of one or more runs by name, which a terminal shows last;
for README CLOSING or else SHORT_TABLE, a few rows, with HEADLINE, the claim that they are about;
for the first screen of the report the QUESTION that it answers, with SUMMARY, the values of a
figure by name if no claim has them; BRIEF, the rows of one problem that are compared with other
GPUs. plots/default_view.py has the defaults.
"""

import argparse
import importlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reprolab.claims.evidence import Evidence, collect
from reprolab.claims.ledger import Decision, decide
from reprolab.claims.published import Source, load_sources
from plots import claim_details, default_view
from plots.documents import table_files
from plots.figures import FORMATS, encode, figure_style, take_caption
from plots.ledger import claims_table
from plots.sentences import count_line, headline
from reprolab import console, declared
from reprolab.captions import banner, commit, driver, machine_notes
from reprolab.code import differing, older_notes
from reprolab.errors import InputError
from reprolab.results import recorded_folder, result_files
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.results import WRONG, Outcome, Results, load
from reprolab.tables import Table

FINDINGS = 3  # sentences on the terminal
CLAIM_DETAILS = "claim-details.md"
MAIN_CLAIM = "kernel-speedup"


class NotMeasured(InputError):
    """A pass that the run should have, but lacks."""


@dataclass(frozen=True)
class Run:
    """The passes of one experiment on one machine, and the verdicts on its claims."""

    passes: dict[str, Results]
    decisions: list[Decision]
    recorded: bool
    missing: tuple[str, ...] = ()  # passes that such a run has to have

    def __getitem__(self, pass_name: str) -> Results:
        if pass_name in self.missing:
            raise NotMeasured(f"{self.first.file.parent}: {pass_name}: not measured")
        return self.passes[pass_name]

    def if_measured(self, make: Callable[["Run"], Any], otherwise: Any = None) -> Any:
        """The result of `make`, or None if the run lacks a pass for it."""
        try:
            return make(self)
        except NotMeasured:
            return otherwise

    @property
    def missing_note(self) -> list[str]:
        """A line if something was not measured."""
        names = ", ".join(self.missing)
        return [f"Not measured: {names}. Its tables and figures are omitted."] * bool(names)

    @property
    def first(self) -> Results:
        return next(iter(self.passes.values()))

    @property
    def banner(self) -> str:
        """Whose times these are, if they are not this machine's."""
        measured = [r for r in self.passes.values() if r.gpu]  # code is compiled anywhere
        return banner(*measured) if self.recorded else ""

    @property
    def source(self) -> Source:
        return self.decisions[0].source

    @property
    def compared(self) -> tuple[str, str]:
        """The baseline and the paper's kernel, as the paper's main claim names them."""
        arguments = {claim.id: claim.arguments for claim in self.source.claims}
        if MAIN_CLAIM not in arguments:
            raise InputError(f"{self.source.file}: has no claim '{MAIN_CLAIM}', which tables show")
        return arguments[MAIN_CLAIM]["baseline"], arguments[MAIN_CLAIM]["subject"]

    def decision(self, claim: str) -> Decision:
        by_claim = {d.claim.id: d for d in self.decisions}
        if claim not in by_claim:
            raise InputError(f"{self.source.file}: has no claim '{claim}', which tables show")
        return by_claim[claim]


def experiment(name: str) -> Any:
    """The experiment's tables, figures and sentences."""
    view = default_view.of(declared.experiment(name))
    if views := declared.module(name, "views"):
        view |= vars(importlib.import_module(views))
    return SimpleNamespace(**view)


def load_run(
    name: str, folder: Path, recorded: bool = False, evidence: Evidence | None = None
) -> Run:
    """The experiment's result files in `folder`, read unless the evidence contains them. Passes may
    be missing, except all; views of a missing pass are left out. All must be of one run, except a
    separate pass, which may be of another run and other code, because its rows are only
    compared with each other. Rows of a file joined from several commits are already of the same
    machine code, so the other passes need the same code, and no commit.

    Claims are decided by `evidence`, by default by all files in the machine's folder of
    data/recorded, so that a claim has one verdict everywhere, and outside of data/recorded by this
    run alone.
    """
    if evidence is None and (machine := recorded_folder(folder / name)):
        evidence = collect(result_files(machine), machine)
    passes, results = {}, evidence.results.values() if evidence else ()
    known = {r.file: r for r in results if r.experiment == name}  # some are not written yet
    steps = declared.experiment(name).passes
    present, missing = declared.experiment(name).passes_in(folder, known)
    for p in present or missing:
        file = declared.file_of(folder, p, known)
        passes[p] = known.get(file) or load(file, name, p)
        require(passes[p], steps[p])
    first = min(passes.items(), key=lambda pair: steps[pair[0]].is_separate)[1]
    for pass_name, other in passes.items():
        if other.gpu is None:  # compiled code has fewer sources that could be changed
            same = [sources]
        else:
            joined = len(first.origins) > 1 or len(other.origins) > 1
            of_run = [gpu, driver] if joined else [gpu, with_changes, driver]
            same = [gpu] if steps[pass_name].is_separate else of_run
        for say in same:
            if say(first) != say(other):
                raise InputError(
                    f"{first.file} is of {say(first)}, but {other.file} of {say(other)}: "
                    "give two passes of one run"
                )
    together = [r for p, r in passes.items() if r.gpu and not steps[p].is_separate]
    ran = [(r.file, record) for r in together for record in r.records]
    if why := differing(ran):
        raise InputError(f"{first.file.parent}: {why}")
    decisions = decide(evidence or collect(passes.values()), load_sources(), name)
    recorded = recorded or bool(recorded_folder(first.file))
    return Run(passes, decisions, recorded, tuple(missing))


def gpu(results: Results) -> str:
    return str(results.gpu)


def with_changes(results: Results) -> str:
    return f"commit {commit(results)}"


def sources(results: Results) -> str:
    return with_changes(results).removesuffix("+dirty")


def require(results: Results, step: declared.Step) -> None:
    """InputError unless something ran if required, every problem is of a family whose fields the
    tables need (any family if none is named), and rows are warm or cold as declared.
    """
    if results.gpu is None and not step.compiled:
        raise InputError(f"{results.file}: nothing ran, but times or counters are needed here")
    for i, record in enumerate(results.records):
        where, family = f"{results.file}: records[{i}].problem", record.problem["family"]
        if step.families and family not in step.families:
            wanted = "' or '".join(step.families)
            raise InputError(f"{where}.family is '{family}', but '{wanted}' is needed here")
        if record.is_warm != step.warm:
            actual, wanted = ("cold", "warm")[:: 1 if step.warm else -1]
            raise InputError(f"{where}: is {actual}, but {wanted} rows are needed here")


def one_problem(results: Results, **facts: str) -> str:
    """The name of the only problem with these facts; InputError if there are several, or none."""
    names = [p["name"] for p in results.problems() if facts.items() <= p.items()]
    if len(names) != 1:
        which = "".join(f" whose {name} is '{value}'" for name, value in facts.items())
        raise InputError(f"{results.file}: needs one problem{which}, but has {len(names)}")
    return names[0]


def all_tables(name: str, run: Run, details: str, seen_from: Path) -> list[Table]:
    """The experiment's own tables, then its claims, with links to the page of their details."""
    made = [run.if_measured(make) for make in experiment(name).TABLES]
    tables = [t for part in made for t in (part if isinstance(part, list) else [part]) if t]
    if run.decisions:
        title = f"Claims that experiment {name} bears on"
        claims = claims_table("claims", title, run.decisions, details, seen_from)
        claims.provenance = machine_notes(*run.passes.values())
        tables.append(claims)
    return [replace(table, experiment=name, banner=run.banner) for table in tables]


def figure_files(
    name: str,
    run: Run,
    directory: Path,
    formats: tuple[str, ...] = FORMATS,
    captions: bool = True,
    columns: int = 2,
) -> dict[Path, bytes]:
    """Every figure in each format; without captions, which are then in a separate file."""
    files: dict[Path, bytes] = {}
    texts: list[str] = []
    with figure_style(columns):
        for file, (_, draw) in experiment(name).FIGURES.items():
            if (figure := run.if_measured(draw)) is None:
                continue
            texts += [] if captions else [f"{file}: {take_caption(figure)}\n"]
            files |= {directory / f"{file}.{kind}": encode(figure, kind) for kind in formats}
    return files | ({directory / "captions.txt": "\n".join(texts).encode()} if texts else {})


def render(args: argparse.Namespace) -> int:
    """One experiment, or each that the folder of results has."""
    if args.name:
        return render_one(args)
    names = [name for name in declared.names() if (args.results / name).is_dir()]
    if not names:
        make = "RECORDED=<folder> names another" if args.recorded else "make reproduce-table2"
        raise InputError(f"render: there are no results in {args.results}; {make}")
    for name in names:
        places = {"results": args.results / name, "output": args.output / name}
        if args.recorded:
            places["output"] = args.output / f"{name}-recorded"
        render_one(argparse.Namespace(**vars(args) | places | {"name": name}))
    return 0


def render_one(args: argparse.Namespace) -> int:
    """Every table and figure to a folder; and in about ten lines what they come to."""
    run, module = load_run(args.name, args.results, args.recorded), experiment(args.name)
    tables = all_tables(args.name, run, CLAIM_DETAILS, args.output)
    files = table_files(tables, args.output, args.notes)
    figures = {"captions": args.captions, "columns": args.columns}
    files |= figure_files(args.name, run, args.output, **figures)
    if run.decisions:
        details = claim_details.page(run.decisions, args.output)
        files[args.output / CLAIM_DETAILS] = details.encode("utf-8")
    write_files(files)
    lines = [headline(run.decision(module.HEADLINE))] if module.HEADLINE else []
    lines += in_brief(sentences(args.name, run), args.verbose)
    lines += closing_lines(run, args.output)
    lines[-1] += "" if args.verbose else " (VERBOSE=1 shows the tables here)"
    shown = [table for table in tables if table.name in module.ON_TERMINAL and args.verbose]
    closing = [run.if_measured(lambda r: module.CLOSING({"ours": r}))] if module.CLOSING else []
    closing = [table for table in closing if table]
    console.show(run.banner, shown, lines, closing)
    return 0


def sentences(name: str, run: Run) -> list[str]:
    """Its sentences, and its kernels of older code."""
    said = run.if_measured(experiment(name).highlights, [])
    said = [*said, *older_notes(*run.passes.values())] if said else []
    return [*run.missing_note, *said]


def in_brief(sentences: list[str], verbose: bool) -> list[str]:
    """The first ones, and how many more there are."""
    left = len(sentences) - FINDINGS
    if verbose or left <= 0:
        return sentences
    return [*sentences[:FINDINGS], f"And {left} more."]


def closing_lines(run: Run, directory: Path) -> list[str]:
    """The verdicts, the failures, and the places of all files."""
    lines = [count_line(run.decisions)] * bool(run.decisions)
    files = run.passes.values()
    failed = [c.name for results in files for c in results.checks if not c.passed]
    if failed:
        lines.append(f"INSTRUMENT CHECK FAILED, see the notes of the tables: {', '.join(failed)}.")
    records = [r for results in files for r in results.records]
    for outcomes, what in (
        (WRONG, "WRONG OUTPUT, hence no time"),
        ((Outcome.NOT_MEASURED,), "NOT MEASURED, not the kernel's fault; run again"),
    ):
        if by_kernel := Counter(r.kernel for r in records if r.outcome in outcomes):
            parts = [f"{kernel} ({rows} rows)" for kernel, rows in sorted(by_kernel.items())]
            lines.append(f"{what}: {', '.join(parts)}.")
    place = printable(str(directory))
    return [*lines, f"Tables (txt, md, csv, tex) and figures (pdf, png, svg): {place}/"]
