"""Which way of multiplying by NF4 weights is the fastest on this GPU, for the layers of a
checkpoint, or of the models in data/models/, with random weights and 1 to 512 rows: seconds for
each shape.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import reprolab_nf4
from experiments.end_to_end import build, checkpoint, sizes
from experiments.end_to_end.advise import copies, shapes_of
from records.command_line import Parser, run
from records.errors import InputError
from records.progress import Line
from reprolab_nf4 import choices, measuring
from reprolab_nf4.advice import Shape

EXPECTED_S = 10  # of a shape, on an H200


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.end_to_end.tune", description=__doc__)
    p.add_argument("--model", type=Path, help="a checkpoint in bitsandbytes' 4-bit NF4, its folder")
    p.add_argument("--output", type=Path, required=True, help="the table, in JSON")
    p.set_defaults(run=tune)
    return p


def tune(args: argparse.Namespace) -> int:
    from experiments.end_to_end.gpu import Gpu

    if args.model is not None and not args.model.is_dir():
        raise InputError(
            f"MODEL: there is no folder '{args.model}'; give a checkpoint's, downloaded before"
        )
    shapes = of_models() if args.model is None else list(shapes_of(checkpoint.read(args.model)))
    build.quiet()
    gpu = Gpu()
    try:
        with Line(EXPECTED_S * len(shapes)) as line:

            def begin(done: int, shape: Shape) -> None:
                where = f"{done} of {len(shapes)} shapes"
                line.show(done / len(shapes), where, f"products with {shape.text} weights", True)

            table = measuring.tune(gpu, shapes, lambda shape: copies(gpu, shape), begin)
    except torch.OutOfMemoryError:
        raise InputError("out of memory: free some of this GPU's") from None
    except reprolab_nf4.DropinError as error:
        raise InputError(str(error)) from None
    choices.write(args.output, table)
    print(f'{args.output}: reprolab_nf4.install(table="{args.output.resolve()}") takes it')
    return 0


def of_models() -> Sequence[Shape]:
    """Plain and nested, fp16 and bf16 of every matrix, the largest first."""
    found = {matrix for model in sizes.known().values() for matrix in model.matrices()}
    return [
        Shape(*matrix, sizes.BLOCK_SIZE, nested, output)
        for matrix in sorted(found, key=lambda rows_columns: -rows_columns[0] * rows_columns[1])
        for nested in (False, True)
        for output in ("float16", "bfloat16")
    ]


if __name__ == "__main__":
    sys.exit(run(parser()))
