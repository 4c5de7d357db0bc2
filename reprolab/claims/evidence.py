"""The result files of one machine, and the rows of them that may decide a cell of a claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from reprolab.claims import uncertainty
from reprolab.claims.published import Cell, Source, describe
from reprolab.json_files import ROOT
from reprolab.results import Results, Row, age, recorded_folder, result_files
from reprolab.stats import Estimate

CODE = "counters/sass"  # facts of compiled code, recorded once: they hold on every machine
THIS_GPU = "this GPU"  # as a cell's architecture


class NotTested(Exception):
    """No row bears on the claim: it can be measured, but was not."""


class NotTestable(Exception):
    """The rows exist, but this GPU or this run cannot decide the claim; the text has the reason."""


@dataclass(frozen=True)
class Evidence:
    """The measurements of one machine: the newest file of each experiment's pass."""

    results: dict[tuple[str, str], Results]  # by experiment and pass
    folder: Path | None = None  # data/recorded/<gpu>; None for a run of this machine

    @property
    def newest(self) -> Results | None:
        """The newest file that ran on the machine."""
        ran = (results for results in self.results.values() if results.gpu is not None)
        return max(ran, key=age, default=None)


@cache
def recorded_beside(folder: Path | None, experiment: str) -> list[Evidence]:
    """The other recorded machines, with this experiment alone: a claim may need two."""
    recorded, found = folder.parent if folder else ROOT / "data/recorded", []
    for place in sorted(recorded.glob(f"*/{experiment}")):
        files = result_files(place) if place.is_dir() and place.parent != folder else ()
        if results := {(r.experiment, r.pass_name): r for r in files}:
            found.append(Evidence(results, place.parent))
    return found


def machines(files: Sequence[Results]) -> list[Evidence]:
    """The evidence of each GPU in the files: this machine's first, then recorded ones. Facts of
    compiled code go to every GPU of their folder.
    """
    places = [(str(recorded_folder(r.file) or ""), r) for r in files]
    ran = {(place, r.gpu) for place, r in places if r.gpu is not None}
    compiled_alone = {(place, "") for place, _ in places} - {(place, "") for place, _ in ran}
    found: list[Evidence] = []
    for place, gpu in sorted(ran | compiled_alone):
        own = [r for at, r in places if at == place and r.gpu in (gpu, None)]
        newest = {(r.experiment, r.pass_name): r for r in sorted(own, key=age)}
        found.append(Evidence(newest, Path(place) if place else None))
    return found


