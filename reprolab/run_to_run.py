"""By how much times differ from run to run: data/run_to_run.json, which repetitions of one run
give. `python -m reprolab.run_to_run KERNELS RUN RUN...` prints a GPU's part of it.
"""

import json
import math
import sys
from bisect import bisect
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reprolab.json_files import ROOT, read_json
from reprolab.stats import log_mean

if TYPE_CHECKING:
    from pandas import DataFrame

RUN_TO_RUN = ROOT / "data/run_to_run.json"
CLASSES_US = (0, 5, 10, 20, 50, 100, 1000)
PROBLEM = ["experiment", "pass", "problem", "metric", "kind"]  # where kernels stand beside others


class SpreadClass(NamedTuple):
    """Rows that take at least `from_us`."""

    from_us: float
    percent: float  # standard deviation between runs, of all kernels together
    rows: int  # that it was estimated from
    kernels: Mapping[str, float] = {}  # of each alone
    worst: Mapping[str, float] = {}  # of each alone, on the problem where it varies most
    common: Mapping[str, float] = {}  # of each alone, what all its problems of a run share
    beside: Mapping[str, float] = {}  # over the median of all kernels on its problem, as `of`

    def of(self, kernel: str) -> float:
        """In percent: at least that of all. Another kernel may vary as the worst of them does."""
        return max(self.percent, self.kernels.get(kernel, max(self.kernels.values(), default=0)))

    def at_worst(self, kernel: str) -> tuple[float, float]:
        """The same for a problem that was not repeated, on which it may vary as on the worst; and
        the part of it which the mean over problems does not reduce.
        """
        worst = self.worst.get(kernel, max(self.worst.values(), default=0))
        total = max(self.of(kernel), worst)
        common = self.common.get(kernel, max(self.common.values(), default=self.percent))
        return total, min(common, total)


Budget = dict[str, list[SpreadClass]]  # by kind of time, the shortest first
Budgets = Mapping[str, Budget]  # by GPU; other GPUs take the first that has the kind of time


def in_class(classes: Sequence[SpreadClass], us: float) -> SpreadClass:
    """The next shorter class of times, which differ more, replaces a class that was not
    recorded."""
    return classes[max(0, bisect([c.from_us for c in classes], us) - 1)]


def recorded() -> dict[str, dict[str, Any]]:
    """By GPU."""
    return read_json(RUN_TO_RUN)["gpus"]


@cache
def recorded_budgets() -> Budgets:
    return {
        gpu: {k: [SpreadClass(**c) for c in classes] for k, classes in of["spread"].items()}
        for gpu, of in recorded().items()
    }


def budget_for(budgets: Budgets, gpu: str, kind: str) -> Budget | None:
    """None where the kind of time was not repeated."""
    own = [budgets[gpu]] if gpu in budgets else []
    return next((b for b in (*own, *budgets.values()) if kind in b), None)


def kind_of(metric: str, origin: str, family: str, kernel: str) -> str:
    """kernel_time for kernel_time.2048x8192; others for what differs more: ceilings, products by
    cuBLAS, and chases of pointers, each of whose samples is one launch with its start.
    """
    time = metric.split(".")[0]
    if family == "latency":
        return f"latency_{time}"
    if time == "kernel_time" and "cublas" in kernel:
        return "product_time"
    return "ceiling_" * (origin == "ceiling") + time


def spread_of(runs: Sequence["DataFrame"], kernels: str) -> Budget:
    """The standard deviation of a row's mean between runs, in addition to that within runs. Rows
    are those of the chosen kernels: 'a|b*', or after '!' all but those.
    """
    from pandas import concat

    rows = concat([rows.assign(run=run) for run, rows in enumerate(runs)], ignore_index=True)
    patterns = kernels.lstrip("!").split("|")
    is_named = [any(fnmatchcase(kernel, p) for p in patterns) for kernel in rows.kernel]
    rows = rows[(np.array(is_named) != kernels.startswith("!")) & (rows.n > 1)]
    means = [log_mean(samples) for samples in rows.samples]
    rows = rows.assign(value=[m.value for m in means], within=[m.error**2 for m in means])
    rows["kind"] = list(map(kind_of, rows.metric, rows.origin, rows.problem_family, rows.kernel))
    place = rows.groupby([*PROBLEM, "kernel", "bytes_moved"])
    rows["off"] = rows.value - place.value.transform("mean")
    problem = rows.groupby([*PROBLEM, "run"])
    beside = rows.off - problem.off.transform("median")
    rows["beside"] = beside.where(problem.off.transform("size") > 2)  # two against one
    repeated = place.agg(
        us=("value", lambda logs: CLASSES_US[bisect(CLASSES_US, math.exp(logs.iloc[0])) - 1]),
        logs=("value", list),
        total=("value", "var"),
        within=("within", "mean"),
        beside=("beside", "var"),
    ).reset_index(["kind", "kernel"])
    repeated = repeated[repeated.total.notna()]
    repeated[["between", "beside"]] = repeated[["total", "beside"]].sub(repeated.within, axis=0)
    spread: Budget = {}
    for (kind, us), rows in repeated.groupby(["kind", "us"]):
        kernels = dict(list(rows.groupby("kernel")))
        found = SpreadClass(
            us,
            percent_of(rows, "between"),
            len(rows),
            {k: percent_of(own, "between") for k, own in kernels.items()},
            {k: percent(own.between.max()) for k, own in kernels.items()},
            {k: common_of(list(own.logs)) for k, own in kernels.items()},
            {
                k: max(percent_of(of, "beside") for of in (own, rows))
                for k, own in kernels.items()
                if own.beside.any()
            },
        )
        spread.setdefault(kind, []).append(found)
    return spread


def common_of(problems: Sequence[Sequence[float]]) -> float:
    """The standard deviation in percent of what all problems of a run share: the root of the mean
    covariance of two; of one problem, its own.
    """
    whole = [logs for logs in problems if len(logs) == max(map(len, problems))]
    matrix = np.atleast_2d(np.cov(whole))
    pairs = matrix.size - len(whole)
    covariance = (matrix.sum() - matrix.trace()) / pairs if pairs else matrix[0, 0]
    return percent(covariance)


def percent(variance: float) -> float:
    """The standard deviation."""
    return round(100 * math.sqrt(max(0, variance)), 3)


def percent_of(rows: "DataFrame", name: str) -> float:
    """The same of rows, whose variances count by their degrees of freedom."""
    known = rows[rows[name].notna()]
    return percent(np.average(known[name], weights=known.logs.map(len) - 1))


def main(kernels: str, *places: str) -> None:
    from reprolab.compare import load_side, times

    spread = spread_of([times(load_side(place)) for place in places], kernels)
    as_json = {kind: [c._asdict() for c in classes] for kind, classes in spread.items()}
    about = {"source": "", "runs": list(places), "kernels": kernels, "spread": as_json}
    print(json.dumps(about, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
