"""Tables of single result files for the terminal: `make bench` and `make list`."""

import argparse

import pandas as pd

from plots.counters import with_derived
from plots.frame import prepared
from plots.machine import Machine
from plots.tables import Table, markdown
from reprolab.errors import InputError
from reprolab.families import CONTRACTS, described, kernels
from reprolab.results import KERNEL_TIME, read

TIMES = ["median", "low", "high", "gb_per_s", "bytes_per_cycle", "of_copy"]
COUNTERS = """instructions_per_element threads_per_instruction divergent_targets l2_hit_rate
dram_utilisation achieved_occupancy issue_utilisation""".split()
HEADS = {"median": "us", "gb_per_s": "GB/s", "bytes_per_cycle": "B/cycle", "of_copy": "of copy"}


def records(args: argparse.Namespace) -> pd.DataFrame:
    rows = read([args.results])
    if rows.empty:
        raise InputError(f"{args.results}: has no rows, so that there is nothing to show")
    return prepared(rows)


def bench(args: argparse.Namespace) -> int:
    """Times with their bandwidths, or counters."""
    rows = records(args)
    if rows.gpu.isna().all():
        raise InputError(f"{args.results}: nothing ran, so that there is nothing to show")
    machine = Machine("", rows)
    title = f"{rows.experiment.iloc[0]}, {rows['pass'].iloc[0]}, on {machine.gpu}"
    spec = {"title": title, "rows": ["problem", "kernel"]}
    if (rows.metric == KERNEL_TIME).any() or rows.metric.isna().all():
        spec |= {"values": TIMES, "heads": HEADS}
    else:
        rows = with_derived(rows)
        asked = [name for name in rows.metric.dropna().unique() if "__" in name]
        spec |= {"columns": ["metric"], "where": {"metric": [*COUNTERS, *asked]}}
        spec |= {"metric": "all", "format": {"median": "short"}}
    print("\n".join([machine.banner()] * bool(machine.banner()) + [table(rows, spec).markdown()]))
    return 0


def table(rows: pd.DataFrame, spec: dict) -> Table:
    return Table("", {"name": "bench"} | spec, rows, pd.DataFrame())


def list_kernels(args: argparse.Namespace) -> int:
    """For machines that cannot ask the programs: the kernels of recorded runs."""
    rows = read([args.recorded])
    if rows.empty:
        raise InputError(f"{args.recorded}: no recorded runs, so that there are no kernels to list")
    own = rows[rows.source_file.str.startswith("kernels/")].drop_duplicates("kernel")
    known = kernels(described().values())
    made = [
        {"kernel": row.kernel, "lineage": row.lineage, "contract": contract(row, known)}
        | {"source file": row.source_file}
        for row in own.sort_values("kernel").itertuples()
    ]
    banner = Machine("", rows).banner()
    print("\n".join([banner] * bool(banner) + [markdown(pd.DataFrame(made))]))
    print("To compile and list this checkout's own (with nvcc): make list PRESET=gpu ARCH=90")
    return 0


def contract(row, known) -> str:
    """No family describes a user's own library."""
    of_row = "within_bound" if pd.notna(row.bound) else "bit_exact"
    of_row = "declared_deviation" if pd.notna(row.deviation) else of_row
    return CONTRACTS[(row.kernel in known and known[row.kernel].contract) or of_row]
