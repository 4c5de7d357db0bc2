"""Result files (data/results.schema.json): each as `Results`, and many as one pandas frame, whose
columns docs/pandas.md names.
"""

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
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
# Named by harness/outcome.hpp, with which a C++ test compares the schema.
OUTCOMES = SCHEMA.definition["definitions"]["record"]["properties"]["outcome"]["enum"]
Outcome = StrEnum("Outcome", [name.upper() for name in OUTCOMES])
RIGHT = (Outcome.BIT_EXACT, Outcome.WITHIN_BOUND)
VERIFIED = (*RIGHT, Outcome.DEVIATION_AS_DECLARED)
WRONG = (Outcome.MISMATCH, Outcome.LAUNCH_FAILED)
COPY = "copy"  # the ceiling's name: cudaMemcpy, device to device


@dataclass(frozen=True)
class Metric:
    """A measured metric of a row; without samples, `missing` has the reason."""

    name: str
    unit: str
    samples: tuple[float, ...] = ()
    missing: str = ""

    @cached_property
    def summary(self) -> Summary | None:
        return summarize(self.samples) if self.samples else None

    @cached_property
    def log(self) -> LogMean:
        """The mean logarithm of the samples; there must be samples."""
        return log_mean(self.samples)


@dataclass(frozen=True)
class Code:
    """The code of a row's kernel: the digests of its files for one architecture."""

    target: str  # sm_90
    sha256: dict[str, str]


@dataclass(frozen=True)
class Record:
    """One row: one kernel, or ceiling, on one problem."""

    key: str
    kernel: str
    origin: str  # project, peer, compiler or ceiling
    maker: str  # of the code, where it is not this project
    lineage: str
    source_file: str
    deviation: str | None  # declared beforehand; None: none is allowed for
    bound: str | None  # why the output is held to a bound; None: to the reference's bits
    problem: dict[str, Any]
    outcome: str
    reason: str
    mismatches: int | None  # elements that differ from the reference, where any is known to
    metrics: dict[str, Metric]
    launch: tuple[dict[str, Any], ...]  # each distinct launch of a call; empty where none was seen
    bytes_read: int
    bytes_moved: int  # read and written, once each
    sm_mhz: float | None  # while the samples ran; None without NVML
    code: Code | None  # None: not known
    findings: dict[str, int]  # of the kernel's verification, by name
    disturbed: int  # samples that were kept although the host was seen to be slow
    run: int  # the index of its run in a file that was merged from several
    gpu: str  # '' where nothing ran

    def metric(self, name: str) -> Metric | None:
        return self.metrics.get(name)

    @property
    def place(self) -> str:
        return f"{self.kernel} on {self.problem['name']}"

    def summary_of(self, name: str) -> Summary:
        """Summary of a metric that must have samples."""
        summary = self.metrics[name].summary
        assert summary is not None, f"{self.key}: {name}"
        return summary

    @property
    def is_verified(self) -> bool:
        """Whether the output is right, or wrong exactly as declared."""
        return self.outcome in VERIFIED

    @property
    def deviates(self) -> bool:
        """Whether this output deviates; the same kernel may be exact on other problems."""
        return self.outcome == Outcome.DEVIATION_AS_DECLARED

    @property
    def is_warm(self) -> bool:
        """Whether its memory was in the cache, as far as it fits."""
        return bool(self.problem.get("warm"))

    @property
    def is_ceiling(self) -> bool:
        return self.origin == "ceiling"

    def shown(self, name: str) -> Summary | None:
        """Summary of a metric; None if none may be shown, because the row is unverified."""
        metric = self.metric(name) if self.is_verified or self.is_ceiling else None
        return metric.summary if metric else None

    @cached_property
    def summary(self) -> Summary | None:
        """Summary of the times in us."""
        return self.shown(KERNEL_TIME)

    @property
    def times(self) -> Summary:
        """The summary of a row that must be timed."""
        return self.summary_of(KERNEL_TIME)

    @cached_property
    def timed(self) -> bool:
        return self.summary is not None

    @cached_property
    def ranked(self) -> bool:
        """Whether the row takes part in rankings and speed-ups."""
        return self.timed and not self.is_ceiling and self.outcome in RIGHT

    @cached_property
    def bandwidth(self) -> Estimate | None:
        """GB/s; None if no time may be shown, or nothing is moved."""
        return gb_per_s(self.bytes_moved, self.times) if self.timed and self.bytes_moved else None


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
    records: tuple[Record, ...]
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
    def multiprocessors(self) -> int:
        """0 where nothing ran."""
        return (self.provenance["gpu"] or {}).get("multiprocessors", 0)

    @cached_property
    def _by_problem(self) -> dict[str, dict[str, Record]]:
        rows: dict[str, dict[str, Record]] = {}
        for record in self.records:
            rows.setdefault(record.problem["name"], {})[record.kernel] = record
        return rows

    @cached_property
    def by_kernel(self) -> dict[str, list[Record]]:
        rows: dict[str, list[Record]] = {}
        for record in self.records:
            rows.setdefault(record.kernel, []).append(record)
        return rows

    @cached_property
    def _cold(self) -> dict[tuple[str, tuple[Any, ...]], list[Record]]:
        return {}

    def cold_rows(self, kernel: str, at: Mapping[str, Any]) -> list[Record]:
        """The kernel's cold rows on problems with the values of `at`, which claims ask for again
        and again."""
        key = (kernel, tuple(at.items()))
        if key not in self._cold:
            rows = self._cold.get((kernel, ())) or self.by_kernel.get(kernel, ())
            cold = (r for r in rows if not r.is_warm)
            self._cold[key] = [r for r in cold if at.items() <= r.problem.items()]
        return self._cold[key]

    @property
    def family(self) -> Family:
        """The first row's: of all rows, if it is asked for."""
        return self.families[self.records[0].problem["family"]]

    def find(self, problem: str, kernel: str) -> Record | None:
        return self._by_problem.get(problem, {}).get(kernel)

    def problems(self) -> list[dict[str, Any]]:
        """Distinct problems in the order of the file, with all facts in their rows."""
        by_name: dict[str, dict[str, Any]] = {}
        for record in self.records:
            by_name.setdefault(record.problem["name"], {}).update(record.problem)
        return list(by_name.values())

    @property
    def origins(self) -> list[dict[str, Any]]:
        """The provenance of each run, by the index in its rows: several in a file that was merged
        from runs of several commits.
        """
        return self.provenance.get("runs") or [self.provenance]

    @cached_property
    def failed_checks(self) -> dict[str, list[Check]]:
        """Failed checks, by the key of each row that depends on them."""
        by_row: dict[str, list[Check]] = {}
        for check in self.checks:
            for key in () if check.passed else check.keys:
                by_row.setdefault(key, []).append(check)
        return by_row


