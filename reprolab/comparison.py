"""The times of two runs: the ratio of each row and of each kernel, its interval and its verdict.

docs/comparing-runs.md describes the tests and the reasons for them.
"""

import math
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

import numpy as np

from reprolab.code import differing
from reprolab.results import COPY, KERNEL_TIME, WRONG, Metric, Record, Results
from reprolab.run_to_run import Budget, Budgets, Shared, Spread, SpreadClass, budget_for, in_class
from reprolab.stats import FALSE_SHARE, LogMean

THRESHOLD_PERCENT = 1.0
SLOWER, FASTER, SAME, UNDECIDED = VERDICTS = ("slower", "faster", "no difference", "undecided")
CLASSES_US = (0, 5, 10, 20, 50, 100, 1000)


class Key(NamedTuple):
    """Two rows with the same key are compared; a different number of bytes would be different
    work."""

    experiment: str
    pass_name: str
    problem: str
    kernel: str
    metric: str
    bytes_moved: int
    gpu: str = ""  # where a run holds several

    @property
    def place(self) -> "Place":
        return self.experiment, self.pass_name, self.gpu, self.problem, self.kernel


Place = tuple[str, ...]  # of a row, whatever was measured of it


@dataclass(frozen=True)
class Time:
    """A metric of time of one row, with its samples."""

    results: Results
    record: Record
    metric: Metric

    @property
    def kind(self) -> str:
        """kernel_time for kernel_time.2048x8192; separate for ceilings, whose times differ more
        between runs."""
        return "ceiling_" * self.record.is_ceiling + self.metric.name.split(".")[0]

    @cached_property
    def mean(self) -> float:
        """The mean of the logarithms of the samples."""
        return float(np.log(self.metric.samples).mean())

    @cached_property
    def variance(self) -> float | None:
        """The variance of the mean within one run; None for a single sample."""
        logs = np.log(self.metric.samples)
        return float(logs.var(ddof=1)) / len(logs) if len(logs) > 1 else None

    @property
    def us(self) -> float:
        """The geometric mean."""
        return math.exp(self.mean)


Times = dict[Key, Time]
Repetitions = Iterable[tuple[Key, dict[int, Time]]]  # of rows, by the index of the run


def times(files: Iterable[Results], kernels: str = "*", by_gpu: bool = False) -> Times:
    """Every row that may show a time. `kernels`: a pattern as for make bench; `by_gpu`: rows of
    different GPUs have different keys.
    """
    by_key: Times = {}
    for results in files:
        for r in results.records:
            if not (r.is_verified or r.is_ceiling) or not is_chosen(r.kernel, kernels):
                continue
            for metric in r.metrics.values():
                if metric.unit == "us" and metric.samples and min(metric.samples) > 0:
                    row = (r.problem["name"], r.kernel, metric.name, r.bytes_moved)
                    gpu = results.gpu or ""
                    key = Key(results.experiment, results.pass_name, *row, gpu * by_gpu)
                    by_key[key] = Time(results, r, metric)
    return by_key


def wrong_rows(a: Iterable[Results], b: Iterable[Results], by_gpu: bool) -> dict[Place, Record]:
    """B's rows whose output is wrong, and was verified in A."""
    verified = {place for place, row in places(a, by_gpu) if row.is_verified}
    wrong = {place: row for place, row in places(b, by_gpu) if row.outcome in WRONG}
    return {place: row for place, row in wrong.items() if place in verified}


def places(files: Iterable[Results], by_gpu: bool) -> Iterator[tuple[Place, Record]]:
    for results in files:
        head = (results.experiment, results.pass_name, (results.gpu or "") * by_gpu)
        yield from (((*head, row.problem["name"], row.kernel), row) for row in results.records)


def is_chosen(kernel: str, pattern: str) -> bool:
    """'shared_lut*|copy'; after '!', all except those."""
    names = pattern.removeprefix("!").split("|")
    return any(fnmatchcase(kernel, name) for name in names) != pattern.startswith("!")


def repeated(runs: Sequence[Times]) -> Repetitions:
    """Each row that several runs have with the same code."""
    for key in dict.fromkeys(key for run in runs for key in run):
        rows = {i: run[key] for i, run in enumerate(runs) if key in run}
        rows = {i: row for i, row in rows.items() if row.variance is not None}
        places = ((row.results.file, row.record) for row in rows.values())
        if len(rows) > 1 and not differing(places):
            yield key, rows


