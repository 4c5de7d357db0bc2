"""By how much times differ from run to run: data/run_to_run.json, which repetitions of one run
give (docs/comparing-runs.md).
"""

from bisect import bisect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reprolab.json_files import ROOT, Schema

RUN_TO_RUN = ROOT / "data/run_to_run.json"
SCHEMA = Schema("run_to_run.schema.json")


class SpreadClass(NamedTuple):
    """Rows that take at least `from_us`."""

    from_us: float
    percent: float  # standard deviation between runs, of all kernels together
    rows: int  # that it was estimated from
    kernels: Mapping[str, float] = {}  # of each alone

    def of(self, kernel: str) -> float:
        """In percent: at least that of all. Another kernel may vary as the worst of them does."""
        return max(self.percent, self.kernels.get(kernel, max(self.kernels.values(), default=0)))


def in_class(classes: Sequence[SpreadClass], us: float) -> SpreadClass:
    """The next shorter class of times, which differ more, replaces a class that was not
    recorded."""
    return classes[max(0, bisect([c.from_us for c in classes], us) - 1)]


Spread = dict[str, list[SpreadClass]]  # by kind of time, the shortest first
Shared = dict[str, float]  # by kind of time, a correlation


class Budget(NamedTuple):
    """By how much times differ from run to run."""

    spread: Spread
    shared: Shared


Budgets = Mapping[str, Budget]  # by GPU; other GPUs take the first that has the kind of time


def recorded(file: Path | None = None) -> dict[str, dict[str, Any]]:
    """By GPU."""
    file = file or RUN_TO_RUN
    gpus = SCHEMA.read(file)["gpus"]
    for gpu, spreads in gpus.items():
        for kind, classes in spreads["spread"].items():
            starts = [c["from_us"] for c in classes]
            if starts != sorted(set(starts)):
                where = f"gpus.{gpu}.spread.{kind}"
                raise SCHEMA.error(file, where, "is not sorted by from_us")
        if unknown := set(spreads["shared"]) - set(spreads["spread"]):
            where = f"gpus.{gpu}.shared.{min(unknown)}"
            raise SCHEMA.error(file, where, "has no spread")
    return gpus


def recorded_budgets() -> Budgets:
    def read(spreads: dict[str, Any]) -> Budget:
        spread = {
            k: [SpreadClass(**c) for c in classes] for k, classes in spreads["spread"].items()
        }
        return Budget(spread, spreads["shared"])

    return {gpu: read(spreads) for gpu, spreads in recorded().items()}


def budget_for(budgets: Budgets, gpu: str, kind: str) -> Budget | None:
    """None where the kind of time was not repeated."""
    own = [budgets[gpu]] if gpu in budgets else []
    return next((b for b in (*own, *budgets.values()) if kind in b.spread), None)
