"""Whether install() chooses the fastest backend of each matmul: all backends of six layers, plain
and nested, at 1 to 512 rows in one run, against the choice by the recorded table. Beside them,
cuBLAS on weights in 16 bits, which is no backend.

    python -m experiments.product.choices --output results/times.json

Exit status: 0; 1 if a choice takes more than 3 % longer than the fastest backend.
"""

import argparse
import sys
from pathlib import Path
from statistics import median

import torch

from experiments.end_to_end import build
from reprolab.command_line import Parser, run
from reprolab_nf4 import installation, matmul, measuring, timing_table
from reprolab_nf4.checkpoint import Shape

LAYERS = ((28672, 8192), (8192, 8192), (1024, 8192), (14336, 4096), (4096, 14336), (4096, 4096))
MOST = 1.03  # times as long as the fastest
TYPE, DTYPE = "fp16", torch.float16


def us_in_16_bits(gpu, n: int, k: int, rows: int) -> float:
    """By weights that together exceed the L2 cache."""
    count = max(2, 1 + measuring.CACHES * gpu.l2_bytes() // (2 * n * k))
    weights = torch.randn((count, n, k), dtype=DTYPE, device=gpu.device)
    x = torch.ones((rows, k), dtype=DTYPE, device=gpu.device)
    replay = gpu.capture(lambda: [torch.nn.functional.linear(x, w) for w in weights], None)
    return median(measuring.interleave(gpu, {"": replay}, count)[""])


def reproduce(args: argparse.Namespace) -> int:
    build.quiet()
    gpu, slower, layers = measuring.Gpu(), 0, []
    with installation.install(products="bitsandbytes") as installed, torch.no_grad():
        library = installed.library
        chooses = matmul.Dispatcher(library, "fastest", None)
        for n, k in LAYERS:
            dense = {rows: us_in_16_bits(gpu, n, k, rows) for rows in measuring.ROWS}
            for nested in (False, True):
                shape = Shape(n, k, timing_table.BLOCK_SIZE, nested, "float16")
                weights, us = measuring.copies(gpu, shape), {}
                device, kernels = weights[0][0].device, library.products()
                ranges = chooses.by_rows(device, n, k, shape.block_size, TYPE, nested)
                for rows in measuring.ROWS:
                    us[rows] = measuring.backends(gpu, shape, weights, library, kernels, rows)
                    chosen = next(backend for most, backend in ranges if rows <= most)
                    best = min(us[rows], key=us[rows].get)
                    ratio = us[rows][chosen] / us[rows][best]
                    slower += ratio > MOST
                    words = f"{n}x{k}{' nested' * nested}, {rows} rows: {chosen}"
                    words += f" {us[rows][chosen]:.2f} us, fastest {best} {us[rows][best]:.2f} us"
                    words += f" ({ratio:.3f} x), dequantizing {us[rows]['dequantize']:.2f} us"
                    print(f"{words}, 16 bits {dense[rows]:.2f} us", flush=True)
                layers.append(timing_table.Layer(n, k, TYPE, nested, us))
                del weights
                gpu.forget()
    table = (gpu.name(), matmul.capability(gpu.device), "experiments.product.choices")
    timing_table.write(args.output, timing_table.Table(*table, tuple(layers)))
    print(f"{slower} of {len(layers) * len(measuring.ROWS)} choices are slower by more than 3 %")
    return int(slower > 0)


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.choices", description=__doc__)
    p.add_argument("--output", type=Path, required=True, help="all times, as a table of tune()")
    p.set_defaults(run=reproduce)
    return p


if __name__ == "__main__":
    sys.exit(run(parser()))
