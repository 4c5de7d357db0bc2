"""Result files: read, checked field by field, and turned into plain records."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from plots.errors import InputError
from plots.nodes import Node, read_json
from plots.stats import Summary, summarize

SCHEMA = "reprolab-results/1"  # of experiments/harness/RESULTS.md

ROLES = ("kernel", "peer", "ceiling")
CONTRACTS = ("bit_exact", "declared_deviation")
OUTCOMES = (
    "bit_exact",
    "deviation_as_declared",
    "mismatch",
    "launch_failed",
    "unsupported",
    "not_verified",
)
VERDICTS = ("reproduced", "not_reproduced", "premise_false", "not_testable")


@dataclass(frozen=True)
class Record:
    """One row: a kernel, a peer's kernel or a ceiling on one problem. Times in microseconds."""

    key: str
    kernel: str
    role: str
    lineage: str
    source_file: str
    deviation: str  # '' where the contract is bit-exact
    problem: dict[str, Any]
    outcome: str
    reason: str
    mismatches: int | None  # elements that differ from the reference, where any is known to
    samples_us: tuple[float, ...]
    product_samples_us: tuple[float, ...]  # () outside a replay
    bytes_moved: int  # read and written, once each
    sm_mhz: float | None  # while the samples ran; None where NVML is not available

    @property
    def timed(self) -> bool:
        """Whether a time may be shown: never for a row that was not verified, bar ceilings."""
        ok = self.outcome in ("bit_exact", "deviation_as_declared") or self.role == "ceiling"
        return ok and bool(self.samples_us)

    @property
    def ranked(self) -> bool:
        """Whether the row takes part in rankings and speed-ups."""
        return self.timed and self.role != "ceiling" and self.outcome == "bit_exact"

    @property
    def times(self) -> Summary:
        """The summary of a row that is known to be timed."""
        assert self.summary is not None, self.key
        return self.summary

    @cached_property
    def summary(self) -> Summary | None:
        """Of the samples in microseconds; None where no time may be shown."""
        return summarize(self.samples_us) if self.timed else None


@dataclass(frozen=True)
class Verdict:
    """What one claim, in one cell of its table, came to. The experiment's driver decided it."""

    claim: str
    source: str
    cell: dict[str, Any]
    text: str
    unit: str
    source_value: float | None
    our_value: float | None
    our_interval: tuple[float, float] | None
    difference_percent: float | None
    tolerance: str
    verdict: str
    reason: str
    decided_by: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """Two readings of the instruments that must agree, and whether they did."""

    name: str
    first: float
    second: float
    unit: str
    difference_percent: float | None  # None where the second reading was 0
    allowed_percent: float
    passed: bool


@dataclass(frozen=True)
class Results:
    """One result file; `provenance` is the checked JSON object as it stands."""

    file: Path
    experiment: str
    pass_name: str
    provenance: dict[str, Any]
    records: tuple[Record, ...]
    verdicts: tuple[Verdict, ...]
    checks: tuple[Check, ...]
    _by_name: dict[tuple[str, str], Record] = field(default_factory=dict)

    def find(self, problem: str, kernel: str) -> Record | None:
        return self._by_name.get((problem, kernel))

    def problems(self) -> list[dict[str, Any]]:
        """Distinct problems in the order of the file."""
        return list({r.problem["name"]: r.problem for r in self.records}.values())


def load(file: Path, experiment: str | None = None, pass_name: str | None = None) -> Results:
    """Read and check a result file, of the given experiment and pass where they are named."""
    root = read_json(file)
    schema = root.take("schema", "a string")
    if schema != SCHEMA:
        raise InputError(
            f"{file}: schema is '{schema}', but this reads '{SCHEMA}'; "
            "use the plots/ of the commit that wrote the file"
        )
    for name, wanted in (("experiment", experiment), ("pass", pass_name)):
        found = root.take(name, "a string")
        if wanted is not None and found != wanted:
            raise InputError(f"{file}: {name} is '{found}', but '{wanted}' is needed here")
    provenance = root.child("provenance")
    check_provenance(provenance)
    records = tuple(read_record(node) for node in root.children("records"))
    if not records:
        raise root.fail("records", "is empty: nothing was measured")
    by_name: dict[tuple[str, str], Record] = {}
    keys: set[str] = set()
    for i, record in enumerate(records):
        place = (record.problem["name"], record.kernel)
        if record.key in keys or place in by_name:
            raise root.fail(f"records[{i}].key", f"comes a second time: '{record.key}'")
        keys.add(record.key)
        by_name[place] = record
    verdicts = tuple(read_verdict(node, keys) for node in root.children("verdicts"))
    # Files of programs that check no instruments may leave the list out.
    checks = tuple(read_check(c) for c in root.children("checks")) if "checks" in root.value else ()
    return Results(
        file,
        root.value["experiment"],
        root.value["pass"],
        provenance.value,
        records,
        verdicts,
        checks,
        by_name,
    )