def spread_of(repetitions: Repetitions) -> Spread:
    """The standard deviation of a row's mean between runs, in addition to that within runs."""
    by_class: dict[tuple[str, float], dict[str, list[tuple[float, int]]]] = {}
    for key, by_run in repetitions:
        rows = list(by_run.values())
        within = np.mean([row.variance for row in rows])
        between = np.var([row.mean for row in rows], ddof=1) - within
        us = CLASSES_US[bisect(CLASSES_US, rows[0].us) - 1]
        by_kernel = by_class.setdefault((rows[0].kind, us), {})
        by_kernel.setdefault(key.kernel, []).append((between, len(rows) - 1))
    spread: Spread = {}
    for (kind, us), by_kernel in sorted(by_class.items()):
        every = [one for seen in by_kernel.values() for one in seen]
        percent = percent_of(every)
        own = {kernel: percent_of(seen) for kernel, seen in sorted(by_kernel.items())}
        spread.setdefault(kind, []).append(SpreadClass(us, percent, len(every), own))
    return spread


def budget_of(runs: Sequence[Times]) -> Budget:
    """By how much these runs, all on one kind of GPU, differ."""
    repetitions = list(repeated(runs))
    spread = spread_of(repetitions)
    return Budget(spread, shared_of(repetitions, spread))


def shared_of(repetitions: Repetitions, spread: Spread) -> Shared:
    """The correlation of a kernel's deviations on two problems, between runs: a run's effect on all
    problems of a kernel also affects their mean.
    """
    groups: dict[tuple[object, ...], list[list[Time]]] = {}
    for key, by_run in repetitions:
        groups.setdefault((kernel_of(key), *by_run), []).append(list(by_run.values()))
    covariances: Counter[str] = Counter()
    products: Counter[str] = Counter()  # of standard deviations
    for rows in groups.values():
        if len(rows) > 1:
            kind, freedom = rows[0][0].kind, len(rows[0]) - 1
            matrix = np.cov([[time.mean for time in row] for row in rows])
            usual = [in_class(spread[kind], r[0].us).of(r[0].record.kernel) / 100 for r in rows]
            deviations = np.array(usual)
            covariances[kind] += freedom * (matrix.sum() - matrix.trace())
            products[kind] += freedom * (deviations.sum() ** 2 - (deviations**2).sum())
    return {
        kind: round(min(1.0, max(0.0, float(covariances[kind] / products[kind]))), 3)
        for kind in sorted(products)
        if products[kind] > 0
    }


def percent_of(variances: Sequence[tuple[float, int]]) -> float:
    """The standard deviation in percent, of variances with their degrees of freedom."""
    variance = np.average([v for v, _ in variances], weights=[freedom for _, freedom in variances])
    return round(100 * math.sqrt(max(0, variance)), 3)


class NotComparable(Exception):
    """Both sides have the row, but no interval can be given; the text has the reason."""


def usual(time: Time, budgets: Budgets) -> float:
    """The standard deviation between runs, for times of this length."""
    budget = budget_for(budgets, time.record.gpu, time.kind)
    if not budget:
        raise NotComparable(f"no repetitions of {time.kind} are recorded")
    return in_class(budget.spread[time.kind], time.us).of(time.record.kernel) / 100


def correlation(time: Time, budgets: Budgets) -> float:
    """Between the deviations of a kernel's times on two problems."""
    budget = budget_for(budgets, time.record.gpu, time.kind)
    return budget.shared.get(time.kind, 1.0) if budget else 1.0


def mean_of(time: Time, budgets: Budgets) -> LogMean:
    between = usual(time, budgets)
    if time.variance is None:
        raise NotComparable("a single sample")
    within = (time.variance, len(time.metric.samples) - 1)
    return LogMean(time.mean, (within, (between**2, math.inf)))


@dataclass
class Pair:
    """A row of both sides."""

    key: Key
    a: Time
    b: Time
    mean: LogMean | None = None  # of B over A
    missing: str = ""  # why there is none
    verdict: str = UNDECIDED
    copy: "Pair | None" = None  # that the row is over

    @property
    def same_code(self) -> bool | None:
        """None if it is unknown, or the code is for two architectures."""
        a, b = self.a.record.code, self.b.record.code
        return None if a is None or b is None or a.target != b.target else a == b

    @property
    def is_one_measurement(self) -> bool:
        """Whether both sides are the same samples of one run, between which nothing differs."""
        a, b = self.a, self.b
        return a.results.provenance == b.results.provenance and a.metric == b.metric

    @property
    def over_copy(self) -> bool:
        """Whether each side's time is over that of its copy."""
        return self.a.results.gpu != self.b.results.gpu

    @property
    def raw(self) -> float:
        """B over A as measured."""
        return self.b.us / self.a.us

    def undecided_why(self, threshold_percent: float) -> str:
        if self.mean is None:
            return self.missing
        low, high = (math.log(end) for end in self.mean.ratio.interval)
        if high - low > 2 * math.log1p(threshold_percent / 100):
            return "runs differ by more than the threshold"
        return "the ratio is near the threshold"


