"""How often `make compare` is wrong: repetitions of one run, each compared with each other."""

import argparse
from collections import Counter
from itertools import combinations

from plots import console
from plots.compare import Side, dates, load_side
from plots.tables import WORDS, Column, Table
from records import comparison
from records.comparison import FASTER, SLOWER, THRESHOLD_PERCENT
from records.errors import InputError
from records.output import write_files
from records.result_file import as_json

LEAST = 4  # runs: the two that are compared are judged by what the others differ by


def run(args: argparse.Namespace) -> int:
    sides = [load_side(given) for given in args.runs]
    check(sides)
    runs = [comparison.times(side.files, args.kernel) for side in sides]
    rows: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    affected = 0
    for pair in combinations(range(len(runs)), 2):
        others = comparison.spread_of([run for i, run in enumerate(runs) if i not in pair])
        found = comparison.compare(*(runs[i] for i in pair), others, THRESHOLD_PERCENT)
        found = [p for p in found if p.mean and p.same_code is not False]
        false = [p for p in found if p.verdict in (SLOWER, FASTER)]
        rows.update(p.a.kind for p in found)
        wrong.update(p.a.kind for p in false)
        affected += bool(false)
    if not rows:
        raise InputError("these runs have no row in common that has times")
    count = len(runs) * (len(runs) - 1) // 2
    for kind in rows:
        share = 100 * wrong[kind] / rows[kind]
        print(f"{kind}: {wrong[kind]} of {rows[kind]} rows ({share:.2f} %) slower or faster")
    compared = f"{affected} of {count} comparisons of {len(runs)} runs"
    print(f"In {compared}, threshold {THRESHOLD_PERCENT:g} %.")
    files = [r for side in sides for r in side.files]
    source = f"{len(sides)} runs on {files[0].gpu}, {dates(files)}"
    spread = {
        kind: [c._asdict() for c in found] for kind, found in comparison.spread_of(runs).items()
    }
    columns = [
        Column("metric", "metric", **WORDS),
        Column("rows that take (us)", "from_us", "{:g} and more".format),
        Column("standard deviation %", "percent", "{:.2f}".format),
        Column("rows", "rows"),
    ]
    title = f"What one row differs by from run to run: {source}"
    values = [{"metric": kind} | c for kind, found in spread.items() for c in found]
    print()
    console.show([], [Table("repetitions", title, columns, values)])
    if args.write:
        about = {"source": source, "runs": args.runs, "kernels": args.kernel}
        write_files({args.write: as_json(about | {"spread": spread})})
    return 0


def check(sides: list[Side]) -> None:
    """InputError unless they are several measurements on one kind of GPU."""
    if len(sides) < LEAST:
        raise InputError(f"give {LEAST} runs or more, not {len(sides)}")
    if len(gpus := {r.gpu for side in sides for r in side.files}) > 1:
        raise InputError(f"the runs are of {len(gpus)} kinds of GPU: {', '.join(sorted(gpus))}")
    seen: dict[tuple[str, str, str], str] = {}
    for side in sides:
        for r in side.files:
            first = seen.setdefault((r.experiment, r.pass_name, r.provenance["started"]), side.name)
            if first != side.name:
                raise InputError(f"{first} and {side.name} hold the same measurement of {r.name}")
