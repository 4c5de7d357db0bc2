"""What the drop-in library gains for a 4-bit checkpoint on this GPU, in about a minute: products of
the checkpoint's shapes, with random weights, measured as reprolab_nf4.advise does a loaded model's.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bitsandbytes
import torch

import reprolab_nf4
from experiments.end_to_end import build, checkpoint, plan
from records.command_line import Parser, run
from records.errors import InputError
from records.progress import Line
from reprolab_nf4 import measuring
from reprolab_nf4.advice import Shape

EXPECTED_S = 12  # of a shape, on an H200


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.end_to_end.advise", description=__doc__)
    p.add_argument("folder", type=Path, help="of a checkpoint in bitsandbytes' 4-bit NF4")
    p.add_argument("--batch", default="2", help="sequences that are decoded together")
    p.set_defaults(run=advise)
    return p


def advise(args: argparse.Namespace) -> int:
    from experiments.end_to_end.gpu import Gpu

    if not args.folder.is_dir():
        raise InputError(
            f"MODEL: there is no folder '{args.folder}'; give a checkpoint's, downloaded before"
        )
    batch = plan.number("BATCH", args.batch)
    if batch < 1:
        raise InputError("BATCH: 1 at least")
    counts = shapes_of(checkpoint.read(args.folder))
    build.quiet()
    try:
        with reprolab_nf4.install() as installed:
            kernels = list(installed.kernels())
        print(advice(Gpu(), args.folder.resolve().name, counts, batch, kernels))
    except torch.OutOfMemoryError:
        line = f"out of memory: batch {batch} does not fit on this GPU; give a smaller BATCH"
        raise InputError(line) from None
    except reprolab_nf4.DropinError as error:
        raise InputError(str(error)) from None
    return 0


def shapes_of(layers: Sequence[checkpoint.Layer]) -> dict[Shape, int]:
    """How many layers have each shape, the largest first."""
    found = Counter(Shape(x.rows, x.columns, x.block_size, x.nested, x.output) for x in layers)
    return dict(sorted(found.items(), key=lambda item: -item[0].rows * item[0].columns))


def advice(gpu: Any, name: str, counts: dict[Shape, int], batch: int, kernels: list[str]) -> str:
    with Line(EXPECTED_S * len(counts)) as line:

        def begin(done: int, shape: Shape) -> None:
            where = f"{done} of {len(counts)} shapes"
            line.show(done / len(counts), where, f"products with {shape.text} weights", True)

        weights = lambda shape: copies(gpu, shape)  # noqa: E731
        return measuring.advice(gpu, name, counts, weights, batch, kernels, begin)


def copies(gpu: Any, shape: Shape) -> measuring.Weights:
    """Codes and states of random weights, quantized as the checkpoint's."""
    dtype = getattr(torch, shape.output, torch.float16)
    size = (shape.rows, shape.columns)
    weight = torch.empty(size, dtype=dtype, device=gpu.device).normal_(0, build.SCALE)
    how = {"blocksize": shape.block_size, "quant_type": "nf4", "compress_statistics": shape.nested}
    count = measuring.copies_needed(gpu, shape)
    return [bitsandbytes.functional.quantize_4bit(weight, **how) for _ in range(count)]


if __name__ == "__main__":
    sys.exit(run(parser()))