def compare(a: Times, b: Times, budgets: Budgets, threshold_percent: float) -> list[Pair]:
    """Every row that both sides have, in A's order. Between two GPUs, times are divided by those of
    the copies, which are then not rows.
    """
    pairs = {key: Pair(key, a[key], b[key]) for key in a if key in b}
    copies = {key[:3]: pairs[key] for key in pairs if key[3:5] == (COPY, KERNEL_TIME)}
    largest = max(copies.values(), key=lambda copy: copy.key.bytes_moved, default=None)
    rows = [pair for pair in pairs.values() if pair.key.kernel != COPY or not pair.over_copy]
    for pair in rows:
        try:
            pair.mean = difference(pair, budgets)
            if pair.over_copy:
                pair.copy = copies.get(pair.key[:3], largest)
                pair.mean = pair.mean.over(difference(pair.copy, budgets))
        except NotComparable as error:
            pair.mean, pair.missing = None, str(error)
            pair.verdict = SAME if pair.is_one_measurement else UNDECIDED
    decide([pair for pair in rows if pair.mean], threshold_percent)
    return rows


def difference(pair: Pair | None, budgets: Budgets) -> LogMean:
    if pair is None:
        raise NotComparable("no copy was measured on both GPUs")
    return mean_of(pair.b, budgets).over(mean_of(pair.a, budgets))


@dataclass
class Pool:
    """A kernel on all its problems: the weighted mean of their ratios."""

    kernel: tuple[str, ...]  # experiment, pass, GPU, kernel, metric
    pairs: list[Pair]
    mean: LogMean
    verdict: str = UNDECIDED

    @property
    def is_one_measurement(self) -> bool:
        return bool(self.pairs) and all(pair.is_one_measurement for pair in self.pairs)

    @property
    def label(self) -> str:
        *_, kernel, metric = self.kernel
        return kernel + f", {metric}" * (metric != KERNEL_TIME)


def kernel_of(key: Key) -> tuple[str, ...]:
    return key.experiment, key.pass_name, key.gpu, key.kernel, key.metric


def pools(pairs: Sequence[Pair], budgets: Budgets, threshold_percent: float) -> list[Pool]:
    """The rows of each kernel with an interval, pooled: a small difference on many problems is seen
    even if no single row shows it.
    """
    groups: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        if pair.mean:
            groups.setdefault(kernel_of(pair.key), []).append(pair)
    pooled_kernels = [Pool(kernel, of, pooled(of, budgets)) for kernel, of in groups.items()]
    decide(pooled_kernels, threshold_percent)
    return pooled_kernels


def pooled(pairs: Sequence[Pair], budgets: Budgets) -> LogMean:
    """The mean of their ratios, weighted by the inverse of their variances. A row's deviation
    between runs has a part that is common to all rows of a kernel, which averaging does not reduce,
    and an independent part.
    """
    weights = np.array([pair.mean.error**-2 for pair in pairs])
    weights /= weights.sum()
    sides: list[list[tuple[Time, float]]] = [[], [], [], []]
    for pair, weight in zip(pairs, weights, strict=True):
        copy = [pair.copy.a, pair.copy.b] if pair.copy else []
        for side, time in zip(sides, [pair.a, pair.b, *copy], strict=False):
            side.append((time, float(weight)))
    parts = [part for side in sides for part in parts_of(side, budgets)]
    value = sum(w * pair.mean.value for w, pair in zip(weights, pairs, strict=True))
    return LogMean(value, tuple(parts))


def parts_of(
    weighted: Sequence[tuple[Time, float]], budgets: Budgets
) -> Iterator[tuple[float, float]]:
    """Parts of the variance of these times' weighted mean, each with its degrees of freedom."""
    weights: dict[int, float] = {}
    for time, weight in weighted:  # one copy may be that of several rows
        weights[id(time)] = weights.get(id(time), 0.0) + weight
    common = 0.0
    for time in {id(time): time for time, _ in weighted}.values():
        weight = weights[id(time)]
        between, in_common = weight * usual(time, budgets), correlation(time, budgets)
        common += between * math.sqrt(in_common)
        yield weight**2 * time.variance, len(time.metric.samples) - 1
        yield between**2 * (1 - in_common), math.inf
    yield common**2, math.inf


def decide(pairs: Sequence[Pair | Pool], threshold_percent: float) -> None:
    """Decides each verdict by Benjamini and Hochberg's procedure over all of them."""
    margin = math.log1p(threshold_percent / 100)
    chances = [pair.mean.chance(margin) for pair in pairs]
    from scipy import stats  # not above: as in reprolab/stats.py

    differs = stats.false_discovery_control(chances) <= FALSE_SHARE if pairs else []
    for pair, is_sure in zip(pairs, differs, strict=True):
        ends = [abs(math.log(end)) for end in pair.mean.ratio.interval]
        if is_sure:
            pair.verdict = SLOWER if pair.mean.value > 0 else FASTER
        elif max(ends) <= margin or pair.is_one_measurement:
            pair.verdict = SAME
