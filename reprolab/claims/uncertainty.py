"""The uncertainty of a ratio of two times: samples, runs (process and unit), and the host.
docs/verdicts.md has the budget and the coverage of the intervals.
"""

import math
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from reprolab.json_files import ROOT, read_json
from reprolab.results import Row
from reprolab.run_to_run import budget_for, in_class, kind_of, recorded_budgets
from reprolab.stats import FALSE_SHARE, SPREAD_PERCENT, LogMean, log_mean, weighted

HOST_TO_HOST = ROOT / "data/host_to_host.json"
EAGER = "eager"  # generations whose steps the host launches one by one
PAIR = ("branch_tree", "shared_lut")  # the kernels that were measured on several hosts


def between_runs(gpu: str, kind: str, us: float, kernel: str = "") -> tuple[float, float]:
    """Standard deviations in percent, on the problem where the kernel varies most: of all, and of
    what all problems of a run share. For a kind of time that was not repeated, half of
    SPREAD_PERCENT.
    """
    budget = budget_for(recorded_budgets(), gpu, kind)
    if budget is None:
        return SPREAD_PERCENT / 2, SPREAD_PERCENT / 2
    spread = in_class(budget[kind], us)
    return spread.at_worst(kernel)


def log_time(row: Row) -> LogMean:
    """The mean time of one row, from its samples and the spread between runs."""
    log, kind = row.log, kind_of(row.metric, row.origin, row.problem["family"], row.kernel)
    total, common = between_runs(row.gpu, kind, log.geometric_mean, row.kernel)
    return log.with_part(common).with_part(math.sqrt(total**2 - common**2), shared=False)


def log_ratio(over: Row, under: Row, hosts: Sequence[float] = ()) -> LogMean:
    """The ratio of two rows' geometric means; its interval covers another run elsewhere. `hosts`:
    the logarithms of the ratios on other hosts, which enter the mean.
    """
    if not is_of_host(over):
        return log_time(over).over(log_time(under))
    own = over.log.over(under.log)
    host = host_spread(over.problem["weights"])
    n = len(hosts) + 1
    mean = LogMean((own.value + sum(hosts)) / n, weighted([own], [1 / n]).parts)
    return mean.with_part(host.gain_percent / math.sqrt(n), host.freedom)


def log_baseline(row: Row) -> LogMean:
    """The time of the row that depends least on the host: the baseline's."""
    if not is_of_host(row):
        return log_time(row)
    host = host_spread(row.problem["weights"])
    return log_mean(row.samples).with_part(host.baseline_percent, host.freedom)


def is_of_host(row: Row) -> bool:
    """Eager generations, in which the GPU waits for the host."""
    return row.metric == "wall_time" and row.problem.get("way") == EAGER


class HostSpread(NamedTuple):
    """Standard deviations between hosts, including all other differences between two runs.

    All batches of a model on one host are one observation of that host: `freedom` has, for each
    model on each GPU, one less than its hosts.
    """

    baseline_percent: float
    gain_percent: float
    freedom: int


@cache
def host_cells() -> list[dict[str, Any]]:
    return read_json(HOST_TO_HOST)["cells"]


@cache
def host_spread(weights: float) -> HostSpread:
    """The spread for models of about this size: what waits for the host in a step depends on the
    model, and on the batch only by how long."""
    edges = read_json(HOST_TO_HOST)["classes_weights"]
    cells = [c for c in host_cells() if bisect(edges, c["weights"]) == bisect(edges, weights)]
    baseline, subject = ([np.log(c[name]) for c in cells] for name in ("baseline_us", "subject_us"))
    gains = [b - s for b, s in zip(baseline, subject, strict=True)]
    within = sum(len(hosts) - 1 for hosts in gains)
    percents = (
        100 * math.sqrt(sum(len(x) * x.var() for x in values) / within)
        for values in (baseline, gains)
    )
    hosts: dict[tuple[str, str], int] = {}
    for cell in cells:
        of = cell["gpu"], cell["model"]
        hosts[of] = max(hosts.get(of, 0), len(cell["baseline_us"]))
    return HostSpread(*percents, sum(hosts.values()) - len(hosts))


def other_hosts(over: Row, under: Row) -> list[float]:
    """The logarithms of the ratios at this place on the other hosts that the recorded run's cell
    was measured on.
    """
    if not is_of_host(over) or (over.kernel, under.kernel) != PAIR:
        return []
    wanted = {"gpu": over.gpu} | {name: over.problem[name] for name in ("model", "batch")}
    cells = [cell for cell in host_cells() if wanted.items() <= cell.items()]
    own = round(over.median), round(under.median)
    pairs = [p for c in cells for p in zip(c["baseline_us"], c["subject_us"], strict=True)]
    return [math.log(a / b) for a, b in pairs if (a, b) != own]


def hosts_to_decide(log: LogMean, bound: float, cells: int, hosts: int) -> int:
    """About how many hosts the interval needs to leave the bound, if their mean stays."""
    away = max(abs(log.value - math.log(bound)), 1e-9)
    deciding = log.interval(1 - FALSE_SHARE / cells)
    return math.ceil(hosts * (math.log(deciding.high / deciding.value) / away) ** 2)
