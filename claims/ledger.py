"""Every claim of every source, with a verdict in each of its cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from claims import code, rules
from claims.evidence import Evidence, NotTestable, NotTested
from claims.published import Cell, Claim, Source, command_of
from claims.rules import Case, Finding, bind, unfit_is_input
from claims.stats import difference_percent


@dataclass(frozen=True)
class Verdict:
    """What one cell of a claim came to, and the rows that show it."""

    cell: Cell
    verdict: str
    reason: str
    ours: float | None = None
    interval: tuple[float, float] | None = None
    evidence: tuple[tuple[Path, str], ...] = ()  # result file and the record's key
    awaits: str = ""  # the experiment that would measure what is missing
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
    criterion: str  # when a cell is reproduced; '' where no rule decides yet
    verdicts: tuple[Verdict, ...]

    @property
    def verdict(self) -> str:
        """The first of rules.VERDICTS that a cell has. Where several of our models stand for one
        of the source's, one is enough: the others do not leave the claim undecided.
        """
        tested = [v for v in self.verdicts if v.verdict != rules.NOT_TESTED]
        reached = {v.cell.as_published for v in tested}
        found = {
            v.verdict for v in self.verdicts if v in tested or v.cell.as_published not in reached
        }
        return next(verdict for verdict in rules.VERDICTS if verdict in found)

    @property
    def command(self) -> str:
        """What measures it; where something is not measured yet, the first of that."""
        awaited = (v.awaits for v in self.verdicts if v.awaits)
        return command_of(next(awaited, self.claim.experiment))


def decide(
    evidence: Evidence, sources: Sequence[Source], experiment: str | None = None
) -> list[Decision]:
    """All claims, or those that one experiment decides, in the order of the sources."""
    return [
        decide_claim(evidence, source, claim)
        for source in sources
        for claim in source.claims
        if experiment in (None, claim.experiment)
    ]


def decide_claim(evidence: Evidence, source: Source, claim: Claim) -> Decision:
    cells = [c for cell in claim.cells for c in cells_of(Case(source, claim, cell, evidence))]
    verdicts = tuple(decide_cell(evidence, source, claim, cell) for cell in cells)
    if claim.rule is None:
        return Decision(source, claim, "", verdicts)
    rule, arguments = bind(source, claim, claim.cells[0])
    with unfit_is_input(source, claim):
        criterion = rule.criterion.format(**arguments)
    return Decision(source, claim, criterion, verdicts)


def cells_of(case: Case) -> list[Cell]:
    """The claim's own cell, or those that its rule makes of it for this run."""
    if case.claim.rule is None:
        return [case.cell]
    rule, _ = bind(case.source, case.claim, case.cell)
    try:
        with unfit_is_input(case.source, case.claim):
            return rule.split(case) if rule.split else [case.cell]
    except NotTested:  # the rule itself says what is missing
        return [case.cell]


def decide_cell(evidence: Evidence, source: Source, claim: Claim, cell: Cell) -> Verdict:
    if claim.rule is None:
        return Verdict(cell, rules.NOT_TESTED, f"needs {claim.needs}")
    rule, arguments = bind(source, claim, cell)
    case = Case(source, claim, cell, evidence)
    try:
        with unfit_is_input(source, claim):
            found = rule.decide(case, **arguments)
    except NotTested as nothing:
        awaits = nothing.experiment or claim.experiment
        return Verdict(cell, rules.NOT_TESTED, str(nothing), awaits=awaits)
    except NotTestable as why:
        found = Finding(rules.NOT_TESTABLE, str(why))
    rows = evidence.rows(case.used)
    if why_not := code.differing(rows):
        found = Finding(rules.NOT_TESTABLE, why_not)
    return Verdict(
        *(cell, found.verdict, found.reason, found.ours, found.interval, tuple(case.used)),
        of_unknown_code=code.unknown(rows),
    )
