"""Every claim of every source, with a verdict in each of its cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from claims import rules
from claims.evidence import Evidence, NotTestable, NotTested
from claims.published import Cell, Claim, Comparison, Source, command_of
from claims.rules import Case, Finding, Rule, bind, unfit_is_input
from records import code
from records.stats import difference_percent

# The verdict of a claim with several readings is the first of these that one of them has.
OF_READINGS = (rules.REPRODUCED, rules.UNDECIDED, rules.NOT_TESTED, rules.NOT_TESTABLE)
OF_READINGS += (rules.PREMISE_FALSE, rules.NOT_REPRODUCED)


@dataclass(frozen=True)
class Verdict:
    """What one cell of a claim came to, and the rows that show it."""

    comparison: Comparison
    cell: Cell
    verdict: str
    reason: str
    why: str  # the same in one short sentence
    criterion: str  # when the cell is reproduced
    ours: float | None = None
    interval: tuple[float, float] | None = None
    evidence: tuple[tuple[Path, str], ...] = ()  # result file and the record's key
    awaits: str = ""  # the experiment that would measure what is missing
    elsewhere: bool = False  # of a GPU that this is not
    of_unknown_code: tuple[str, ...] = ()  # kernels with rows of several files

    @property
    def difference_percent(self) -> float | None:
        if self.ours is None or self.cell.value is None:
            return None
        return difference_percent(self.ours, self.cell.value)


@dataclass(frozen=True)
class Decision:
    """One claim with the verdicts on its cells."""

    source: Source
    claim: Claim
    verdicts: tuple[Verdict, ...]

    @property
    def verdict(self) -> str:
        """A source is right if it is right in one sensible reading of what it says."""
        found = {verdict_on(verdicts) for verdicts in self.readings.values()}
        return next(verdict for verdict in OF_READINGS if verdict in found)

    @property
    def readings(self) -> dict[str, list[Verdict]]:
        """By how the claim is read; '' where there is one way alone."""
        by_reading = sorted(self.verdicts, key=lambda v: self.order.index(v.comparison.reading))
        return {r: list(found) for r, found in groupby(by_reading, lambda v: v.comparison.reading)}

    @property
    def order(self) -> list[str]:
        return list(dict.fromkeys(c.reading for c in self.claim.comparisons))

    def of(self, experiment: str) -> list[Verdict]:
        """Those of one experiment."""
        return [v for v in self.verdicts if v.comparison.experiment == experiment]

    @property
    def command(self) -> str:
        """What measures it; where something is not measured yet, the first of that."""
        awaited = (v.awaits for v in self.verdicts if v.awaits)
        return command_of(next(awaited, self.claim.experiments[0]))


def verdict_on(verdicts: Sequence[Verdict]) -> str:
    """The first of rules.VERDICTS that a cell has, of those that this GPU can show, if there are.

    Where several of our models stand for one of the source's, one is enough: the others do not
    leave the claim undecided.
    """
    here = [v for v in verdicts if not v.elsewhere] or list(verdicts)
    tested = [v for v in here if v.verdict != rules.NOT_TESTED]
    reached = {v.cell.as_published for v in tested}
    found = {v.verdict for v in here if v in tested or v.cell.as_published not in reached}
    return next(verdict for verdict in rules.VERDICTS if verdict in found)


def decide(
    evidence: Evidence, sources: Sequence[Source], experiment: str | None = None
) -> list[Decision]:
    """All claims, or those that one experiment bears on, in the order of the sources."""
    return [
        decide_claim(evidence, source, claim)
        for source in sources
        for claim in source.claims
        if experiment is None or experiment in claim.experiments
    ]


def decide_claim(evidence: Evidence, source: Source, claim: Claim) -> Decision:
    cases = (
        Case(source, claim, comparison, cell, evidence)
        for comparison in claim.comparisons
        for cell in comparison.cells
    )
    verdicts = [decide_cell(found) for case in cases for found in split(case)]
    return Decision(source, claim, tuple(verdicts))


def bound(case: Case) -> tuple[Rule, dict]:
    return bind(case.source, case.claim, case.comparison, case.cell)


def split(case: Case) -> list[Case]:
    """The case itself, or those that its rule makes of it for this run."""
    rule, _ = bound(case)
    if not rule.split:
        return [case]
    try:
        with unfit_is_input(case):
            return [replace(case, cell=cell) for cell in rule.split(case)]
    except NotTested:  # the rule itself says what is missing
        return [case]


def decide_cell(case: Case) -> Verdict:
    rule, arguments = bound(case)
    case = replace(case, used={})
    with unfit_is_input(case):
        criterion = rule.words(case.comparison, arguments)
    awaits = ""
    try:
        with unfit_is_input(case):
            found = rule.decide(case, **arguments)
    except NotTested as nothing:
        awaits = nothing.experiment or case.comparison.experiment
        found = Finding(rules.NOT_TESTED, str(nothing))
    except NotTestable as why:
        found = Finding(rules.NOT_TESTABLE, str(why))
    rows = case.evidence.rows(case.used)
    if why_not := code.differing(rows):
        found = Finding(rules.NOT_TESTABLE, why_not)
    elsewhere = is_elsewhere(case)
    if elsewhere and not awaits:
        said = f"a number of the source's {case.cell.gpu}, which only such a GPU can show"
        reason = f"{said}; on this {case.evidence.newest.gpu}: {found.reason}"
        found = replace(found, verdict=rules.NOT_TESTABLE, reason=reason, short=said)
    evidence = () if awaits else tuple(case.used)  # the rows of one half show nothing
    return Verdict(
        *(case.comparison, case.cell, found.verdict, found.reason, found.why, criterion),
        *(found.ours, found.interval, evidence, awaits, elsewhere, code.unknown(rows)),
    )


def is_elsewhere(case: Case) -> bool:
    """Whether the cell is of another GPU than that of the newest run."""
    newest = case.evidence.newest
    return bool(case.cell.gpu) and newest is not None and not is_on(newest.gpu, case.cell.gpu)


def is_on(gpu: str, wanted: str) -> bool:
    """'A100-80GB' is an 'NVIDIA A100-SXM4-80GB', and 'T4' a 'Tesla T4'; a slice of one is not."""
    words = set(gpu.upper().replace("-", " ").split())
    return "MIG" not in words and words >= set(wanted.upper().replace("-", " ").split())
