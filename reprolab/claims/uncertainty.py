"""The uncertainty of a ratio of two times: samples, runs (process and unit), and the host.
docs/verdicts.md has the budget and the coverage of the intervals.
"""

import math
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from reprolab.json_files import ROOT, Schema
from reprolab.results import Record
from reprolab.run_to_run import Budgets, budget_for, in_class, recorded_budgets
from reprolab.stats import SPREAD_PERCENT, Estimate, LogMean

HOST_TO_HOST = ROOT / "data/host_to_host.json"
SCHEMA = Schema("host_to_host.schema.json")
EAGER = "eager"  # generations whose steps the host launches one by one


@cache
def budgets() -> Budgets:
    return recorded_budgets()


def between_runs_percent(gpu: str, kind: str, us: float, kernel: str = "") -> float:
    """Standard deviation; for a kind of time that was not repeated, half of SPREAD_PERCENT."""
    budget = budget_for(budgets(), gpu, kind)
    return in_class(budget[kind], us).of(kernel) if budget else SPREAD_PERCENT / 2


def log_time(row: Record, metric: str) -> LogMean:
    """The mean time of one row, from its samples and the spread between runs."""
    log = row.metrics[metric].log
    kind = metric.partition(".")[0]
    return log.with_part(between_runs_percent(row.gpu, kind, log.geometric_mean, row.kernel))


def ratio(over: Record, under: Record, metric: str) -> Estimate:
    """The ratio of two rows' geometric means; its interval covers another run elsewhere."""
    if not is_of_host(over.problem, metric):
        return log_time(over, metric).over(log_time(under, metric)).ratio
    both = (row.metrics[metric].log for row in (over, under))
    log = next(both).over(next(both))
    host = host_spread(over.summary_of(metric).median)
    return log.with_part(host.gain_percent, host.freedom).ratio


def log_baseline(row: Record, metric: str) -> LogMean:
    """The time of the row that depends least on the host: the baseline's."""
    if not is_of_host(row.problem, metric):
        return log_time(row, metric)
    host = host_spread(row.summary_of(metric).median)
    return row.metrics[metric].log.with_part(host.baseline_percent, host.freedom)


def is_of_host(problem: dict[str, Any], metric: str) -> bool:
    """Eager generations, in which the GPU waits for the host."""
    return metric == "wall_time" and problem.get("way") == EAGER


class HostSpread(NamedTuple):
    """Standard deviations between hosts, including all other differences between two runs."""

    from_us: float  # that the baseline's generation takes
    baseline_percent: float
    gain_percent: float
    freedom: int  # degrees of freedom: of each cell, one less than its hosts


@cache
def host_classes() -> tuple[HostSpread, ...]:
    root, classes = SCHEMA.read(HOST_TO_HOST), []
    edges = [*root["classes_us"], math.inf]
    for low, high in pairwise(edges):
        cells = [cell for cell in root["cells"] if low <= max(cell["baseline_us"]) < high]
        baseline, subject = (
            [np.log(c[name]) for c in cells] for name in ("baseline_us", "subject_us")
        )
        gains = [b - s for b, s in zip(baseline, subject, strict=True)]
        freedom = sum(len(hosts) - 1 for hosts in gains)
        percents = (
            100 * math.sqrt(sum(len(x) * x.var() for x in values) / freedom)
            for values in (baseline, gains)
        )
        classes.append(HostSpread(low, *percents, freedom))
    return tuple(classes)


def host_spread(us: float) -> HostSpread:
    return [spread for spread in host_classes() if spread.from_us <= us][-1]
