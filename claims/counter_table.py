"""The hardware counters that this project asks for, from data/counters.json."""

from dataclasses import dataclass
from functools import cache

from claims.json_files import ROOT, Schema, read_json

TABLE = ROOT / "data/counters.json"
SCHEMA = Schema("counters.schema.json")
COUNTERS = "counters"  # the instrument


@dataclass(frozen=True)
class Counter:
    """One line of a table; `id` is the metric's name in result files, `metrics` are CUPTI's."""

    id: str
    group: str
    title: str
    unit: str
    meaning: str = ""
    metrics: tuple[str, ...] = ()


@cache
def known() -> dict[str, Counter]:
    """In the order of the file."""
    root = read_json(TABLE)
    SCHEMA.check(TABLE, root)
    found = (Counter(**c | {"metrics": tuple(c["metrics"])}) for c in root["counters"])
    return {counter.id: counter for counter in found}
