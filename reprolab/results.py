"""Result files (data/results.schema.json): each as `Results`, and many as one pandas frame, whose
columns docs/pandas.md names.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reprolab.code import is_older
from reprolab.errors import InputError
from reprolab.families import Family, described
from reprolab.families import parse as families_of
from reprolab.json_files import Schema, read_json, stored
from reprolab.stats import (
    Estimate,
    LogMean,
    Summary,
    difference_percent,
    gb_per_s,
    is_within,
    log_mean,
    summarize,
)

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = Schema("results.schema.json")
KERNEL_TIME, PRODUCT_TIME = "kernel_time", "product_time"
# Named by harness/errors.hpp, with which a C++ test compares the schema.
OUTCOMES = SCHEMA.definition["definitions"]["record"]["properties"]["outcome"]["enum"]
Outcome = StrEnum("Outcome", [name.upper() for name in OUTCOMES])
RIGHT = (Outcome.BIT_EXACT, Outcome.WITHIN_BOUND)
VERIFIED = (*RIGHT, Outcome.DEVIATION_AS_DECLARED)
WRONG = (Outcome.MISMATCH, Outcome.LAUNCH_FAILED)
TIMES = ("us", "cycles")  # units, whose ratios are of geometric means
CEILING = "ceiling"  # an origin
WARP = 32  # threads
NO_WAIT = ("stall_selected", "stall_not_selected")  # stalls of warps that could have issued
COPY = "copy"  # the ceiling's name: cudaMemcpy, device to device
SUMMARY = (*(field.name for field in fields(Summary)), "low", "high")
OF_METRIC = ("metric", "unit", "missing", "samples", *SUMMARY, "geometric_mean", "gb_per_s")


class Row(SimpleNamespace):
    """One metric of one kernel, or ceiling, on one problem. Its fields are the frame's columns
    (docs/pandas.md), but `problem` and `code` are as in the file, and `metrics` has the rows of the
    same kernel and problem by metric. Without any there is one row, whose metric is None.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__  # `metrics` has the row itself

    @property
    def place(self) -> str:
        return f"{self.kernel} on {self.problem['name']}"

    @property
    def is_verified(self) -> bool:
        """Whether the output is right, or wrong exactly as declared."""
        return self.outcome in VERIFIED

    @property
    def deviates(self) -> bool:
        """Whether this output deviates; the same kernel may be exact on other problems."""
        return self.outcome == Outcome.DEVIATION_AS_DECLARED

    @property
    def estimate(self) -> Estimate:
        """The median with its interval."""
        return Estimate(self.median, self.low, self.high)

    @property
    def bandwidth(self) -> Estimate:
        """In GB/s, of times in us."""
        return gb_per_s(self.bytes_moved, self.estimate)

    @property
    def log(self) -> LogMean:
        """The mean logarithm of the samples; there must be samples."""
        return log_mean(self.samples)

    def columns(self) -> dict[str, Any]:
        """As the frame has them, for all metrics of the kernel and problem."""
        own = {k: v for k, v in vars(self).items() if k not in OF_METRIC and k != "metrics"}
        of_problem = {f"problem_{k}": v for k, v in self.problem.items() if k != "name"}
        code = digest(self.code) if self.code else None
        named = {"problem": self.problem["name"], "code": code, "reason": self.reason or None}
        return own | named | of_problem


@dataclass(frozen=True)
class Check:
    """Two readings of the instruments that must agree, and the rows that depend on it."""

    name: str
    keys: tuple[str, ...]
    first: float
    second: float
    unit: str
    allowed_percent: float

    @property
    def difference_percent(self) -> float:
        return difference_percent(self.first, self.second)

    @property
    def passed(self) -> bool:
        return is_within(self.first, self.second, self.allowed_percent)


