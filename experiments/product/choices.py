"""Whether install() chooses the fastest backend of each matmul: all backends of six layers, plain
and nested, at 1 to 512 rows, timed twice by tune(), against the choice by the recorded table.

    python -m experiments.product.choices --output results/times.json

Exit status: 0; 1 if a choice takes more than 3 % longer than the fastest backend.
"""

import argparse
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

from experiments.end_to_end import build
from reprolab.command_line import Parser, run
from reprolab_nf4 import Library, matmul, measuring, timing_table
from reprolab_nf4.checkpoint import Shape

LAYERS = ((28672, 8192), (8192, 8192), (1024, 8192), (14336, 4096), (4096, 14336), (4096, 4096))
MOST = 1.03  # times as long as the fastest


def reproduce(args: argparse.Namespace) -> int:
    build.quiet()
    gpu, slower = measuring.Gpu(), 0
    shapes = [
        Shape(n, k, timing_table.BLOCK_SIZE, nested, "float16")
        for (n, k), nested in product(LAYERS, (False, True))
    ]
    # Twice, as a graph of the same kernels on other memory takes up to 5 % longer.
    table, again = (measuring.tune(gpu, shapes) for _ in range(2))
    layers = map(faster, table.layers, again.layers)
    timing_table.write(args.output, table := replace(table, layers=tuple(layers)))
    chooses = matmul.Dispatcher(Library(), "fastest", None)
    for layer in table.layers:
        facts = (layer.n, layer.k, timing_table.BLOCK_SIZE, layer.type, layer.nested)
        ranges = chooses.by_rows(gpu.device, *facts)
        for rows, us in layer.us.items():
            chosen = next(backend for most, backend in ranges if rows <= most)
            best = min(us, key=us.get)
            ratio = us[chosen] / us[best]
            slower += ratio > MOST
            words = f"{layer.n}x{layer.k}{' nested' * layer.nested}, {rows} rows: {chosen}"
            words += f" {us[chosen]:.2f} us, fastest {best} {us[best]:.2f} us ({ratio:.3f} x)"
            print(f"{words}, dequantizing {us['dequantize']:.2f} us")
    print(f"{slower} of {len(table.layers) * len(measuring.ROWS)} choices are slower by over 3 %")
    return int(slower > 0)


def faster(one: timing_table.Layer, other: timing_table.Layer) -> timing_table.Layer:
    """The layer with the shorter time of each backend."""
    us = {
        rows: {backend: min(time, other.us[rows][backend]) for backend, time in times.items()}
        for rows, times in one.us.items()
    }
    return replace(one, us=us)


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.choices", description=__doc__)
    p.add_argument("--output", type=Path, required=True, help="all times, as a table of tune()")
    p.set_defaults(run=reproduce)
    return p


if __name__ == "__main__":
    sys.exit(run(parser()))
