"""Result files (data/results.schema.json): read, checked, and turned into plain records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from reprolab.counter_table import COUNTERS, known
from reprolab.errors import InputError
from reprolab.families import Family, Kernel, described, kernels
from reprolab.families import parse as families_of
from reprolab.json_files import Schema, stored
from reprolab.printable import printable, shortened
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

SCHEMA = Schema("results.schema.json")
KERNEL_TIME, PRODUCT_TIME = "kernel_time", "product_time"
CLOCKS = ("events", "activity")  # the instruments that time
UNITS = {"latency": "cycles"}  # of what is no counter and no time
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
    process: str  # a number of the process that measured it; '' where that is not known
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
    def contract(self) -> str:
        """The contract of this row; a step of training has a bound although its kernel is exact."""
        if self.deviation:
            return "declared_deviation"
        return "within_bound" if self.bound else "bit_exact"

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

    @property
    def bytes_per_cycle(self) -> float | None:
        """Bytes that all SMs together move in one cycle of the clock during the samples; None if
        either is unknown.
        """
        if self.bandwidth is None or self.sm_mhz is None:
            return None
        return 1e3 * self.bandwidth.value / self.sm_mhz


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
    def name(self) -> str:
        """The file's name, as it may be shown."""
        return printable(self.file.name)

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
        """The element type of the first row: of all rows, if a table uses it."""
        return self.family_of(self.records[0])

    def family_of(self, record: Record) -> Family:
        name = record.problem["family"]
        return self.families.get(name, Family(name))

    @cached_property
    def _kernels(self) -> dict[str, Kernel]:
        return kernels(self.families.values())

    def kernel(self, record: Record) -> Kernel:
        return self._kernels.get(record.kernel, Kernel(record.kernel))

    def find(self, problem: str, kernel: str) -> Record | None:
        return self._by_problem.get(problem, {}).get(kernel)

    def rows_on(self, problem: str) -> list[Record]:
        return list(self._by_problem.get(problem, {}).values())

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

    def runs(self, rows: Sequence[Record] = ()) -> list["Results"]:
        """The runs that measured these rows, or all, each with its own provenance and rows."""
        shown = rows or self.records
        own = [tuple(r for r in shown if r.run == i) for i in range(len(self.origins))]
        runs = zip(self.origins, own, strict=True)
        return [replace(self, provenance=origin, records=r) for origin, r in runs if r]

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
    for where, problem in wrongs(root, families):
        raise SCHEMA.error(file, where, problem)
    checks = tuple(Check(**c | {"keys": tuple(c["keys"])}) for c in root["checks"])
    head = (root["experiment"], root["pass"], root["provenance"])
    gpu = (root["provenance"]["gpu"] or {}).get("name", "")
    records = tuple(read_record(record, gpu) for record in root["records"])
    return Results(file, *head, records, checks, families)


def wrongs(root: dict[str, Any], families: dict[str, Family]) -> Iterator[tuple[str, str]]:
    """Errors that a schema cannot detect: each wrong field, and its fault."""
    started, instrument = (root["provenance"][name] for name in ("started", "instrument"))
    try:
        datetime.strptime(started, "%Y-%m-%dT%H:%M:%SZ")  # decides which of two runs is the newer
    except ValueError:
        yield "provenance.started", f"is not a date: '{started}'"
    keys, places = set(), set()
    for i, record in enumerate(root["records"]):
        where, problem = f"records[{i}]", record["problem"]
        if record["key"] in keys:
            yield f"{where}.key", f"is a duplicate: '{record['key']}'"
        if (place := (problem["name"], record["kernel"])) in places:
            again = f"a second row of '{place[1]}' on '{place[0]}'"
            yield where, f"is {shortened(again, 300)}"
        if record.get("run", 0) >= len(root["provenance"].get("runs", [None])):
            yield f"{where}.run", "is not the index of a run in provenance.runs"
        keys.add(record["key"])
        places.add(place)
        yield from ((f"{where}.metrics", text) for text in wrong_metrics(record, instrument))
        # A bandwidth needs bytes, and every share needs a bandwidth. Compiled code did not run.
        moves = families.get(problem["family"], Family("")).moves
        if moves and "arch" not in problem and not any(record["bytes"].values()):
            wrong = f"are all 0, but a problem of family '{problem['family']}' moves data"
            yield f"{where}.bytes", f"{wrong}: measure it anew"
    for i, check in enumerate(root["checks"]):
        for key in sorted(set(check["keys"]) - keys):
            yield f"checks[{i}].keys", f"names '{key}', which no record has"


def wrong_metrics(record: dict[str, Any], instrument: str) -> Iterator[str]:
    """Metrics that the instrument cannot have measured, or not in that unit, or not for one row."""
    names = [metric["name"] for metric in record["metrics"]]
    for metric in record["metrics"]:
        name, unit = metric["name"], metric["unit"]
        if instrument == "none" or (unit == "us" and instrument not in CLOCKS):
            yield f"names '{name}', which instrument '{instrument}' does not measure"
        counter = known().get(name) if instrument == COUNTERS else None
        wanted = counter.unit if counter else UNITS.get(name, unit)
        if unit != wanted:
            yield f"has '{name}' in '{shortened(unit)}', not in '{wanted}'"
        if names.count(name) > 1:
            yield f"names '{name}' twice"
    counts = sorted({len(m["samples"]) for m in record["metrics"] if m.get("samples")})
    if len(counts) > 1:
        yield f"must all have equally many samples, not {' and '.join(map(str, counts))}"
    kept = record.get("disturbed", {}).get("kept", 0)
    if counts and kept > counts[-1]:
        yield f"have {counts[-1]} samples, fewer than the {kept} of disturbed.kept"


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
        process=value.get("process", ""),
        run=value.get("run", 0),
        gpu=gpu,
    )
