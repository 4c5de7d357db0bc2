"""`make bench`: one result file as a table on the terminal, for any family of kernels."""

import argparse
import sys

from plots import console
from plots.bandwidth import bandwidth_table
from plots.captions import banner
from plots.results import is_recorded, load


def run(args: argparse.Namespace) -> int:
    results = load(args.results)
    title = f"{results.experiment}, {results.pass_name}"
    table = bandwidth_table(results, "bench", title, None)
    if is_recorded(args.results):
        table.banner = banner(results)
        sys.stdout.write(console.box(table.banner) + "\n")
    sys.stdout.write(console.render(table))
    return 0
