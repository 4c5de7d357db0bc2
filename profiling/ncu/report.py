"""Reads an ncu report: its counts of each launch, by the columns of data/counters.json."""

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from reprolab.counter_table import known
from reprolab.errors import InputError
from reprolab.stats import significant
from reprolab.tables import WORDS, Column, Table, Values

KERNEL_NAME, FIRST_COLUMN = "Kernel Name", "ID"
PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Value:
    """A number in the column's unit, and the largest rounding error of ncu's text."""

    value: float
    rounding: float = 0.0


@dataclass(frozen=True)
class Launch:
    kernel: str
    values: dict[str, Value]  # by column; without those for which ncu has no number


def launches(page: str) -> list[Launch]:
    """Reads ncu's raw page. InputError if it is not a raw page, or has none of our counters."""
    lines = page.splitlines()
    start = next((i for i, x in enumerate(lines) if x.startswith(f'"{FIRST_COLUMN}",')), len(lines))
    rows = list(csv.reader(lines[start:]))
    if len(rows) < 3 or KERNEL_NAME not in rows[0] or len({len(row) for row in rows}) != 1:
        raise InputError("ncu: its raw page is not a table of names, units and kernels")
    names, units = rows[0], dict(zip(rows[0], rows[1], strict=True))
    all_launches = []
    for row in rows[2:]:
        texts = dict(zip(names, row, strict=True))
        values = {
            counter.id: value
            for counter in known().values()
            for metric in counter.metrics
            if (value := number(texts.get(metric, ""), units.get(metric, "")))
        }
        all_launches.append(Launch(texts[KERNEL_NAME], values))
    if not all(launch.values for launch in all_launches):
        raise InputError("ncu: its report has none of the counters of data/counters.json")
    return all_launches


def number(text: str, unit: str) -> Value | None:
    """'1.274368' in 'Mbyte' is 1274368; None for text without a number, such as 'n/a'."""
    text = text.replace(",", "")
    if not re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text) or not math.isfinite(float(text)):
        return None
    scale = scale_of(unit)
    decimals = re.search(r"\.(\d+)", text)
    rounding = 0.5 * 10.0 ** -len(decimals[1]) * scale if decimals and "e" not in text else 0.0
    return Value(float(text) * scale, rounding)


def scale_of(unit: str) -> float:
    """1e6 for 'Mbyte', 1e6 for 'cycle/usecond': ncu scales bytes and seconds."""
    over, _, under = unit.partition("/")
    return prefix(over, "byte") / prefix(under, "second")


def prefix(unit: str, base: str) -> float:
    return PREFIXES.get(unit.removesuffix(base), 1.0) if unit.endswith(base) else 1.0


def shown(value: float) -> str:
    """Counts and large numbers in full, others with four digits."""
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else significant(value)


def table(title: str, launched: Sequence[Launch], notes: Sequence[str]) -> Table:
    """One row per counter that the report has, one column per launch."""
    heads = ["value"] if len(launched) == 1 else [f"launch {i + 1}" for i in range(len(launched))]
    rows: list[Values] = []
    for counter in known().values():
        values = [launch.values.get(counter.id) for launch in launched]
        if any(values):
            row = {"counter": counter.title, "unit": counter.unit, "meaning": counter.meaning}
            row |= {head: v.value for head, v in zip(heads, values, strict=True) if v}
            rows.append(row | {"_under": counter.group})
    columns = [Column("counter", "counter", **WORDS)]
    columns += [Column(head, head, shown) for head in heads]
    columns += [Column(name, name, **WORDS) for name in ("unit", "meaning")]
    return Table("profile", title, columns, rows, notes)
