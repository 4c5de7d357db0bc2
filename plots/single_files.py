"""Tables for the terminal of result files by themselves: one file's bandwidths, and its kernels."""

import argparse
import sys

from claims.evidence import recorded_folder
from claims.results import Record, Results, load
from plots import console
from plots.bandwidth import bandwidth_table
from plots.captions import banner
from plots.tables import Cell, Group, Row, Table, words


def bench(args: argparse.Namespace) -> int:
    """`make bench`: any family of kernels."""
    results = load(args.results)
    table = bandwidth_table(results, "bench", f"{results.experiment}, {results.pass_name}")
    if recorded_folder(args.results):
        table.banner = banner(results)
        sys.stdout.write(console.box(table.banner) + "\n")
    sys.stdout.write(console.render(table))
    return 0


def list_kernels(args: argparse.Namespace) -> int:
    """`make list`, for machines that cannot ask the programs."""
    files = [load(file) for file in args.recorded]
    for line in dict.fromkeys(banner(results) for results in files):
        sys.stdout.write(console.box(line))
    sys.stdout.write("\n" + console.render(kernel_list(files)))
    return 0


def kernel_list(files: list[Results]) -> Table:
    """Each kernel and peer once, by name; a declared deviation as a footnote."""
    found: dict[str, Record] = {}
    for record in [r for results in files for r in results.records if not r.is_ceiling]:
        found.setdefault(record.kernel, record)
    rows: list[Row | Group] = []
    for name, record in sorted(found.items()):
        deviates = Cell("declared deviation", (record.deviation or "",))
        contract = deviates if record.deviation else "bit-exact"
        rows.append([name, record.lineage, contract, record.source_file])
    columns = words("kernel", "lineage", "contract", "source file")
    return Table("list", f"{len(rows)} kernels", columns, rows)
