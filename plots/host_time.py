"""The figure of experiments/product/host.py: host time of a layer by library.

python -m plots.host_time results/host.json results/host.svg
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import matplotlib.pyplot as plt

from records.command_line import Parser, run
from records.errors import InputError

# Bars by the names in the file.
NAMES = {
    "nn.Linear": "nn.Linear, 16 bits",
    "bitsandbytes": "bitsandbytes",
    "python": "reprolab_nf4, calls in Python",
    "planned": "reprolab_nf4",
}


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m plots.host_time", description=__doc__)
    p.add_argument("file", type=Path, help="what experiments.product.host --rows wrote")
    p.add_argument("to", type=Path, help="the figure: .svg, .png or .pdf")
    p.set_defaults(run=lambda args: draw(args.file, args.to))
    return p


def draw(file: Path, to: Path) -> int:
    """Bars of medians with the quartiles, one group per number of rows."""
    try:
        found = json.loads(file.read_text())
        cells = {cell["rows"]: cell["host_us"] for cell in found["cells"]}
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{file}: no file of --rows: {error}") from error
    figure, axes = plt.subplots(figsize=(6, 3))
    width = 0.8 / len(NAMES)
    for i, (name, label) in enumerate(NAMES.items()):
        quartiles = [statistics.quantiles(samples[name]) for samples in cells.values()]
        medians = [middle for _, middle, _ in quartiles]
        ends = [[m - low for low, m, _ in quartiles], [high - m for _, m, high in quartiles]]
        at = [j + i * width for j in range(len(cells))]
        axes.bar(at, medians, width, yerr=ends, label=label)
    axes.set_xticks([j + 0.4 - width / 2 for j in range(len(cells))], list(map(str, cells)))
    axes.set(xlabel="rows of activations", ylabel="host time per layer (us)", ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.suptitle(f"{found['gpu']}, PyTorch {found['versions']['torch']}")
    figure.savefig(to, bbox_inches="tight")
    return 0


if __name__ == "__main__":
    sys.exit(run(parser()))
