"""Which way of multiplying is the fastest for a layer and a number of rows, by measured times.

A table is of one GPU: measured by `make tune`, or recorded for an architecture in data/products/.
Needs nothing but the standard library.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from reprolab_nf4 import DropinError

# Beside this file where pip installed it, or in a checkout.
RECORDED = Path(__file__).resolve().with_name("products")
if not RECORDED.is_dir():
    RECORDED = RECORDED.parents[1] / "data/products"

OWN = "bitsandbytes"  # which chooses by itself
DEQUANTIZE = "dequantize"  # with the installed kernel, then PyTorch's product
# By exactly the dequantized weights. All other ways are the names of the library's kernels.
EXACT = (DEQUANTIZE, "few_rows_exact", "many_rows_exact", "simple")


@dataclass(frozen=True)
class Layer:
    """Times of products with n x k weights. `type`: fp16 or bf16; `us`: by rows, then by way."""

    n: int
    k: int
    type: str
    nested: bool
    us: dict[int, dict[str, float]]


@dataclass(frozen=True)
class Table:
    gpu: str
    compute_capability: str  # 9.0
    source: str  # what was measured, and with which bitsandbytes
    layers: tuple[Layer, ...]

    def ways(
        self, n: int, k: int, type: str, nested: bool, can: Callable[[str, int], bool], usual: str
    ) -> list[tuple[int, str]]:
        """Up to which number of rows which way is the fastest, of those that `can` at so many; the
        usual one where none can.

        By the nearest measured layer, of the same type and scales where there is one. A number of
        rows between two measured ones is taken for the larger: kernels work in whole tiles.
        """

        def distance(layer: Layer) -> tuple[int, float]:
            others = (layer.type != type) + (layer.nested != nested)
            return others, math.hypot(math.log(layer.n / n), math.log(layer.k / k))

        found: list[tuple[int, str]] = []
        for rows, times in sorted(min(self.layers, key=distance).us.items()):
            way = next((way for way in sorted(times, key=times.get) if can(way, rows)), usual)
            if found and found[-1][1] == way:
                found.pop()
            found.append((rows, way))
        return found


def recorded(compute_capability: str) -> Table | None:
    """None where no GPU of that architecture was measured."""
    return next(map(read, files(compute_capability)), None)


def files(compute_capability: str) -> list[Path]:
    """The file of what is recorded, if there is any."""
    path = RECORDED / f"sm_{compute_capability.replace('.', '')}.json"
    return [path] * path.is_file()


def read(path: str | PathLike) -> Table:
    try:
        text = Path(path).read_text()
    except (TypeError, ValueError, OSError) as error:
        raise DropinError(f"table: cannot be read: {error}") from None
    try:
        content = json.loads(text)
        layers = []
        for layer in content.pop("layers"):
            times = {int(rows): us for rows, us in layer.pop("us").items()}
            layers.append(Layer(**layer, us=times))
        table = Table(**content, layers=tuple(layers))
        if not layers or any(not us for x in layers for us in [x.us, *x.us.values()]):
            raise ValueError("no times")
        return table
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DropinError(f"{path}: is no table of products: {error!r}") from None


def write(path: Path, table: Table) -> None:
    """A line for each layer and number of rows."""
    lines = [f'  "{name}": {json.dumps(getattr(table, name))},\n' for name in HEAD]
    layers = ",\n".join(_text(layer) for layer in table.layers)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + "".join(lines) + f'  "layers": [\n{layers}\n  ]\n}}\n')


HEAD = ("gpu", "compute_capability", "source")


def _text(layer: Layer) -> str:
    facts = {"n": layer.n, "k": layer.k, "type": layer.type, "nested": layer.nested}
    head = json.dumps(facts)[1:-1]
    rows: Iterable[str] = (f'      "{m}": {json.dumps(us)}' for m, us in sorted(layer.us.items()))
    return f'    {{{head}, "us": {{\n' + ",\n".join(rows) + "}}"
