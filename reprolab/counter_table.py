"""The hardware counters that this project reads, from data/counters.json."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from reprolab.json_files import ROOT, read_json

TABLE = ROOT / "data/counters.json"
COUNTERS = "counters"  # the instrument
NO_WAIT = ("stall_selected", "stall_not_selected")  # of its stalls: warps that could have issued
WARP = 32  # threads


@dataclass(frozen=True)
class Counter:
    """One line of a table; `id` is the metric's name in result files, `metrics` are CUPTI's."""

    id: str
    group: str
    title: str
    unit: str
    meaning: str = ""
    metrics: tuple[str, ...] = ()  # of which the first that the chip has is read
    # Its place on ncu's page, or none; min_arch, max_arch: the capabilities (80) that have it.
    ncu: dict[str, Any] = field(default_factory=dict)


@cache
def known() -> dict[str, Counter]:
    """In the order of the file."""
    counters = read_json(TABLE)["counters"]
    return {c["id"]: Counter(**c | {"metrics": tuple(c["metrics"])}) for c in counters}
