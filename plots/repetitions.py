"""The error rate of `make compare`: repetitions of one run, each compared with each other."""

import argparse
from collections import Counter
from itertools import combinations

from plots.sides import Side, load_side
from reprolab import comparison, console, run_to_run
from reprolab.captions import dates
from reprolab.comparison import FASTER, SLOWER, Pair, Pool
from reprolab.errors import InputError
from reprolab.output import write_files
from reprolab.result_file import as_json
from reprolab.tables import WORDS, Column, Table

MIN_RUNS = 4  # two are compared, and the others give the run-to-run spread


def run(args: argparse.Namespace) -> int:
    """The error rate of `make compare`: repetitions of one run, each compared with each other."""
    sides = [load_side(run) for run in args.runs]
    check_repetitions(sides)
    files = [r for side in sides for r in side.files]
    gpu = files[0].gpu
    runs = [comparison.times(side.files, args.kernel) for side in sides]
    rows: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    affected = 0
    for pair in combinations(range(len(runs)), 2):
        others = [run for i, run in enumerate(runs) if i not in pair]
        budgets = {gpu: comparison.budget_of(others)}
        pairs = comparison.compare(*(runs[i] for i in pair), budgets, comparison.THRESHOLD_PERCENT)
        pairs = [p for p in pairs if p.mean and p.same_code is not False]
        pools = comparison.pools(pairs, budgets, comparison.THRESHOLD_PERCENT)
        false = [tested for tested in (*pairs, *pools) if tested.verdict in (SLOWER, FASTER)]
        rows.update(map(kind_of, (*pairs, *pools)))
        wrong.update(map(kind_of, false))
        affected += bool(false)
    if not rows:
        raise InputError("these runs have no common row with times")
    count = len(runs) * (len(runs) - 1) // 2
    for kind in sorted(rows, key=lambda kind: kind[1]):
        share, (time, counted) = 100 * wrong[kind] / rows[kind], kind
        print(f"{time}: {wrong[kind]} of {rows[kind]} {counted} ({share:.2f} %) slower or faster")
    compared = f"{affected} of {count} comparisons of {len(runs)} runs"
    print(f"In {compared}, threshold {comparison.THRESHOLD_PERCENT:g} %.")
    source = f"{len(sides)} runs on {gpu}, {dates(files)}"
    budget = comparison.budget_of(runs)
    spread = {kind: [c._asdict() for c in classes] for kind, classes in budget.spread.items()}
    columns = [
        Column("metric", "metric", **WORDS),
        Column("row time (us)", "from_us", "{:g} and more".format),
        Column("standard deviation %", "percent", "{:.2f}".format),
        Column("rows", "rows"),
        Column("largest of a kernel", "most", **WORDS),
    ]
    title = f"Run-to-run deviation of one row: {source}"
    values = [
        {
            "metric": kind,
            "most": "{1} {0:.2f}".format(*max((p, k) for k, p in c["kernels"].items())),
        }
        | c
        for kind, classes in spread.items()
        for c in classes
    ]
    print()
    console.show("", [Table("repetitions", title, columns, values)])
    if args.write:
        about = {"source": source, "runs": args.runs, "kernels": args.kernel}
        about |= {"spread": spread, "shared": budget.shared}
        others = run_to_run.recorded(args.write) if args.write.exists() else {}
        write_files({args.write: as_json({"gpus": others | {gpu: about}})})
    return 0


def kind_of(tested: Pair | Pool) -> tuple[str, str]:
    """The kind of time, such as kernel_time, and "rows" or "kernels"."""
    if isinstance(tested, Pool):
        return tested.pairs[0].a.kind, "kernels"
    return tested.a.kind, "rows"


def check_repetitions(sides: list[Side]) -> None:
    """InputError unless they are several measurements on one kind of GPU."""
    if len(sides) < MIN_RUNS:
        raise InputError(f"give {MIN_RUNS} runs or more, not {len(sides)}")
    if len(gpus := {r.gpu for side in sides for r in side.files}) > 1:
        raise InputError(f"the runs are of {len(gpus)} kinds of GPU: {', '.join(sorted(gpus))}")
    side_of: dict[tuple[str, ...], Side] = {}
    for side in sides:
        for r in side.files:
            when = (r.provenance["started"], r.provenance["gpu"].get("unit", ""))
            first = side_of.setdefault((r.experiment, r.pass_name, *when), side)
            if first is not side:
                both = f"{first.name} and {side.name}"
                raise InputError(f"{both} hold the same measurement of {r.name}")
