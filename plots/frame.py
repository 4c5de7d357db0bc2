"""The frame of records as tables, figures and derived values use it."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from reprolab.claims.uncertainty import log_ratio
from reprolab.results import COPY, KERNEL_TIME, RIGHT, TIMES, VERIFIED, Row
from reprolab.stats import LogMean, Summary

Mean = Callable[[Row, Row], LogMean]

CLOCK_PERCENT = 2  # further apart, two rows did not run at one clock
NUMBERS = ["median", "low", "high", "q1", "q3", "min", "max", "gb_per_s"]


def short_name(gpu: str) -> str:
    return re.sub(r" \d+GB\b.*", "", gpu.removeprefix("NVIDIA "))


def prepared(records: pd.DataFrame) -> pd.DataFrame:
    """The frame for tables: problem_batch is batch, unverified rows have no number, and bandwidths
    are also shares of the copy's and of the fastest ceiling's on the problem.
    """
    short = {name: name.removeprefix("problem_") for name in records}
    rows = records.rename(columns={k: v for k, v in short.items() if v not in records})
    if rows.empty:
        return rows
    numbers = [*NUMBERS, "sm_mhz", "peak_gb_s"]
    rows[numbers] = rows[numbers].astype(float)  # a column of None alone has no type
    if {"rows", "columns"} <= {*rows}:
        rows["layer"] = rows["rows"].astype(str) + "x" + rows["columns"].astype(str)
    if "offset" in rows:
        rows["offset"] = rows.offset.fillna(0)
    ceiling = rows.origin == "ceiling"
    has_run = rows.gpu.notna()  # facts of compiled code are not verified
    rows.loc[has_run & ~(rows.outcome.isin(VERIFIED) | ceiling), NUMBERS] = None
    rows["gb_per_s_low"] = rows.gb_per_s * rows["median"] / rows.high
    rows["gb_per_s_high"] = rows.gb_per_s * rows["median"] / rows.low
    rows["of_peak"] = rows.gb_per_s / rows.peak_gb_s
    rows["bytes_per_cycle"] = 1e3 * rows.gb_per_s / rows.sm_mhz
    problem = rows.set_index(["file", "problem"]).index
    copy = (rows.kernel == COPY) & ceiling
    moves = ceiling & (rows.bytes_read > 0) & (rows.bytes_read < rows.bytes_moved)
    for name, chosen in (("of_copy", copy), ("of_ceiling", moves)):
        best = rows.gb_per_s.where(chosen).groupby([rows.file, rows.problem]).max()
        rows[name] = rows.gb_per_s / best.reindex(problem).to_numpy()
    timed = rows.sm_mhz.where(rows["median"].notna())
    highest = timed.groupby([rows.file, rows.problem]).max().reindex(problem).to_numpy()
    rows["clock_is_lower"] = 100 * (highest - timed) / highest > CLOCK_PERCENT
    return rows


def chosen(rows: pd.DataFrame, where: dict[str, Any]) -> pd.DataFrame:
    """The rows with these values; a list has several."""
    if not where.keys() <= {*rows}:
        return rows[:0]  # no problem of these results has the field
    fits = [rows[k].isin(v if isinstance(v, list) else [v]) for k, v in where.items()]
    return rows[np.logical_and.reduce(fits)] if fits else rows


def right_of(rows: pd.DataFrame) -> pd.Series:
    return rows.outcome.isin(RIGHT) | (rows.origin == "ceiling")


def against(rows: pd.DataFrame, over: dict[str, Any], keys: list[str]) -> pd.DataFrame:
    """With the ratio of the base's time to the row's, the inverse and the change: the speed-up,
    the time over the base's and its difference from it. Wrong and deviating times have none, and
    counts are divided by their medians.
    """
    on = [k for k in dict.fromkeys([*keys, "pass", "kernel", "metric"]) if k not in over]
    base = chosen(rows[right_of(rows)], over)[[*on, "row", "median"]]
    rows = rows.merge(base, how="left", on=on, suffixes=("", "_base"), validate="m:1")
    wrong = ~right_of(rows) & (rows.metric == KERNEL_TIME)
    is_time = rows.unit.isin(TIMES) & rows["median"].notna() & ~wrong
    ratios = ratios_of("time_ratio", rows.row, rows.row_base.where(is_time))
    is_count = ~rows.unit.isin(TIMES)
    counts = (rows["median"] / rows.median_base).where(is_count).astype(float)
    rows[ratios.columns] = ratios.assign(time_ratio=ratios.time_ratio.fillna(counts))
    for end, other in (("", ""), ("_low", "_high"), ("_high", "_low")):
        rows[f"ratio{end}"] = 1 / rows[f"time_ratio{other}"]
    return rows.assign(change=rows.time_ratio - 1)


def ratios_of(
    name: str, over: pd.Series, under: pd.Series, log_of: Mean = log_ratio, scale: float = 1
) -> pd.DataFrame:
    """Ratios of two columns of rows of times, and their intervals, as verdicts have them."""
    ends: list[tuple[float | None, ...]] = []
    for a, b in zip(over, under, strict=True):
        if a is b and isinstance(a, Row):
            ends.append((1, 1, 1))
        elif isinstance(a, Row) and isinstance(b, Row) and a.samples and b.samples:
            ratio = log_of(a, b).ratio.scaled(scale)
            ends.append((ratio.value, *ratio.interval))
        else:
            ends.append((None, None, None))
    names = [name, f"{name}_low", f"{name}_high"]
    return pd.DataFrame(ends, over.index, names, dtype=float)


def beside(rows: pd.DataFrame, *metrics: str) -> pd.DataFrame:
    """For derived.py: the rows of kernel times with other metrics of the same rows."""
    base = rows[rows.metric == KERNEL_TIME]
    for name in metrics:
        other = rows[rows.metric == name].set_index(["file", "key"])
        other = other[["median", "low", "high", "samples"]].add_prefix(f"{name}_")
        base = base.join(other, on=["file", "key"], how="inner")
    return base


def summaries(values: Iterable[Summary], name: str, index: pd.Index) -> pd.DataFrame:
    """For derived.py: the summaries as the columns of a value and its interval."""
    names = (name, f"{name}_low", f"{name}_high")
    return pd.DataFrame([(s.median, s.low, s.high) for s in values], index, names)
