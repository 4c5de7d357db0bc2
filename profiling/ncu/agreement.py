"""Whether ncu and our own counters agree, counter by counter: rows as data/ncu.schema.json has
them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncu.report import Launch, Value, shown
from reprolab import console
from reprolab.captions import machine
from reprolab.counter_table import Counter, known
from reprolab.errors import InputError
from reprolab.json_files import ROOT, Schema
from reprolab.output import write_files
from reprolab.result_file import as_json
from reprolab.results import Record, Results
from reprolab.tables import WORDS, Column, Origin, Table

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
Row = dict[str, Any]


def judge(counter: Counter, ours: Sequence[float], ncu: Value) -> str:
    """One of EQUAL, WITHIN, DIFFERS and NOT_HELD, by RULE."""
    counts = counter.unit in COUNTS and all(name.endswith(".sum") for name in counter.metrics)
    if any(abs(ncu.value - sample) <= ncu.rounding for sample in ours):
        return EQUAL
    if not counts and counter.unit not in RATES_AND_BYTES:
        return NOT_HELD
    if counts and (len(ours) == 1 or len(set(ours)) < len(ours)):
        return DIFFERS
    least = POINTS if counter.unit == "%" else 0.0
    low, high = (
        end + sign * (max(PERCENT / 100 * abs(end), least) + ncu.rounding)
        for sign, end in ((-1, min(ours)), (1, max(ours)))
    )
    return WITHIN if low <= ncu.value <= high else DIFFERS


def compare(record: Record, launches: Sequence[Launch]) -> list[Row]:
    """A row for each counter that both have. InputError if there is nothing to compare."""
    if len(launches) != 1:
        raise InputError(
            f"{record.place}: a call launches {len(launches)} kernels, which ncu counts one by one "
            "and we as a whole"
        )
    rows, missing = [], ""
    for counter in known().values():
        metric, ncu = record.metric(counter.id), launches[0].values.get(counter.id)
        if metric is None or ncu is None:
            continue
        missing = missing or metric.missing
        if ours := metric.samples:
            nearest = min(ours, key=lambda sample: abs(sample - ncu.value))
            row = {"kernel": record.kernel, "problem": record.problem["name"]}
            row |= {"counter": counter.id, "unit": counter.unit, "ours": list(ours)}
            percent = 100 * (ncu.value / nearest - 1) if nearest else None
            row |= {"ncu": ncu.value, "difference_percent": percent}
            rows.append(row | {"verdict": judge(counter, ours, ncu)})
    if all(row["verdict"] == NOT_HELD for row in rows):
        raise InputError(f"{record.place}: {missing or 'ncu counted none of our counters'}")
    return rows


def table(rows: Sequence[Row], provenance: str) -> Table:
    columns = [
        Column("counter", "counter", **WORDS),
        Column("ours", "ours", lambda values: "-".join(dict.fromkeys(map(shown, values)))),
        Column("ncu", "ncu", shown),
        Column("difference", "difference_percent", "{:+.2f} %".format),
        Column("verdict", "verdict", **WORDS),
    ]
    shown_rows = []
    for row in rows:
        title = f"{known()[row['counter']].title} ({row['unit']})"
        ends = (min(row["ours"]), max(row["ours"]))
        place = f"{row['kernel']} on {row['problem']}"
        shown_rows.append(row | {"_under": place, "counter": title, "ours": ends})
    title = "Nsight Compute against our own counters"
    notes = ["Difference: of ncu from our nearest sample.", RULE]
    return Table("ncu", title, columns, shown_rows, notes, [Origin(provenance)])


def origin(ours: Results, version: str) -> str:
    gpu, *_, day, commit = machine(ours)
    return "; ".join([gpu, f"ncu {version}", day, commit])


def content(rows: Sequence[Row], ours: Results, version: str) -> dict[str, Any]:
    kept = ("started", "commit", "dirty", "gpu", "build")
    return {
        "schema": SCHEMA.version,
        "ncu": version,
        "provenance": {key: ours.provenance[key] for key in kept},
        "bounds": {"percent": PERCENT, "points": POINTS, "rule": RULE},
        "rows": list(rows),
    }


def write(folder: Path, shown_table: Table, rows: dict[str, Any]) -> list[Path]:
    """Writes ncu.txt and ncu.json; InputError, and neither file, if the latter violates its
    schema."""
    SCHEMA.check(folder / "ncu.json", rows)
    files = {
        folder / "ncu.txt": console.render(shown_table).encode(),
        folder / "ncu.json": as_json(rows),
    }
    write_files(files)
    return [file.relative_to(ROOT) if file.is_relative_to(ROOT) else file for file in files]
