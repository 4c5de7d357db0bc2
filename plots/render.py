"""`make render`: every table and figure of an experiment's results as files, and a few lines; and
what `make bench` and `make list` show.
"""

import argparse
import os
from functools import cache
from pathlib import Path

import pandas as pd

from plots.counters import with_derived
from plots.frame import prepared
from plots.machine import Machine, machines
from plots.tables import Table, markdown
from reprolab import declared
from reprolab.errors import InputError, printable
from reprolab.families import CONTRACTS, described, kernels
from reprolab.output import write_files
from reprolab.results import KERNEL_TIME, WRONG, Outcome, load, read, recorded_folder

TIMES = ["median", "low", "high", "gb_per_s", "bytes_per_cycle", "of_copy"]
COUNTERS = """instructions_per_element threads_per_instruction divergent_targets l2_hit_rate
dram_utilisation achieved_occupancy issue_utilisation""".split()
HEADS = {"median": "us", "gb_per_s": "GB/s", "bytes_per_cycle": "B/cycle", "of_copy": "of copy"}
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
    lines += [t.markdown() for t in (of_pages if args.verbose else of_pages[:1])]
    lines += [f"Not measured: {', '.join(missing)}."] * bool(missing)
    counts = machine.counts(experiment=name)
    words = (f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.items())
    lines += [f"Claims that it bears on: {', '.join(words)} (make claims)."] * bool(counts)
    rows = machine.frames.records
    lines += failures(rows[rows.experiment == name])
    more = "" if args.verbose else "; VERBOSE=1 shows every table"
    lines.append(f"Tables (md, csv, tex) and figures (svg): {output}/{more}")
    print("\n".join(printable(part) for line in lines for part in line.split("\n")))


@cache
def machines_in(folder: Path) -> list[Machine]:
    return machines([folder])


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


def bench(args: argparse.Namespace) -> int:
    """`make bench`: times with their bandwidths, or counters, of a single result file."""
    rows = prepared(read([args.results]))
    if rows.empty or rows.gpu.isna().all():
        raise InputError(f"{args.results}: nothing ran, so that there is nothing to show")
    machine = Machine("", rows)
    title = f"{rows.experiment.iloc[0]}, {rows['pass'].iloc[0]}, on {machine.gpu}"
    spec = {"title": title, "rows": ["problem", "kernel"]}
    if (rows.metric == KERNEL_TIME).any() or rows.metric.isna().all():
        spec |= {"values": TIMES, "heads": HEADS}
    else:
        rows = with_derived(rows)
        asked = load(args.results).provenance.get("metrics", [])
        shown = dict.fromkeys([*COUNTERS, *asked])  # each once
        spec |= {"columns": ["metric"], "where": {"metric": list(shown)}}
        spec |= {"metric": "all", "format": {"median": "short"}}
    table = Table("", {"name": "bench"} | spec, rows, pd.DataFrame())
    lines = [machine.banner()] * bool(machine.banner()) + [table.markdown(), *failures(rows)]
    print("\n".join(lines))
    return 0


def list_kernels(args: argparse.Namespace) -> int:
    """For machines that cannot ask the programs: of FAMILY, or all."""
    families = [f for f in described().values() if f.name == os.environ.get("FAMILY", f.name)]
    own = sorted(kernels(families).values(), key=lambda kernel: kernel.name)
    names = {"kernel": "name", "lineage": "lineage", "source file": "source_file"}
    made = [
        {head: getattr(kernel, name) for head, name in names.items()}
        | {"contract": CONTRACTS[kernel.contract]}
        for kernel in own
    ]
    print(markdown(pd.DataFrame(made)))
    return 0
