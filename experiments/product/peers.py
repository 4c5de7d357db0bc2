"""Products of libraries under torch and of ours: for every layer and number of rows each backend is
verified, captured in a CUDA graph over all copies of the layer and timed in a shuffle, and the
outputs of the graphs are verified, too.

Exit status: 0; 1 if an output is wrong; 3 if a row was not measured for another reason.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch

from experiments.end_to_end import build, measure
from experiments.end_to_end.rounds import Measured
from experiments.product import layers
from experiments.product.layers import Backend, Held, Layer
from reprolab import result_file
from reprolab.command_line import Parser, numbers, run
from reprolab.errors import InputError
from reprolab.result_file import Content
from reprolab.results import Outcome
from reprolab_nf4 import measuring
from reprolab_nf4.bounds import Wrong

LEFT = "out of memory: free some of this GPU's"


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.peers", description=__doc__)
    p.add_argument("--shape", action="append", required=True, help="of weights: 28672x8192")
    p.add_argument("--rows", required=True, help="of activations: 1,2,4")
    p.add_argument("--output", type=Path, required=True, help="the pass's result file")
    p.set_defaults(run=reproduce)
    return p


class Product(NamedTuple):
    """`batch` rows of activations times weights [n, k]."""

    batch: int
    n: int
    k: int

    @property
    def text(self) -> str:
        return f"{self.batch}x{self.n}x{self.k}"

    @property
    def name(self) -> str:
        """In a result file."""
        return f"{self.text}/fp16/b{layers.BLOCK_SIZE}"


def reproduce(args: argparse.Namespace) -> int:
    shapes, batches = list(map(shape_of, args.shape)), numbers("--rows", args.rows, "1,2,4")
    products = [Product(batch, n, k) for n, k in shapes for batch in batches]

    def records_of(gpu: Any) -> list[Content]:
        try:
            return list(chain(*measured(gpu, layers.backends(gpu.facts()), products)))
        except torch.OutOfMemoryError:
            raise InputError(LEFT) from None

    return measure.write_peers(args.output, "product", records_of, layers.versions())


def shape_of(text: str) -> tuple[int, int]:
    """'28672x8192'; 128 divides the columns, the largest group size of a backend."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})x([1-9][0-9]{0,5})", text)
    n, k = map(int, match.groups()) if match else (0, 1)
    if k % 128:
        wanted = "rows x columns such as 28672x8192, columns a multiple of 128"
        raise InputError(f"--shape: give {wanted}, not '{text}'")
    return n, k


@torch.no_grad()
def measured(
    gpu: Any, compared: list[Backend], products: Sequence[Product]
) -> Iterator[list[Content]]:
    """The rows of a result file for each product; those of one layer must be consecutive."""
    for (n, k), group in groupby(products, key=lambda product: (product.n, product.k)):
        of_layer = list(group)
        bench = Bench(Layer(gpu, n, k, max(product.batch for product in of_layer)), compared)
        for product in of_layer:
            print(f"measuring {product.text}", file=sys.stderr)
            yield bench.measure(product)
        del bench
        gpu.forget()


class Bench:
    """A layer, prepared for each backend that supports it."""

    def __init__(self, layer: Layer, compared: list[Backend]):
        self.layer, self.gpu, self.backends = layer, layer.gpu, compared
        self.held: dict[str, Held] = {}
        # Backends that hold no weights.
        self.failed = {backend.name: Measured(Outcome.WITHIN_BOUND) for backend in compared}
        for backend in compared:
            with attempt(self.failed[backend.name], backend.install):
                self.held[backend.name] = backend.hold(layer)
                del self.failed[backend.name]

    def measure(self, product: Product) -> list[Content]:
        """The records. The number of rows divides the layer's."""
        batch = product.batch
        rows = {one.name: Measured(Outcome.WITHIN_BOUND) for one in self.backends} | self.failed
        x, pool = self.layer.x[:batch].clone(), self.gpu.new_pool()
        replays: dict[str, Callable[[], None]] = {}
        outputs: dict[str, list[Any]] = {name: [] for name in rows}
        for backend in self.backends:
            if held := self.held.get(backend.name):
                with attempt(rows[backend.name], backend.install), backend.in_place():
                    self.verify(held, batch)
                    step = all_products(held, x, outputs[backend.name])
                    replays[backend.name] = self.gpu.capture(step, pool)

        def read_clock(name: str) -> None:
            self.gpu.sensors.read()
            rows[name].keep({}, self.gpu.sensors)

        if replays:
            samples = measuring.interleave(self.gpu, replays, self.layer.copies, read_clock)
            for name, us in samples.items():
                rows[name].samples["kernel_time"] = us
        few = self.layer.max_rows  # the first such row
        x.copy_(self.layer.x[few : few + batch])
        for backend in self.backends:
            if backend.name in replays:
                with attempt(rows[backend.name], backend.install):
                    for output in outputs[backend.name]:
                        output.fill_(torch.nan)
                    replays[backend.name]()
                    for output in outputs[backend.name]:
                        self.held[backend.name].check(output, few)
        return [self.record(product, backend, rows[backend.name]) for backend in self.backends]

    def verify(self, held: Held, batch: int) -> None:
        """Checks the first rows of activations with all copies, and those with few inputs with the
        first copy, `batch` at a time.
        """
        x, few = self.layer.x, self.layer.max_rows
        for product in held.products:
            held.check(product(x[:batch]), 0)
        for begin in range(few, len(x), batch):
            begin = min(begin, len(x) - batch)
            held.check(held.products[0](x[begin : begin + batch]), begin)

    def record(self, product: Product, backend: Backend, row: Measured) -> Content:
        (batch, n, k), held = product, self.held.get(backend.name)
        problem = {"name": product.name, "family": "nf4_product"}
        problem |= {"batch": batch, "rows": n, "columns": k, "n": batch * n, "output": "fp16"}
        problem |= {"block_size": layers.BLOCK_SIZE, "nested": False, "bias": False}
        weights, inputs, outputs = held.bytes if held else 0, 2 * batch * k, 2 * batch * n
        moved = {"read": inputs + weights, "written": outputs}
        return result_file.record(backend.described, problem, **row.fields(), bytes=moved)


def all_products(held: Held, x: torch.Tensor, outputs: list[Any]) -> Callable[[], None]:
    def step() -> None:
        outputs[:] = [product(x) for product in held.products]

    return step


@contextmanager
def attempt(row: Measured, install: str) -> Iterator[None]:
    """Turns an error into the outcome of one row. Rows that need a package are optional; `install`
    is the command for it.
    """
    try:
        yield
    except Wrong as wrong:
        row.end(Outcome.MISMATCH, str(wrong), wrong.count)
    except torch.OutOfMemoryError:
        row.end(Outcome.NOT_MEASURED, LEFT)
    except InputError as why:  # on this GPU
        row.end(Outcome.UNSUPPORTED, str(why))
    except Exception as error:
        missing = isinstance(error, ImportError) and install
        reason = build.first_line(error) + f": {install}" * bool(missing)
        row.end(Outcome.UNSUPPORTED if install else Outcome.LAUNCH_FAILED, reason)


if __name__ == "__main__":
    sys.exit(run(parser()))
