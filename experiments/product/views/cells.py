"""Cells: all rows of the products with one layer and one number of rows, and their floor."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from plots.bandwidth import Measured, Rows, compared, rows_by
from plots.experiments import Run
from reprolab.results import Record, Results
from reprolab.stats import Estimate

CUBLAS = "cublas_16bit"
DETOURS = ("streaming_then_cublas", "shared_lut_then_cublas")  # they write 16-bit weights first
DEQUANTIZING = "dequantizing"  # by the faster of them
OURS = "ours"  # the fastest of ours
SIMPLE = "simple"
MODEL = "llama-3.3-70b"  # the largest: its layers have every kernel's time, and the figure

Problem = dict[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Cell:
    """All rows for one layer and one number of rows."""

    problem: Problem
    rows: Rows
    reading_us: float | None  # codes and scales once
    multiplying_us: float  # at the measured peak; 0 if unknown

    @property
    def batch(self) -> int:
        return self.problem["batch"]

    @property
    def layer(self) -> str:
        return f"{self.problem['rows']}x{self.problem['columns']}"

    def fastest(self, kernels: Iterable[str]) -> Measured | None:
        """The fastest of these kernels; if none was timed, one with the reason."""
        rows = [self.rows[name] for name in kernels if name in self.rows]
        ranked = [m for m in rows if m.record.ranked]
        return next(iter(sorted(ranked, key=lambda m: m.record.times.median) or rows), None)

    @cached_property
    def chosen(self) -> dict[str, Measured | None]:
        """The fastest of ours, and the rows that it is compared with: for a library, its product
        for any number of rows, else that for one row.
        """
        projects = [k for k, m in self.rows.items() if m.record.origin == "project"]
        best = {OURS: self.fastest(k for k in projects if k not in (*DETOURS, SIMPLE))}
        for name in peers(m.record for m in self.rows.values()):
            both = [self.rows[k] for end in ("gemm", "gemv") if (k := f"{name}_{end}") in self.rows]
            best[name] = next((m for m in both if m.record.ranked), both[0] if both else None)
        return best | {DEQUANTIZING: self.fastest(DETOURS), CUBLAS: self.rows.get(CUBLAS)}

    @property
    def ours(self) -> Measured | None:
        return self.chosen[OURS]

    def gain(self, one: str, other: str) -> Estimate | None:
        """The time of `one` over the time of `other`."""
        return compared(self.chosen.get(one), self.chosen.get(other))

    @property
    def floor_us(self) -> float | None:
        return self.reading_us and max(self.reading_us, self.multiplying_us)

    def of_floor(self, m: Measured | None) -> float | None:
        if m is None or not m.record.ranked or self.floor_us is None:
            return None
        return self.floor_us / m.record.times.median


def cells(run: Run, name: str = "layers") -> list[Cell]:
    """Rows of a pass by layer, the smallest first, then by block size, type and number of rows."""
    every = rows_by(run[name], lambda p: (*shape(p), p["block_size"], p["output"], p["batch"]))
    # read_only on the largest layer, with the fewest rows of activations.
    speeds = {key: m.gb_s for key, rows in every.items() if (m := rows.get("read_only")) and m.gb_s}
    gb_s = speeds.get(max(speeds, key=lambda key: (key[0], -key[-1]), default=None))
    (tflops, _), made = measured_peak(run), []
    for rows in every.values():
        record = next((m.record for m in rows.values() if not m.record.is_ceiling), None)
        if record is None:
            continue
        p = record.problem
        # Bytes that every kernel reads, without activations and bias.
        weights = record.bytes_read - 2 * p["batch"] * p["columns"] - 2 * p["rows"] * p["bias"]
        multiplying = operations(p) / tflops / 1e6 if tflops else 0.0
        made.append(Cell(p, rows, weights / gb_s / 1e3 if gb_s else None, multiplying))
    return made


def shape(p: Problem) -> Key:
    """Smaller layers come first."""
    return p["rows"] * p["columns"], p["rows"], p["columns"]


def operations(p: Problem) -> int:
    """A multiplication and an addition for every weight and row."""
    return 2 * p["batch"] * p["rows"] * p["columns"]


def measured_peak(run: Run) -> tuple[float, str]:
    """Peak of the tensor cores: the highest rate of a row of `layers`, in TFLOP/s, and the row."""
    timed = [r for r in run["layers"].records if r.ranked and not r.is_ceiling]
    rates = ((operations(r.problem) / r.times.median / 1e6, r.place) for r in timed)
    return max(rates, default=(0.0, ""))


def peers(records: Iterable[Record]) -> list[str]:
    """The user's libraries; each has two rows."""
    kernels = [r.kernel for r in records if r.origin == "peer" and r.kernel != CUBLAS]
    return list(dict.fromkeys(k.removesuffix("_gemm").removesuffix("_gemv") for k in kernels))


def others(results: Results) -> list[str]:
    """The kernels that ours are compared with."""
    return [*peers(results.records), DEQUANTIZING, CUBLAS]


def by_layer(every: Iterable[Cell]) -> dict[str, list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for cell in every:
        groups.setdefault(cell.layer, []).append(cell)
    return groups


def of_model(run: Run) -> list[Cell]:
    """The cells of the largest model's layers."""
    every = cells(run)
    return [c for c in every if any(u.startswith(f"{MODEL}.") for u in c.problem["models"])]
