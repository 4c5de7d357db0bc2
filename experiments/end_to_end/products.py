"""Products of layers that lie in no model, with random weights: `advise` says what the drop-in
library gains for a 4-bit checkpoint on this GPU, as reprolab_nf4.advise does for a loaded model;
`tune` measures which way of multiplying is the fastest here, for the layers of a checkpoint, or of
the models in data/models/, and writes the table that reprolab_nf4.install(table=...) takes.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import reprolab_nf4
from experiments.end_to_end import build, checkpoint, plan, sizes
from records import interruption
from records.command_line import Parser, run
from records.errors import InputError
from records.output import check_place, write_files
from records.printable import printable
from records.progress import Line
from reprolab_nf4 import choices, measuring
from reprolab_nf4.advice import Shape

ADVISE_S, TUNE_S = 12, 10  # of a shape, on an H200
Begin = Callable[[int, Shape], None]


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="python -m experiments.end_to_end.products", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    p = commands.add_parser("advise", help="about a minute")
    p.add_argument("model", help="the folder of a checkpoint in bitsandbytes' 4-bit NF4")
    p.add_argument("--batch", default="2", help="sequences that are decoded together")
    p.set_defaults(run=advise)
    p = commands.add_parser("tune", help="seconds for each shape, of 1 to 512 rows")
    p.add_argument("--model", help="the folder of a checkpoint")
    p.add_argument("--output", type=Path, required=True, help="the table, in JSON")
    p.set_defaults(run=tune)
    return top


def advise(args: argparse.Namespace) -> int:
    counts, batch = shapes_of(args.model), plan.number("BATCH", args.batch)
    if batch < 1:
        raise InputError("BATCH: 1 at least")

    def measure(gpu: Any, begin: Begin) -> str:
        with reprolab_nf4.install() as installed:
            kernels = list(installed.kernels())
        name, weights = Path(args.model).resolve().name, lambda shape: copies(gpu, shape)
        return measuring.advice(gpu, name, counts, weights, batch, kernels, begin)

    smaller = f"batch {batch} does not fit on this GPU; give a smaller BATCH"
    print(on_gpu(measure, len(counts), ADVISE_S, smaller))
    return 0


def tune(args: argparse.Namespace) -> int:
    shapes = list(shapes_of(args.model)) if args.model is not None else of_models()

    def measure(gpu: Any, begin: Begin) -> choices.Table:
        check_place(args.output)
        return measuring.tune(gpu, shapes, lambda shape: copies(gpu, shape), begin)

    table = on_gpu(measure, len(shapes), TUNE_S, "free some of this GPU's")
    write_files({args.output: choices.text(table).encode()})
    print(f"{table.gpu}: {table.source}")
    place = printable(str(args.output.resolve()))
    print(f'{printable(str(args.output))}: reprolab_nf4.install(table="{place}") takes it')
    return 0


def on_gpu(
    measure: Callable[[Any, Begin], Any], shapes: int, seconds: float, what_to_do: str
) -> Any:
    """What `measure` returns, with a line that says how far it is. `what_to_do`: where memory
    runs out.
    """
    from experiments.end_to_end.gpu import Gpu

    build.quiet()
    try:
        with Line(seconds * shapes) as line:

            def begin(done: int, shape: Shape) -> None:
                where = f"{done} of {shapes} shapes"
                line.show(done / shapes, where, f"products with {shape.text} weights", True)

            return measure(Gpu(), begin)
    except torch.OutOfMemoryError:
        raise InputError(f"out of memory: {what_to_do}") from None
    except reprolab_nf4.DropinError as error:
        raise InputError(str(error)) from None


def shapes_of(model: str) -> dict[Shape, int]:
    """How many layers of the checkpoint have each shape, the largest first."""
    if not Path(model).is_dir():
        what = "give a checkpoint's, downloaded before"
        raise InputError(f"MODEL: there is no folder '{model}'; {what}")
    found = Counter(checkpoint.read(Path(model)))
    return dict(sorted(found.items(), key=lambda item: -item[0].rows * item[0].columns))


def of_models() -> Sequence[Shape]:
    """Plain and nested, fp16 and bf16 of every matrix, the largest first."""
    found = {matrix for model in sizes.known().values() for matrix in model.matrices()}
    return [
        Shape(*matrix, sizes.BLOCK_SIZE, nested, output)
        for matrix in sorted(found, key=lambda rows_columns: -rows_columns[0] * rows_columns[1])
        for nested in (False, True)
        for output in ("float16", "bfloat16")
    ]


def copies(gpu: Any, shape: Shape) -> measuring.Weights:
    """Codes and states of random weights, quantized as the checkpoint's."""
    dtype = getattr(torch, shape.output, torch.float16)
    size = (shape.rows, shape.columns)
    weight = torch.empty(size, dtype=dtype, device=gpu.device).normal_(0, build.SCALE)
    count = measuring.copies_needed(gpu, shape)
    return [build.nf4(weight, shape.block_size, shape.nested) for _ in range(count)]


if __name__ == "__main__":
    interruption.end_quietly()
    sys.exit(run(parser()))