@dataclass(frozen=True)
class Results:
    """One result file; `provenance` is the unchanged, validated JSON object."""

    file: Path
    experiment: str
    pass_name: str
    provenance: dict[str, Any]
    records: tuple[Row, ...]  # the first metric of each kernel on each problem
    checks: tuple[Check, ...]
    families: dict[str, Family]  # of this checkout, and of the file

    @property
    def gpu(self) -> str | None:
        """None if nothing ran: facts of compiled code, which are independent of the machine."""
        return self.provenance["gpu"] and self.provenance["gpu"]["name"]

    @property
    def peak_gb_s(self) -> float | None:
        """The GPU's theoretical bandwidth; None if the driver does not provide it."""
        return self.provenance["gpu"]["theoretical_bandwidth_gb_s"]

    @property
    def rows(self) -> list[Row]:
        return [row for first in self.records for row in first.metrics.values() or (first,)]

    @cached_property
    def by_kernel(self) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {}
        for record in self.records:
            rows.setdefault(record.kernel, []).append(record)
        return rows

    @property
    def family(self) -> Family:
        """The first row's: of all rows, if it is asked for."""
        return self.families[self.records[0].problem["family"]]

    def problems(self) -> list[dict[str, Any]]:
        """Distinct problems in the order of the file, with all facts in their rows."""
        by_name: dict[str, dict[str, Any]] = {}
        for record in self.records:
            by_name.setdefault(record.problem["name"], {}).update(record.problem)
        return list(by_name.values())

    @cached_property
    def failed_checks(self) -> dict[str, list[Check]]:
        """Failed checks, by the key of each row that depends on them."""
        by_row: dict[str, list[Check]] = {}
        for check in self.checks:
            for key in () if check.passed else check.keys:
                by_row.setdefault(key, []).append(check)
        return by_row


def load(file: Path | str, experiment: str | None = None, pass_name: str | None = None) -> Results:
    """Reads and checks a result file, of the given experiment and pass if they are given."""
    file = stored(Path(file))
    root = SCHEMA.read(file)
    for name, wanted in (("experiment", experiment), ("pass", pass_name)):
        if wanted is not None and root[name] != wanted:
            raise InputError(f"{file}: {name} is '{root[name]}', but '{wanted}' is needed here")
    return parse(file, root)


def origins_of(provenance: dict[str, Any]) -> list[dict[str, Any]]:
    """The provenance of each run, by the index in its rows: several in a file that was merged from
    runs of several commits.
    """
    return provenance.get("runs") or [provenance]


def parse(file: Path, root: dict[str, Any]) -> Results:
    """The records of a valid file."""
    families = described() | families_of(file, root.get("families", []))
    checks = tuple(Check(**c | {"keys": tuple(c["keys"])}) for c in root["checks"])
    head = (root["experiment"], root["pass"], root["provenance"])
    origins, gpu = origins_of(root["provenance"]), root["provenance"]["gpu"]
    of_file = {
        "gpu": gpu and gpu["name"],
        "recorded": recorded_folder(file) is not None,
        "experiment": root["experiment"],
        "pass": root["pass"],
        "file": os.path.relpath(file.resolve()),  # as seen from the working folder
    }
    records: dict[str, Row] = {}
    for i, record in enumerate(root["records"]):
        key, run = record["key"], record.get("run", 0)
        if key in records or run >= len(origins):
            fault = "key is that of another row" if key in records else "run is not in provenance"
            raise InputError(f"{file}: records[{i}].{fault} (see {SCHEMA.name})")
        records[key] = first_row(record, of_file, origins[run])
    return Results(file, *head, tuple(records.values()), checks, families)


def first_row(record: dict[str, Any], of_file: dict[str, Any], run: dict[str, Any]) -> Row:
    """Of the record's first metric; its `metrics` has all."""
    gpu, origin, outcome = run["gpu"] or {}, record["origin"], record["outcome"]
    is_ceiling = origin["kind"] == CEILING
    is_shown = outcome in VERIFIED or is_ceiling
    timed = [m for m in record["metrics"] if m["name"] == KERNEL_TIME and "samples" in m]
    same = "key kernel lineage source_file deviation problem mismatches reason".split()
    metrics: dict[str, Row] = {}
    code = record.get("code")
    of_record = {name: record[name] for name in same} | {
        "origin": origin["kind"],
        "maker": origin["maker"],  # of the code, where it is not this project
        "bound": record.get("bound"),
        "outcome": outcome,
        "ranked": bool(timed) and not is_ceiling and outcome in RIGHT,
        "older_code": is_older(code),
        "code": code,
        "findings": record.get("findings", {}),
        "launch": tuple(record["launch"]["kernels"]) if record["launch"] else (),
        "bytes_read": record["bytes"]["read"],
        "bytes_moved": record["bytes"]["read"] + record["bytes"]["written"],
        "sm_mhz": record["clocks"]["sm_mhz_during"],
        "disturbed": record.get("disturbed", {}).get("kept", 0),
        "run": record.get("run", 0),
        "started": run["started"],
        "commit": run["commit"],
        "driver": gpu.get("driver"),
        "multiprocessors": gpu.get("multiprocessors"),
        "peak_gb_s": gpu.get("theoretical_bandwidth_gb_s"),
        "metrics": metrics,
    }
    for metric in record["metrics"] or [{}]:
        samples = tuple(metric.get("samples", ()))
        row = Row(**of_file, **of_record, **summary_of(samples))
        row.metric, row.unit = metric.get("name"), metric.get("unit")
        row.missing = metric.get("missing") or None
        row.gb_per_s, is_time = None, samples and row.unit in TIMES
        row.geometric_mean = row.log.geometric_mean if is_time else None
        if metric in timed and is_shown and row.bytes_moved:
            row.gb_per_s = row.bandwidth.value
        if metric:
            metrics[row.metric] = row
    return next(iter(metrics.values()), row)