def is_recorded(file: Path) -> bool:
    """Whether the file lies under data/recorded/: then it is of another machine, or another day."""
    folders = file.resolve().parent.parts
    return ("data", "recorded") in pairwise(folders)


def check_provenance(node: Node) -> None:
    for name in ("started", "commit", "instrument"):
        node.take(name, "a string")
    node.take("runtime_s", "a number")
    node.take("argv", "a list")
    node.take("dirty", "true or false")
    build, gpu, clocks = node.child("build"), node.child("gpu"), node.child("clocks")
    for name in ("compiler", "nvcc"):
        build.take(name, "a string")
    for name in ("name", "cuda_runtime"):
        gpu.take(name, "a string")
    gpu.take("driver", "a string", null=True)
    gpu.take("theoretical_bandwidth_gb_s", "a number", null=True)
    clocks.one_of("policy", ("observed", "locked"))
    clocks.take("locked_mhz", "a number", null=clocks.value["policy"] == "observed")
    clocks.take("throttle_reasons", "a list", null=True)
    for name in ("sm_mhz", "memory_mhz"):
        span = clocks.child(name, null=True)
        for bound in span.value and ("min", "median", "max"):
            span.take(bound, "a number", null=True)


def read_record(node: Node) -> Record:
    contract, problem = node.child("contract"), node.child("problem")
    deviates = contract.one_of("kind", CONTRACTS) == "declared_deviation"
    problem.take("name", "a string")
    moved, clocks = node.child("bytes"), node.child("clocks", null=True)
    samples = node.samples("samples_us")
    products = node.samples("product_samples_us") if "product_samples_us" in node.value else ()
    if products and len(products) != len(samples):
        raise node.fail(
            "product_samples_us", f"has {len(products)} samples, samples_us has {len(samples)}"
        )
    return Record(
        key=node.take("key", "a string"),
        kernel=node.take("kernel", "a string"),
        role=node.one_of("role", ROLES),
        lineage=node.take("lineage", "a string"),
        source_file=node.take("source_file", "a string"),
        deviation=contract.take("deviation", "a string") if deviates else "",
        problem=problem.value,
        outcome=node.one_of("outcome", OUTCOMES),
        reason=node.take("reason", "a string", null=True) or "",
        # Left out of the files of commits that did not count them.
        mismatches=node.take("mismatches", "an integer", null=True)
        if "mismatches" in node.value
        else None,
        samples_us=samples,
        product_samples_us=products,
        bytes_moved=moved.take("read", "an integer") + moved.take("written", "an integer"),
        sm_mhz=clocks.take("sm_mhz_during", "a number", null=True) if clocks.value else None,
    )


def read_verdict(node: Node, keys: set[str]) -> Verdict:
    interval = node.take("our_interval", "a list", null=True)
    if interval is not None and (
        len(interval) != 2 or not all(isinstance(v, (int, float)) for v in interval)
    ):
        raise node.fail("our_interval", "must be two numbers or null")
    decided_by = tuple(node.take("decided_by", "a list"))
    for key in decided_by:
        if key not in keys:
            raise node.fail("decided_by", f"names '{key}', which no record has as its key")
    return Verdict(
        claim=node.take("claim", "a string"),
        source=node.take("source", "a string"),
        cell=node.child("cell", null=True).value,
        text=node.take("text", "a string"),
        unit=node.take("unit", "a string"),
        source_value=node.take("source_value", "a number", null=True),
        our_value=node.take("our_value", "a number", null=True),
        our_interval=tuple(interval) if interval else None,
        difference_percent=node.take("difference_percent", "a number", null=True),
        tolerance=node.take("tolerance", "a string"),
        verdict=node.one_of("verdict", VERDICTS),
        reason=node.take("reason", "a string"),
        decided_by=decided_by,
    )


def read_check(node: Node) -> Check:
    return Check(
        node.take("name", "a string"),
        node.take("first", "a number"),
        node.take("second", "a number"),
        node.take("unit", "a string"),
        node.take("difference_percent", "a number", null=True),
        node.take("allowed_percent", "a number"),
        node.take("passed", "true or false"),
    )