def load(file: Path, experiment: str | None = None, pass_name: str | None = None) -> Results:
    """Reads and checks a result file, of the given experiment and pass if they are given."""
    file = stored(file)
    root = SCHEMA.read(file)
    for name, wanted in (("experiment", experiment), ("pass", pass_name)):
        if wanted is not None and root[name] != wanted:
            raise InputError(f"{file}: {name} is '{root[name]}', but '{wanted}' is needed here")
    return parse(file, root)


def parse(file: Path, root: dict[str, Any]) -> Results:
    """The records of a valid file."""
    families = described() | families_of(file, root.get("families", []))
    checks = tuple(Check(**c | {"keys": tuple(c["keys"])}) for c in root["checks"])
    head = (root["experiment"], root["pass"], root["provenance"])
    gpu = (root["provenance"]["gpu"] or {}).get("name", "")
    records = tuple(read_record(record, gpu) for record in root["records"])
    return Results(file, *head, records, checks, families)


def read_record(value: dict[str, Any], gpu: str) -> Record:
    metrics = (Metric(**m | {"samples": tuple(m.get("samples", ()))}) for m in value["metrics"])
    same = "key kernel lineage source_file deviation problem outcome reason mismatches".split()
    return Record(
        **{name: value[name] for name in same},
        bound=value.get("bound"),
        origin=value["origin"]["kind"],
        maker=value["origin"]["maker"],
        metrics={metric.name: metric for metric in metrics},
        launch=tuple(value["launch"]["kernels"]) if value["launch"] else (),
        bytes_read=value["bytes"]["read"],
        bytes_moved=value["bytes"]["read"] + value["bytes"]["written"],
        sm_mhz=value["clocks"]["sm_mhz_during"],
        code=Code(**value["code"]) if value.get("code") else None,
        findings=value.get("findings", {}),
        disturbed=value.get("disturbed", {}).get("kept", 0),
        run=value.get("run", 0),
        gpu=gpu,
    )


def age(results: Results) -> tuple[str, str]:
    """A key for sorting, oldest first; the name orders two files of the same second."""
    return results.provenance["started"], str(results.file)


def recorded_folder(file: Path) -> Path | None:
    """data/recorded/<gpu>/ if the file is below it: it is of another machine, or day."""
    folders = reversed(file.resolve().parents)
    return next((f for f in folders if f.parts[-3:-1] == ("data", "recorded")), None)


