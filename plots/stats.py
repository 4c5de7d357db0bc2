"""Medians, spreads and what may be said about two of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Median, first and third quartile and minimum, in the samples' unit, and their number."""

    median: float
    q1: float
    q3: float
    min: float
    n: int


@dataclass(frozen=True)
class Ratio:
    """A speed-up with its interval; `seen` is false where the quartile intervals overlap."""

    value: float
    low: float
    high: float
    seen: bool


def summarize(samples: Sequence[float]) -> Summary:
    """Summarize at least one sample; quartiles by linear interpolation."""
    q1, median, q3 = (float(q) for q in np.quantile(np.asarray(samples, float), (0.25, 0.5, 0.75)))
    return Summary(median, q1, q3, min(samples), len(samples))


def overlap(a: Summary, b: Summary) -> bool:
    """Whether [q1, q3] of the two have a point in common."""
    return a.q1 <= b.q3 and b.q1 <= a.q3


def speed_up(base: Summary, other: Summary) -> Ratio:
    """How many times faster than `base` the `other` is: ratio of medians, interval of quartiles."""
    return Ratio(
        base.median / other.median,
        base.q1 / other.q3,
        base.q3 / other.q1,
        not overlap(base, other),
    )


def gb_per_s(bytes_moved: int, time_us: float) -> float:
    """Bandwidth with GB = 1e9 bytes."""
    return bytes_moved / time_us / 1e3


def significant(value: float, digits: int = 4) -> str:
    """`value` in plain decimals with at least `digits` significant digits: 138.7, 4.142, 12345."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
