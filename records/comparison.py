"""The times of two runs, row by row: their ratio with its interval, and the verdict on it.

docs/comparing-runs.md says which test decides, and why.
"""

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import stats

from records.code import differing
from records.json_files import ROOT, read_json
from records.results import COPY, KERNEL_TIME, Metric, Record, Results
from records.stats import CONFIDENCE as CONFIDENCE
from records.stats import FALSE_SHARE, LogMean

RUN_TO_RUN = ROOT / "data/run_to_run.json"
THRESHOLD_PERCENT = 1.0
SLOWER, FASTER, SAME, UNDECIDED = VERDICTS = ("slower", "faster", "no difference", "undecided")
CLASSES_US = (0, 5, 10, 20, 50, 100, 1000)


class Key(NamedTuple):
    """What two rows have in common that are compared; other bytes would be other work."""

    experiment: str
    pass_name: str
    problem: str
    kernel: str
    metric: str
    bytes_moved: int


@dataclass(frozen=True)
class Time:
    """A metric of time of one row, with its samples."""

    results: Results
    record: Record
    metric: Metric

    @property
    def kind(self) -> str:
        """kernel_time of kernel_time.2048x8192"""
        return self.metric.name.split(".")[0]

    @cached_property
    def mean(self) -> float:
        """That of the logarithms."""
        return float(np.log(self.metric.samples).mean())

    @cached_property
    def variance(self) -> float | None:
        """That of the mean, as far as one run shows it; None of a single sample."""
        logs = np.log(self.metric.samples)
        return float(logs.var(ddof=1)) / len(logs) if len(logs) > 1 else None

    @property
    def us(self) -> float:
        """The geometric mean."""
        return math.exp(self.mean)


Times = dict[Key, Time]


def times(files: Iterable[Results], kernels: str = "*") -> Times:
    """Every row that may show a time; `kernels` is a pattern as of make bench."""
    found: Times = {}
    for results in files:
        for r in results.records:
            if not (r.is_verified or r.is_ceiling) or not is_chosen(r.kernel, kernels):
                continue
            for metric in r.metrics.values():
                if metric.unit == "us" and metric.samples and min(metric.samples) > 0:
                    row = (r.problem["name"], r.kernel, metric.name, r.bytes_moved)
                    key = Key(results.experiment, results.pass_name, *row)
                    found[key] = Time(results, r, metric)
    return found


def is_chosen(kernel: str, pattern: str) -> bool:
    """'shared_lut*|copy'; behind '!', all but those."""
    names = pattern.removeprefix("!").split("|")
    return any(fnmatchcase(kernel, name) for name in names) != pattern.startswith("!")


class SpreadClass(NamedTuple):
    """Rows that take at least so long."""

    from_us: float
    percent: float  # standard deviation between runs
    rows: int  # that it was estimated from


def in_class(classes: Sequence[SpreadClass], us: float) -> SpreadClass:
    """In place of a class that was not recorded, the next shorter times, which differ more."""
    return classes[max(0, bisect([c.from_us for c in classes], us) - 1)]


Spread = dict[str, list[SpreadClass]]  # by kind of time, the shortest first


def recorded_spread() -> Spread:
    found = read_json(RUN_TO_RUN)["spread"]
    return {kind: [SpreadClass(**c) for c in classes] for kind, classes in found.items()}


def spread_of(runs: Sequence[Times]) -> Spread:
    """What the means of one row differ by between runs, beyond what samples within them do."""
    found: dict[tuple[str, float], list[tuple[float, int]]] = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        rows = [run[key] for run in runs if key in run and run[key].variance is not None]
        if len(rows) < 2 or differing((row.results.file, row.record) for row in rows):
            continue
        within = np.mean([row.variance for row in rows])
        between = np.var([row.mean for row in rows], ddof=1) - within
        us = CLASSES_US[bisect(CLASSES_US, rows[0].us) - 1]
        found.setdefault((rows[0].kind, us), []).append((between, len(rows) - 1))
    spread: Spread = {}
    for (kind, us), seen in sorted(found.items()):
        variance = np.average([v for v, _ in seen], weights=[freedom for _, freedom in seen])
        percent = 100 * math.sqrt(max(0, variance))
        spread.setdefault(kind, []).append(SpreadClass(us, round(percent, 3), len(seen)))
    return spread


class NotComparable(Exception):
    """Both sides have the row, but no interval can be given; the text says why."""


def mean_of(time: Time, spread: Spread) -> LogMean:
    classes = spread.get(time.kind)
    if not classes:
        raise NotComparable(f"no repetitions of {time.kind} are recorded")
    if time.variance is None:
        raise NotComparable("a single sample")
    found = in_class(classes, time.us)
    within = (time.variance, len(time.metric.samples) - 1)
    return LogMean(time.mean, (within, ((found.percent / 100) ** 2, math.inf)))


@dataclass
class Pair:
    """A row of both sides."""

    key: Key
    a: Time
    b: Time
    mean: LogMean | None = None  # of B over A
    missing: str = ""  # why there is none
    verdict: str = UNDECIDED

    @property
    def same_code(self) -> bool | None:
        """None where that is not known, or the code is for two architectures."""
        a, b = self.a.record.code, self.b.record.code
        return None if a is None or b is None or a.target != b.target else a == b

    @property
    def over_copy(self) -> bool:
        """Whether each side's time is over that of its copy."""
        return self.a.results.gpu != self.b.results.gpu


def compare(a: Times, b: Times, spread: Spread, threshold_percent: float) -> list[Pair]:
    """Every row that both sides have, in A's order. Between two GPUs, times are over those of the
    copies, which then are no rows.
    """
    pairs = {key: Pair(key, a[key], b[key]) for key in a if key in b}
    copies = {key[:3]: pairs[key] for key in pairs if key[3:5] == (COPY, KERNEL_TIME)}
    largest = max(copies.values(), key=lambda copy: copy.key.bytes_moved, default=None)
    rows = [pair for pair in pairs.values() if pair.key.kernel != COPY or not pair.over_copy]
    for pair in rows:
        try:
            pair.mean = difference(pair, spread)
            if pair.over_copy:
                copy = copies.get(pair.key[:3], largest)
                pair.mean = pair.mean.over(difference(copy, spread))
        except NotComparable as error:
            pair.mean, pair.missing = None, str(error)
    decide([pair for pair in rows if pair.mean], threshold_percent)
    return rows


def difference(pair: Pair | None, spread: Spread) -> LogMean:
    if pair is None:
        raise NotComparable("no copy was measured on both GPUs")
    return mean_of(pair.b, spread).over(mean_of(pair.a, spread))


def decide(pairs: Sequence[Pair], threshold_percent: float) -> None:
    """Gives each its verdict, by Benjamini and Hochberg's procedure over all of them."""
    margin = math.log1p(threshold_percent / 100)
    chances = [pair.mean.chance(margin) for pair in pairs]
    differs = stats.false_discovery_control(chances) <= FALSE_SHARE if pairs else []
    for pair, is_sure in zip(pairs, differs, strict=True):
        ends = [abs(math.log(end)) for end in pair.mean.ratio.interval]
        if is_sure:
            pair.verdict = SLOWER if pair.mean.value > 0 else FASTER
        elif max(ends) <= margin:
            pair.verdict = SAME