def result_files(folder: Path, damaged: list[InputError] | None = None) -> Iterator[Results]:
    """Every result file below `folder`, or that file. Skips JSON without records, and folders named
    `parts`, whose files are merged into one next to the folder when a pass is complete. A damaged
    file is an error, which `damaged` collects if it is given.
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
        try:
            results = result_file(file)
        except InputError as error:
            if damaged is None:
                raise
            damaged.append(error)
            continue
        if results:
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

    seen = set()
    for place, below, files in os.walk(folder, followlinks=True, onerror=fail):
        real = os.path.realpath(place)
        below[:] = [name for name in below if name != "parts" and real not in seen]
        yield from (Path(place, name) for name in files if is_json(name) and real not in seen)
        seen.add(real)


def is_json(name: str) -> bool:
    return name.endswith((".json", ".json.xz"))


def by_machine(
    folders: list[Path], damaged: list[InputError] | None = None
) -> list[tuple[tuple[str, str], list[Results]]]:
    """All result files below the folders, by the folder of a recorded run, or '', and the GPU.

    Facts of compiled code go to every GPU of their folder. `damaged`: as of result_files.
    """
    results = [r for folder in folders for r in result_files(folder, damaged)]
    places = [(str(recorded_folder(r.file) or ""), r) for r in results]
    ran = {(place, r.gpu) for place, r in places if r.gpu is not None}
    compiled_alone = {(place, "") for place, _ in places} - {(place, "") for place, _ in ran}
    return [
        ((place, gpu), [r for at, r in places if at == place and r.gpu in (gpu, None)])
        for place, gpu in sorted(ran | compiled_alone)
    ]


Row = dict[str, Any]
AS_THEY_ARE = (  # fields of a record
    *("ranked", "origin", "maker", "lineage", "deviation", "bound", "source_file", "mismatches"),
    *("findings", "launch", "bytes_read", "bytes_moved", "sm_mhz"),
)
ENDS = ("low", "high")  # of a median's interval


def read(places: Iterable[Path]) -> "DataFrame":
    """A row for each metric of each row of the result files, or of those below folders."""
    files = (results for place in places for results in result_files(Path(place)))
    return frame([row for results in files for row in record_rows(results)])


def runs(places: Iterable[Path]) -> "DataFrame":
    """The provenance of each run of the result files: a row for each `file` and `run` of read()."""
    files = [results for place in places for results in result_files(Path(place))]
    return frame([row for results in files for row in run_rows(results)])


def run_rows(results: Results) -> Iterator[Row]:
    """`file`: as in record_rows."""
    for i, origin in enumerate(results.origins):
        gpu, clocks = origin["gpu"] or {}, origin["clocks"] or {}
        yield {
            "file": os.path.relpath(results.file.resolve()),
            "run": i,
            "recorded": recorded_folder(results.file) is not None,
            "experiment": results.experiment,
            "pass": results.pass_name,
            "gpu": gpu.get("name"),
            **{name: gpu.get(name) for name in ("unit", "driver", "cuda_runtime")},
            "multiprocessors": gpu.get("multiprocessors"),
            "peak_gb_s": gpu.get("theoretical_bandwidth_gb_s"),
            **{name: origin[name] for name in ("started", "commit", "dirty", "instrument")},
            "command": shlex.join(origin["argv"]),
            "nvcc": origin["build"].get("nvcc"),
            "clock_policy": clocks.get("policy"),
            "locked_mhz": clocks.get("locked_mhz"),
            "throttle_reasons": clocks.get("throttle_reasons"),
        }


def digest(code: Code) -> str:
    """The same for two rows that ran the same machine code."""
    files = repr(sorted(code.sha256.items())).encode()
    return f"{code.target}:{hashlib.sha256(files).hexdigest()[:12]}"


def record_rows(results: Results) -> Iterator[Row]:
    """`file`: as seen from the working folder."""
    file = os.path.relpath(results.file.resolve())
    gpu, is_recorded = results.gpu, recorded_folder(results.file) is not None
    for record in results.records:
        provenance = results.origins[record.run]
        problem = {f"problem_{name}": v for name, v in record.problem.items() if name != "name"}
        for metric in record.metrics.values() or [None]:  # a wrong output has none
            summary = metric and metric.summary
            is_time = metric and metric.name == KERNEL_TIME
            yield {
                "gpu": gpu,
                "recorded": is_recorded,
                "experiment": results.experiment,
                "pass": results.pass_name,
                "problem": record.problem["name"],
                "kernel": record.kernel,
                "metric": metric and metric.name,
                "unit": metric and metric.unit,
                **{field.name: getattr(summary, field.name, None) for field in fields(Summary)},
                **{end: getattr(summary, end, None) for end in ENDS},
                "samples": metric.samples if summary else None,
                "gb_per_s": record.bandwidth.value if is_time and record.bandwidth else None,
                "missing": (metric and metric.missing) or None,
                "outcome": record.outcome,
                "reason": record.reason or None,
                "older_code": is_older(record),
                "code": digest(record.code) if record.code else None,
                **{name: getattr(record, name) for name in AS_THEY_ARE},
                **{name: provenance[name] for name in ("started", "commit")},
                "driver": gpu and provenance["gpu"]["driver"],
                "multiprocessors": gpu and provenance["gpu"]["multiprocessors"],
                "peak_gb_s": gpu and provenance["gpu"]["theoretical_bandwidth_gb_s"],
                "run": record.run,
                "disturbed": record.disturbed,
                "file": file,
                "key": record.key,
                **problem,
            }


def frame(rows: list[Row]) -> "DataFrame":
    """Integers and flags keep their type if some rows have none."""
    import pandas  # here alone: it takes half a second

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        types = {type(value) for value in values} - {type(None)}
        whole = {int: "Int64", bool: "boolean"}
        dtype = whole.get(types.pop()) if len(types) == 1 else None
        columns[name] = pandas.Series(values, dtype=dtype)
    data = pandas.DataFrame(columns)
    if "started" in data:
        data["started"] = pandas.to_datetime(data["started"])
    return data
