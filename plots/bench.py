"""`make bench`: one result file as a table on the terminal, for any family of kernels."""

import argparse
import sys

from plots import console
from plots.bandwidth import bandwidth_table
from plots.results import load


def run(args: argparse.Namespace) -> int:
    results = load(args.results)
    title = f"{results.experiment}, {results.pass_name}"
    sys.stdout.write(console.render(bandwidth_table(results, "bench", title, None)))
    return 0
