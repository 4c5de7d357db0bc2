"""Tables of measured times, by which the backend of a matmul is chosen for a layer and a number of
rows.

A table has the times of one GPU: measured by `make tune`, or recorded in tables/, also for other
GPUs of its architecture. Needs nothing but the standard library.
"""

import functools
import json
import math
import os
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

from reprolab_nf4.c_functions import DropinError, shown

RECORDED = Path(__file__).resolve().with_name("tables")

HEAD = ("gpu", "compute_capability", "source")  # fields of a table before its layers
TYPES = ("fp16", "bf16")
BLOCK_SIZE = 64  # of the recorded layers
BITSANDBYTES = "bitsandbytes"  # as bitsandbytes chooses
# By the installed kernel, then PyTorch's matmul. All other backends are the library's products().
DEQUANTIZE = "dequantize"


@dataclass(frozen=True)
class Layer:
    """Times of matmuls with n x k weights. `type`: fp16 or bf16; `us`: by rows, then by backend."""

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

    def backends(
        self, n: int, k: int, type: str, nested: bool, can: Callable[[str, int], bool], default: str
    ) -> list[tuple[int, str]]:
        """The fastest backend for each range of rows: the most rows of the range, and the backend,
        of those that `can` run with so many rows; `default` if none can.

        The times are those of the nearest measured layer, preferably of the same type and scales;
        for more rows than it has, of the next nearest. Between two measured numbers of rows those
        of the larger: kernels compute whole tiles.
        """

        def distance(layer: Layer) -> tuple[float, int]:
            others = (layer.type != type) + (layer.nested != nested)
            return math.hypot(math.log(layer.n / n), math.log(layer.k / k)), others

        us: dict[int, dict[str, float]] = {}
        most_rows = max((max(layer.us) for layer in self.layers), default=0)
        for layer in sorted(self.layers, key=distance):
            most = max(us, default=0)
            if most == most_rows:
                break
            us |= {rows: times for rows, times in layer.us.items() if rows > most}
        ranges: list[tuple[int, str]] = []
        for rows, times in sorted(us.items()):
            able = (name for name in sorted(times, key=times.get) if can(name, rows))
            backend = next(able, default)
            if ranges and ranges[-1][1] == backend:
                ranges.pop()
            ranges.append((rows, backend))
        return ranges


def recorded(gpu: str, compute_capability: str) -> Table | None:
    """The recorded table of the GPU of this name, or else of its architecture; None without any."""
    return next(map(_read_once, files(gpu, compute_capability)), None)


def files(gpu: str, compute_capability: str) -> list[Path]:
    """The file of the recorded table, if there is one."""
    architecture = f"sm_{compute_capability.replace('.', '')}"
    own = [p for p in sorted(RECORDED.glob(f"{architecture}_*.json")) if _read_once(p).gpu == gpu]
    usual = RECORDED / f"{architecture}.json"
    return own[:1] or [usual] * usual.is_file()


@functools.cache
def _read_once(path: Path) -> Table:
    """Reads a recorded table once: it takes milliseconds, and the file does not change."""
    return read(path)


def read(path: str | PathLike) -> Table:
    try:
        content = json.loads(Path(path).read_bytes())
        return Table(**content | {"layers": tuple(map(_layer, content["layers"]))})
    except FileNotFoundError:
        raise DropinError(f"{path}: no such file; give a table that make tune wrote") from None
    except OSError as error:
        raise DropinError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DropinError(f"{path}: is not a table that make tune wrote: {error!r}") from None


def _layer(fields: dict) -> Layer:
    us = {
        int(rows): {backend: float(us) for backend, us in times.items()}
        for rows, times in fields["us"].items()
    }
    is_size = [type(size) is int and size > 0 for size in (fields["n"], fields["k"])]
    if fields["type"] not in TYPES or not us or not all([*us.values(), *is_size]):
        raise ValueError(f"layers are N x K of {' or '.join(TYPES)}, with times by number of rows")
    return Layer(**fields | {"us": us})


def check(table: Table, kernels: list[str]) -> None:
    """Raises DropinError if a backend is none of these kernels, BITSANDBYTES or DEQUANTIZE."""
    names = {name for layer in table.layers for us in layer.us.values() for name in us}
    for name in sorted(names - {BITSANDBYTES, DEQUANTIZE, *kernels}):
        raise DropinError(f"table: the library has no kernel {name!r}; measure again by make tune")


def writable(path: str | PathLike) -> Path:
    """The path, if a file can be written there; called before the measurement."""
    try:
        file = Path(path)
        is_file = stat.S_ISREG(file.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_file = True  # a new one
    except (TypeError, ValueError, OSError):
        raise DropinError(f"output: give a file's path, not {shown(path)}") from None
    if not is_file:
        raise DropinError(f"{path}: cannot be written: it is not a file")
    if not os.access(file.absolute().parent, os.W_OK):
        raise DropinError(f"{path}: cannot be written: its folder does not exist, or is not yours")
    return file


def write(path: Path, table: Table) -> None:
    """If it fails, the old file stays."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text(table), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DropinError(f"{path}: cannot be written: {error.strerror}") from None


def text(table: Table) -> str:
    """JSON with one line for each layer."""
    lines = [f' "{name}": {json.dumps(getattr(table, name))},\n' for name in HEAD]
    layers = ",\n".join(f"  {json.dumps(asdict(layer))}" for layer in table.layers)
    return "{\n" + "".join(lines) + f' "layers": [\n{layers}\n ]\n}}\n'
