"""`make render`: every table and figure of an experiment's results as files, and a few lines."""

import argparse
from functools import cache
from pathlib import Path

from plots.machine import Machine, machines
from plots.tables import Table
from reprolab import declared
from reprolab.errors import InputError
from reprolab.output import write_files
from reprolab.printable import printable
from reprolab.results import WRONG, Outcome, recorded_folder

FAILURES = {
    "WRONG OUTPUT, hence no time": list(WRONG),
    "NOT MEASURED, not the kernel's fault; run again": [Outcome.NOT_MEASURED],
}


def run(args: argparse.Namespace) -> int:
    """One experiment, or each that the folder of results has."""
    if args.name:
        render(args, args.name, args.results, args.output)
        return 0
    names = [name for name in declared.names() if (args.results / name).is_dir()]
    if not names:
        make = "RECORDED=<folder> names another" if args.recorded else "make reproduce-table2"
        raise InputError(f"render: there are no results in {args.results}; {make}")
    for name in names:
        output = args.output / (f"{name}-recorded" if args.recorded else name)
        render(args, name, args.results / name, output)
    return 0


def render(args: argparse.Namespace, name: str, folder: Path, output: Path) -> None:
    """The claims of a recorded run are decided by all files of its machine."""
    recorded = recorded_folder(folder / name)
    present, missing = declared.experiment(name).passes_in(folder)
    if not present:
        raise InputError(f"{folder}: has no results of {name}; make reproduce-{name}")
    machine, *others = machines_in(recorded or folder)
    if others:
        raise InputError(f"{folder}: has results of {1 + len(others)} GPUs: give one's folder")
    made = machine.tables(name)
    figures = {output / f"{n}.svg": svg for n, svg in machine.figures(name).items()}
    write_files(files_of(made, output) | figures)
    lines = [banner] if (banner := machine.banner(name) or "Recorded run." * args.recorded) else []
    of_pages = [t for t in made if t.spec.get("page", True)]
    shown = [t for t in made if t.spec.get("terminal")] or of_pages[:1]
    lines += [t.markdown() for t in (of_pages if args.verbose else shown)]
    lines += [f"Not measured: {', '.join(missing)}."] * bool(missing)
    counts = machine.counts(experiment=name)
    words = (f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.items())
    lines += [f"Claims that it bears on: {', '.join(words)} (make claims)."] * bool(counts)
    rows = machine.frames.records
    lines += failures(rows[rows.experiment == name])
    more = "" if args.verbose else "; VERBOSE=1 shows every table"
    lines.append(f"Tables (md, csv, tex) and figures (svg): {output}/{more}")
    print("\n".join(map(printable_lines, lines)))


@cache
def machines_in(folder: Path) -> list[Machine]:
    return machines([folder])


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def files_of(made: list[Table], output: Path) -> dict[Path, bytes]:
    """Each table as CSV; those that are pages' also as Markdown and LaTeX."""
    files = {output / f"{t.name}.csv": t.csv() for t in made}
    short = [t for t in made if t.spec.get("page", True)]
    files |= {output / f"{t.name}.md": t.markdown() for t in short}
    files |= {output / f"{t.name}.tex": t.latex() for t in short}
    return {path: text.encode() for path, text in files.items()}


def failures(rows) -> list[str]:
    """The kernels with wrong outputs, or without a measurement, and how many rows of each."""
    lines, rows = [], rows.drop_duplicates(["file", "key"])
    for what, outcomes in FAILURES.items():
        counts = rows[rows.outcome.isin(outcomes)].kernel.value_counts().sort_index()
        parts = [f"{kernel} ({count} rows)" for kernel, count in counts.items()]
        lines += [f"{what}: {', '.join(parts)}."] * bool(parts)
    return lines
