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


class SpreadClass(NamedTuple):
    """Rows that take at least `from_us`."""

    from_us: float
    percent: float  # standard deviation between runs, of all kernels together
    rows: int  # that it was estimated from
    kernels: Mapping[str, float] = {}  # of each alone
    worst: Mapping[str, float] = {}  # of each alone, on the problem where it varies most
    common: Mapping[str, float] = {}  # of each alone, what all its problems of a run share

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


def kind_of(metric: str, origin: str) -> str:
    """kernel_time for kernel_time.2048x8192; separate for ceilings, whose times differ more."""
    return "ceiling_" * (origin == "ceiling") + metric.split(".")[0]


def spread_of(runs: Sequence["DataFrame"], kernels: str) -> Budget:
    """The standard deviation of a row's mean between runs, in addition to that within runs. Rows
    are those of the chosen kernels: 'a|b*', or after '!' all but those.
    """
    seen: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for rows in runs:
        for row in rows.to_dict("records"):
            is_named = any(fnmatchcase(row["kernel"], n) for n in kernels.lstrip("!").split("|"))
            if is_named != kernels.startswith("!") and row["n"] > 1:
                place = "experiment", "pass", "problem", "kernel", "metric", "bytes_moved"
                seen.setdefault(tuple(row[name] for name in place), []).append(row)
    variances: dict[str, dict[float, dict[str, list[tuple[float, int]]]]] = {}
    by_run: dict[tuple[str, float, str], list[list[float]]] = {}
    for repeated in seen.values():
        first, means = repeated[0], [log_mean(row["samples"]) for row in repeated]
        if len(means) > 1:
            within = np.mean([mean.parts[0][0] for mean in means])
            between = np.var([mean.value for mean in means], ddof=1) - within
            us = CLASSES_US[bisect(CLASSES_US, means[0].geometric_mean) - 1]
            by_class = variances.setdefault(kind_of(first["metric"], first["origin"]), {})
            of_kernel = by_class.setdefault(us, {}).setdefault(first["kernel"], [])
            of_kernel.append((between, len(means) - 1))
            place = kind_of(first["metric"], first["origin"]), us, first["kernel"]
            by_run.setdefault(place, []).append([mean.value for mean in means])
    return {
        kind: [
            SpreadClass(
                us,
                percent_of([one for many in by_kernel.values() for one in many]),
                sum(map(len, by_kernel.values())),
                {kernel: percent_of(many) for kernel, many in sorted(by_kernel.items())},
                {k: max(percent_of([one]) for one in v) for k, v in sorted(by_kernel.items())},
                {k: common_of(by_run[kind, us, k]) for k in sorted(by_kernel)},
            )
            for us, by_kernel in sorted(classes.items())
        ]
        for kind, classes in sorted(variances.items())
    }


def common_of(problems: Sequence[Sequence[float]]) -> float:
    """The standard deviation in percent of what all problems of a run share: the root of the mean
    covariance of two; of one problem, its own.
    """
    whole = [logs for logs in problems if len(logs) == max(map(len, problems))]
    matrix = np.atleast_2d(np.cov(whole))
    pairs = matrix.size - len(whole)
    covariance = (matrix.sum() - matrix.trace()) / pairs if pairs else matrix[0, 0]
    return round(100 * math.sqrt(max(0, covariance)), 3)


def percent_of(variances: Sequence[tuple[float, int]]) -> float:
    """The standard deviation in percent, of variances with their degrees of freedom."""
    variance = np.average([v for v, _ in variances], weights=[freedom for _, freedom in variances])
    return round(100 * math.sqrt(max(0, variance)), 3)


def main(kernels: str, *places: str) -> None:
    from reprolab.compare import load_side, times

    spread = spread_of([times(load_side(place)) for place in places], kernels)
    as_json = {kind: [c._asdict() for c in classes] for kind, classes in spread.items()}
    about = {"source": "", "runs": list(places), "kernels": kernels, "spread": as_json}
    print(json.dumps(about, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
