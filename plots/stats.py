"""Medians, spreads and what may be said about two of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_FOR_QUARTILES = 5  # as experiments/harness/statistics.hpp, which says why
INTERVAL_NOTE = f"Interval: quartiles, or the whole range below {FEWEST_FOR_QUARTILES} samples."


@dataclass(frozen=True)
class Summary:
    """Median, first and third quartile and extremes, in the samples' unit, and their number."""

    median: float
    q1: float
    q3: float
    min: float
    max: float
    n: int

    @property
    def low(self) -> float:
        """The interval's lower end; see INTERVAL_NOTE."""
        return self.min if self.n < FEWEST_FOR_QUARTILES else self.q1

    @property
    def high(self) -> float:
        return self.max if self.n < FEWEST_FOR_QUARTILES else self.q3


@dataclass(frozen=True)
class Ratio:
    """A speed-up with its interval; `seen` is false where the two intervals overlap."""

    value: float
    low: float
    high: float
    seen: bool


def summarize(samples: Sequence[float]) -> Summary:
    """Summarize at least one sample; quartiles by linear interpolation."""
    q1, median, q3 = (float(q) for q in np.quantile(np.asarray(samples, float), (0.25, 0.5, 0.75)))
    return Summary(median, q1, q3, min(samples), max(samples), len(samples))


def overlap(a: Summary, b: Summary) -> bool:
    """Whether the intervals of the two have a point in common."""
    return a.low <= b.high and b.low <= a.high


def speed_up(base: Summary, other: Summary) -> Ratio:
    """How many times faster than `base` the `other` is: ratio of medians, and of intervals."""
    return Ratio(
        base.median / other.median,
        base.low / other.high,
        base.high / other.low,
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