@dataclass(frozen=True)
class Case:
    """A cell on one machine: cold rows of the problems that the source's claims are decided on.
    `used` are the rows that were read, by file and key; a file without a key means its provenance.
    """

    source: Source
    cell: Cell
    evidence: Evidence
    used: dict[tuple[str, str], Row | None] = field(default_factory=dict)
    hosts: list[int] = field(default_factory=list)  # of each eager gain, where those decide

    @property
    def place(self) -> dict[str, Any]:
        """The only place that the cell covers."""
        (at,) = self.cell.places
        return at

    def at(self, *places: dict[str, Any]) -> "Case":
        """The same case for a cell that covers these places."""
        return replace(self, cell=replace(self.cell, places=places))

    def results(self, pass_name: str = "") -> Results:
        """The results of the cell's own pass, of another pass of its experiment, or of
        'counters/nf4'."""
        name = pass_name or self.cell.pass_name
        experiment, name = [self.cell.experiment, *name.split("/")][-2:]
        if found := self.evidence.results.get((experiment, name)):
            return found
        is_code = f"{experiment}/{name}" == CODE
        for other in recorded_beside(self.evidence.folder, experiment) if is_code else ():
            if found := other.results.get((experiment, name)):
                return found
        raise NotTested(f"no results of the pass {experiment}/{name}")

    def find(self, kernel: str, at: Mapping[str, Any], pass_name: str = "") -> Row:
        """The kernel's cold row on the problem with the values of `at`, with any outcome: that of
        its first metric."""
        results = self.results(pass_name)
        rows = [r for r in results.by_kernel.get(kernel, ()) if at.items() <= r.problem.items()]
        rows = [r for r in rows if not r.problem.get("warm")]
        if not rows:
            raise NotTested(f"{kernel} did not run" + (f" on {describe(at)}" if at else ""))
        decided_on: dict[str, Any] = {}
        for name in (results.experiment, f"{results.experiment}/{results.pass_name}"):
            decided_on |= self.source.decided_on.get(name, {})
        wanted = {name: v for name, v in decided_on.items() if name not in at}.items()
        fitting = [r for r in rows if all(meets(r.problem.get(k), v) for k, v in wanted)]
        names = ", ".join(r.problem["name"] for r in rows)
        if not fitting:
            conditions = " and ".join(f"{k} {in_words(v)}" for k, v in wanted)
            raise NotTestable(f"decided on problems with {conditions}; {kernel} ran on {names}")
        if len(fitting) > 1:
            raise NotTestable(f"{kernel} has several rows that could decide it: {names}")
        self.used[fitting[0].file, fitting[0].key] = fitting[0]
        return fitting[0]

    def verified(self, kernel: str, at: Mapping[str, Any], pass_name: str = "") -> Row:
        """As `find`, for a row that may decide something."""
        row = self.find(kernel, at, pass_name)
        require_verified(row)
        return row

    def measured(
        self,
        kernel: str,
        metric: str,
        at: Mapping[str, Any] | None = None,
        pass_name: str = "",
        may_deviate: bool = False,
    ) -> Row:
        """The metric's row, with samples, by default at the cell's only place; its output is
        right, or deviates as declared if that is allowed.
        """
        row = self.verified(kernel, self.place if at is None else at, pass_name)
        if row.deviates and not may_deviate:
            raise NotTestable(f"{row.place}: its output deviates as declared: {row.deviation}")
        return with_samples(self.results(pass_name), row, metric)

    def compiled(self, kernel: str, fact: str) -> Row:
        """The row of a fact of a kernel's code, for the cell's architecture, or else for this
        GPU's, by the newest run.
        """
        arch = self.cell.at.get("arch", THIS_GPU)
        if arch == THIS_GPU:
            newest = self.evidence.newest
            if newest is None:
                raise NotTested("nothing ran on a GPU")
            arch = "sm_" + newest.provenance["gpu"]["compute_capability"].replace(".", "")
        code = self.results(CODE)
        if all((r.kernel, r.problem.get("arch")) != (kernel, arch) for r in code.records):
            raise NotTested(f"{code.file.name} has no {kernel} for {arch}")
        return with_samples(code, self.find(kernel, {"arch": arch}, CODE), f"sass_{fact}")

    def rows(self, kernel: str, metric: str, pass_name: str = "") -> list[Row]:
        """At every place that the cell covers."""
        return [self.measured(kernel, metric, at, pass_name) for at in self.cell.places]

    def medians(self, kernel: str, metric: str, pass_name: str = "") -> list[float]:
        return [row.median for row in self.rows(kernel, metric, pass_name)]

    def ratios(
        self, over: str, under: str, metric: str, least: int = 1, over_pass: str = ""
    ) -> list[Estimate]:
        """The ratios of one kernel's times to another's, at every place, with at least so many
        samples: decisions by intervals need two. `over_pass`: where its rows are of another pass.
        """
        ratios = []
        for at in self.cell.places:
            sides = ((over, over_pass), (under, ""))
            rows = [self.measured(kernel, metric, at, pass_name) for kernel, pass_name in sides]
            if single := [row.kernel for row in rows if row.n < least]:
                raise NotTestable(f"a single sample of {single[0]} has no interval")
            hosts = uncertainty.other_hosts(*rows) if self.evidence.folder else []
            if uncertainty.is_of_host(rows[0]):
                self.hosts.append(len(hosts) + 1)
            ratios.append(uncertainty.log_ratio(*rows, hosts).ratio)
        return ratios


def require_verified(row: Row) -> None:
    """A failed row is our fault, which decides nothing about a source."""
    if not row.is_verified:
        outcome = row.outcome.replace("_", " ")
        raise NotTestable(": ".join(filter(None, (row.place, outcome, row.reason))))


def with_samples(results: Results, row: Row, metric: str) -> Row:
    measured = row.metrics.get(metric)
    if measured is None:
        raise NotTested(f"{row.place}: {metric} was not measured")
    if measured.missing:
        raise NotTestable(f"{row.place}: no {metric}: {measured.missing}")
    if 2 * row.disturbed > len(measured.samples):
        slow = f"the host was slow in {row.disturbed} of {len(measured.samples)} samples"
        raise NotTestable(f"{row.place}: {slow}: measure again while nothing else runs")
    for check in results.failed_checks.get(row.key, ()):
        if check.unit == measured.unit:
            difference = f"{check.difference_percent:+.1f} %"
            raise NotTestable(f"the instruments disagree: {check.name}, {difference}")
    return measured


def meets(value: Any, wanted: Any) -> bool:
    """A condition is a value, or {"at_least": 16384}."""
    if not isinstance(wanted, dict):
        return value == wanted
    return isinstance(value, int) and value >= wanted["at_least"]


def in_words(wanted: Any) -> str:
    return f"at least {wanted['at_least']}" if isinstance(wanted, dict) else str(wanted)
