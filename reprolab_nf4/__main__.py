"""Measures matmuls of layers with random weights. `tune`: the times of each backend, for the layers
of a checkpoint or all of tables/, written as a table for reprolab_nf4.install(table=...).
"""

import argparse
import contextlib
import logging
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from reprolab_nf4 import checkpoint, timing_table
from reprolab_nf4.c_functions import DropinError
from reprolab_nf4.checkpoint import Shape
from reprolab_nf4.native import measuring_module

TUNE_S = 10  # per shape, on an H200


class Parser(argparse.ArgumentParser):
    """Prints an error as one line."""

    def error(self, message: str) -> NoReturn:
        raise DropinError(f"{self.prog}: {message}")


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="reprolab-nf4", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    p = commands.add_parser("tune", help="seconds for each shape, of 1 to 512 rows")
    p.add_argument("--model", help="the folder of a checkpoint")
    p.add_argument("--output", required=True, help="the table, in JSON")
    p.set_defaults(run=tune)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status; a DropinError is one line and status 2."""
    try:
        args = parser().parse_args(argv)
        args.run(args)
    except DropinError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def tune(args: argparse.Namespace) -> None:
    shapes = recorded_shapes() if args.model is None else list(dict.fromkeys(shapes_of(args.model)))
    place = timing_table.writable(args.output)

    def begin(done: int, shape: Shape) -> None:
        left = max(1, round(TUNE_S * (len(shapes) - done) / 60))
        what = f"products with {shape.text} weights"
        print(f"{done} of {len(shapes)} shapes, about {left} min left: {what}", file=sys.stderr)

    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # those of libraries do not concern the user
    measuring = measuring_module()
    import torch

    try:
        table = measuring.tune(measuring.Gpu(), shapes, begin)
    except torch.OutOfMemoryError:
        raise DropinError("out of memory: free some of this GPU's") from None
    timing_table.write(place, table)
    print(f"{table.gpu}: {table.source}")
    print(f"written for reprolab_nf4.install(table={str(place.resolve())!r})")


def shapes_of(model: str) -> list[Shape]:
    """Of each layer of the checkpoint."""
    is_folder = False
    with contextlib.suppress(OSError):  # such as a name that is too long
        is_folder = Path(model).is_dir()
    if not is_folder:
        what = "give a checkpoint's, downloaded before"
        raise DropinError(f"MODEL: folder '{model}' does not exist; {what}")
    return checkpoint.read(Path(model))


def recorded_shapes() -> list[Shape]:
    """The shapes of all tables in this package, the largest first."""
    outputs = {ours: theirs for theirs, ours in checkpoint.OUTPUTS.items()}
    tables = map(timing_table.read, sorted(timing_table.RECORDED.glob("*.json")))
    block_size = timing_table.BLOCK_SIZE
    shapes = {
        Shape(layer.n, layer.k, block_size, layer.nested, outputs[layer.type])
        for table in tables
        for layer in table.layers
    }
    order = lambda s: (-s.rows * s.columns, s.rows, s.output, s.nested)  # noqa: E731
    return sorted(shapes, key=order)


def program() -> NoReturn:
    """The command `reprolab-nf4`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it quietly
    sys.exit(main())


if __name__ == "__main__":
    program()
