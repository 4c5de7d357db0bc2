"""The kernels of recorded results, for machines that cannot ask the programs."""

import argparse
import sys

from plots import console
from plots.captions import banner
from plots.results import Record, Results, load
from plots.tables import Cell, Column, Group, Row, Table


def run(args: argparse.Namespace) -> int:
    files = [load(file) for file in args.recorded]
    for line in dict.fromkeys(banner(results) for results in files):
        sys.stdout.write(console.box(line))
    sys.stdout.write("\n" + console.render(kernel_list(files)))
    return 0


def kernel_list(files: list[Results]) -> Table:
    """Each kernel and peer once, by name; a declared deviation as a footnote."""
    found: dict[str, Record] = {}
    for results in files:
        for record in results.records:
            if record.role != "ceiling":
                found.setdefault(record.kernel, record)
    columns = [
        Column("kernel", "l", wrap=True),
        Column("lineage", "l", wrap=True),
        Column("contract", "l"),
        Column("source file", "l", wrap=True),
    ]
    rows: list[Row | Group] = []
    for name, record in sorted(found.items()):
        contract: Cell | str = "bit-exact"
        if record.deviation:
            contract = Cell("declared deviation", (record.deviation,))
        rows.append([name, record.lineage, contract, record.source_file])
    return Table("list", f"{len(rows)} kernels", columns, rows)
