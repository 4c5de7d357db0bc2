"""Whether ncu and our own counters agree, counter by counter."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu.report import Launch, Value, shown
from plots import console
from plots.tables import WORDS, Column, Origin, Table
from records.counter_table import Counter, known
from records.errors import InputError
from records.json_files import ROOT, Schema
from records.output import write_files
from records.result_file import as_json
from records.results import Record, Results

SCHEMA = Schema("ncu.schema.json")
PERCENT = 1.0  # of our value
POINTS = 0.1  # in which percentages below 10 agree
COUNTS = ("instructions", "branches", "warps", "blocks")
RATES_AND_BYTES = ("%", "bytes", "sectors", "threads")
EQUAL, WITHIN, DIFFERS, NOT_HELD = "equal", "within bounds", "DIFFERS", "not held"
RULE = (
    "Instructions, branches, warps and blocks are equal to a sample of ours: samples rotate over "
    "matrices, and ncu sees one of them. Where no two samples of ours are equal, because a kernel "
    f"waits in a loop, and for rates, sectors and bytes: within {PERCENT:g} % of the range of our "
    f"samples, percentages below 10 within {POINTS:g} points. Stalls, conflicts and cycles differ "
    "from run to run, and are shown alone."
)


@dataclass(frozen=True)
class Comparison:
    counter: Counter
    ours: tuple[float, ...]
    ncu: Value
    verdict: str

    @property
    def nearest(self) -> float:
        """The one of our samples that is nearest to ncu's value."""
        return min(self.ours, key=lambda sample: abs(sample - self.ncu.value))

    @property
    def difference_percent(self) -> float | None:
        """None where ours is 0."""
        return 100 * (self.ncu.value / self.nearest - 1) if self.nearest else None


@dataclass(frozen=True)
class Agreement:
    """What both say of one kernel on one problem."""

    record: Record
    rows: tuple[Comparison, ...]

    @property
    def holds(self) -> bool:
        return not any(row.verdict == DIFFERS for row in self.rows)


def judge(counter: Counter, ours: Sequence[float], ncu: Value) -> str:
    """One of EQUAL, WITHIN, DIFFERS and NOT_HELD; RULE says when."""
    counts = counter.unit in COUNTS and all(name.endswith(".sum") for name in counter.metrics)
    if any(abs(ncu.value - sample) <= ncu.rounding for sample in ours):
        return EQUAL
    if not counts and counter.unit not in RATES_AND_BYTES:
        return NOT_HELD
    if counts and (len(ours) == 1 or len(set(ours)) < len(ours)):
        return DIFFERS
    low, high = min(ours), max(ours)
    least = POINTS if counter.unit == "%" else 0.0
    return (
        WITHIN
        if low - slack(low, least, ncu) <= ncu.value <= high + slack(high, least, ncu)
        else DIFFERS
    )


def slack(sample: float, least: float, ncu: Value) -> float:
    return max(PERCENT / 100 * abs(sample), least) + ncu.rounding


def compare(record: Record, found: Sequence[Launch]) -> Agreement:
    """InputError if there is nothing to compare."""
    if len(found) != 1:
        raise InputError(
            f"{record.place}: a call launches {len(found)} kernels, which ncu counts one by one "
            "and we as a whole"
        )
    rows, missing = [], ""
    for counter in known().values():
        metric, value = record.metric(counter.id), found[0].values.get(counter.id)
        if metric is None or value is None:
            continue
        missing = missing or metric.missing
        if metric.samples:
            ours = metric.samples
            rows.append(Comparison(counter, ours, value, judge(counter, ours, value)))
    if all(row.verdict == NOT_HELD for row in rows):
        raise InputError(f"{record.place}: {missing or 'ncu counted none of our counters'}")
    return Agreement(record, tuple(rows))


def table(found: Sequence[Agreement], provenance: str) -> Table:
    columns = [
        Column("counter", "counter", **WORDS),
        Column("ours", "ours", lambda values: "-".join(dict.fromkeys(map(shown, values)))),
        Column("ncu", "ncu", shown),
        Column("difference", "difference", "{:+.2f} %".format),
        Column("verdict", "verdict", **WORDS),
    ]
    rows = [
        {
            "_under": agreement.record.place,
            "counter": f"{row.counter.title} ({row.counter.unit})",
            "ours": (min(row.ours), max(row.ours)),
            "ncu": row.ncu.value,
            "difference": row.difference_percent,
            "verdict": row.verdict,
        }
        for agreement in found
        for row in agreement.rows
    ]
    title = "Nsight Compute against our own counters"
    notes = ["Difference: of ncu from our nearest sample.", RULE]
    return Table("ncu", title, columns, rows, notes, [Origin(provenance)])


def origin(ours: Results, version: str) -> str:
    where, commit = ours.provenance, ours.provenance["commit"][:9]
    dirty = ", changed" if where["dirty"] else ""
    return (
        f"{ours.gpu}, driver {where['gpu']['driver']}, CUDA {where['gpu']['cuda_runtime']}; ncu "
        f"{version}; {where['started'][:10]}; commit {commit}{dirty}"
    )


def content(found: Sequence[Agreement], ours: Results, version: str) -> dict[str, Any]:
    kept = ("started", "commit", "dirty", "gpu", "build")
    return {
        "schema": SCHEMA.definition["properties"]["schema"]["const"],
        "ncu": version,
        "provenance": {key: ours.provenance[key] for key in kept},
        "bounds": {"percent": PERCENT, "points": POINTS, "rule": RULE},
        "rows": [
            {
                "kernel": agreement.record.kernel,
                "problem": agreement.record.problem["name"],
                "counter": row.counter.id,
                "unit": row.counter.unit,
                "ours": list(row.ours),
                "ncu": row.ncu.value,
                "difference_percent": row.difference_percent,
                "verdict": row.verdict,
            }
            for agreement in found
            for row in agreement.rows
        ],
    }


def write(folder: Path, shown_table: Table, rows: dict[str, Any]) -> list[Path]:
    """ncu.txt and ncu.json; InputError, and neither, where the latter is not as its schema says."""
    SCHEMA.check(folder / "ncu.json", rows)
    files = {
        folder / "ncu.txt": console.render(shown_table).encode(),
        folder / "ncu.json": as_json(rows),
    }
    write_files(files)
    return [file.relative_to(ROOT) if file.is_relative_to(ROOT) else file for file in files]