def summary_of(samples: tuple[float, ...]) -> dict[str, Any]:
    """Columns; None without samples."""
    summary = summarize(samples) if samples else None
    return {name: getattr(summary, name, None) for name in SUMMARY} | {"samples": samples or None}


def age(results: Results) -> tuple[str, str]:
    """A key for sorting, oldest first; the name orders two files of the same second."""
    return results.provenance["started"], str(results.file)


def recorded_folder(file: Path) -> Path | None:
    """data/recorded/<gpu>/ if the file is below it: it is of another machine, or day."""
    folders = reversed(file.resolve().parents)
    return next((f for f in folders if f.parts[-3:-1] == ("data", "recorded")), None)


def result_files(folder: Path) -> Iterator[Results]:
    """Every result file below `folder`, or that file. Skips JSON without records, and folders named
    `parts`, whose files are merged into one next to the folder when a pass is complete.
    """
    try:
        is_file, is_dir = folder.is_file(), folder.is_dir()
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    if is_file:
        yield load(folder)
        return
    if not is_dir:
        raise InputError(f"{folder}: is not a folder of result files")
    for file in sorted(json_files(folder)):
        if results := result_file(file):
            yield results


def result_file(file: Path) -> Results | None:
    """None for JSON without records."""
    root = read_json(file)
    if not isinstance(root, dict):
        return None
    if "records" not in root and not str(root.get("schema", "")).startswith("reprolab-results/"):
        return None
    SCHEMA.check(file, root)
    return parse(file, root)


def json_files(folder: Path) -> Iterator[Path]:
    """Files below the folder, following links; InputError if a folder cannot be read."""

    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}")

    for place, below, files in os.walk(folder, followlinks=True, onerror=fail):
        below[:] = [name for name in below if name != "parts"]
        yield from (Path(place, name) for name in files if name.endswith((".json", ".json.xz")))


def read(places: Iterable[Path]) -> "DataFrame":
    """A row for each metric of each row of the result files, or of those below folders."""
    return frame_of(results for place in places for results in result_files(Path(place)))


def digest(code: dict[str, Any]) -> str:
    """The same for two rows that ran the same machine code."""
    files = repr(sorted(code["sha256"].items())).encode()
    return f"{code['target']}:{hashlib.sha256(files).hexdigest()[:12]}"


def frame_of(files: Iterable[Results]) -> "DataFrame":
    rows, first, at = [row for results in files for row in results.rows], [], []
    for row in rows:
        if not at or row.metrics is not first[-1].metrics:
            first.append(row)
        at.append(len(first) - 1)
    of_record = frame([row.columns() for row in first]).take(at).reset_index(drop=True)
    own = [{name: getattr(row, name) for name in OF_METRIC} | {"row": row} for row in rows]
    return of_record.join(frame(own))


def frame(rows: list[dict[str, Any]]) -> "DataFrame":
    """Integers and flags keep their type if some rows have none."""
    import pandas  # here alone: it takes half a second

    columns, whole = {}, {int: "Int64", bool: "boolean"}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        types = {*map(type, values)} - {type(None)}
        dtype = whole.get(types.pop()) if len(types) == 1 else None
        columns[name] = pandas.Series(values, dtype=dtype)
    data = pandas.DataFrame(columns)
    if "started" in data:
        data["started"] = pandas.to_datetime(data["started"])
    return data
