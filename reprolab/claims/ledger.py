"""Every claim of every source, with a verdict in each of its cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reprolab import code
from reprolab.claims import rules
from reprolab.claims.evidence import Case, Evidence, NotTestable, NotTested
from reprolab.claims.prediction import Prediction, predict
from reprolab.claims.published import Cell, Claim, Comparison, Source
from reprolab.claims.rules import Finding, Rule
from reprolab.errors import InputError
from reprolab.stats import difference_percent

# Python's errors if a source or a row lacks something that a rule expects.
UNFIT = (ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError)
UNFIT += (ValueError,)


@dataclass(frozen=True, kw_only=True)
class Verdict(Finding):
    """The verdict on one cell of a claim, and the rows that show it."""

    comparison: Comparison
    cell: Cell
    criterion: str = ""  # when the cell is reproduced
    evidence: tuple[tuple[Path, str], ...] = ()  # result file and the record's key
    awaits: str = ""  # the experiment that would measure what is missing
    elsewhere: bool = False  # of a GPU that this is not
    of_older_code: bool = False  # a row is of an older kernel than this checkout's
    of_unknown_code: tuple[str, ...] = ()  # kernels with rows of several files
    predicted: Prediction | None = None  # on the source's GPU

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
        """The verdict of the primary reading."""
        return verdict_on(self.primary)

    @property
    def primary(self) -> list[Verdict]:
        """The cells of the reading that decides the claim."""
        return next(iter(self.readings.values()))

    @property
    def readings(self) -> dict[str, list[Verdict]]:
        """The cells by the name of the reading, the primary one first; '' if there is only one."""
        names = [reading.name for reading in self.claim.readings]
        return {n: [v for v in self.verdicts if v.comparison.reading == n] for n in names}

    @property
    def holds_in_every_reading(self) -> bool:
        """Reproduced in every reading of the source, without our own measurements."""
        readings = (r.name for r in self.claim.readings if not r.own_measurement)
        return {verdict_on(self.readings[name]) for name in readings} == {rules.REPRODUCED}

    @property
    def is_measured(self) -> bool:
        """Whether a row decides it; documents and the source's own numbers decide the others."""
        return any(key for v in self.verdicts for _, key in v.evidence)

    @property
    def is_elsewhere(self) -> bool:
        """Whether only other GPUs can show the numbers of the primary reading."""
        return all(v.elsewhere and not v.awaits for v in self.primary)

    def of(self, experiment: str) -> list[Verdict]:
        """The rows of one experiment."""
        return [v for v in self.verdicts if v.comparison.experiment == experiment]

    @property
    def command(self) -> str:
        """The command that measures it; if something is not measured yet, the first missing
        experiment."""
        awaited = (v.awaits for v in self.verdicts if v.awaits)
        return f"make reproduce-{next(awaited, self.claim.experiments[0])}"


def verdict_on(verdicts: Sequence[Verdict]) -> str:
    """The first of rules.VERDICTS that a cell has; only cells that this GPU can show count, if
    there are any.

    If several of our models represent one of the source's, one is enough: the others do not leave
    the claim undecided.
    """
    here = [v for v in verdicts if not v.elsewhere] or list(verdicts)
    tested = [v for v in here if v.verdict != rules.NOT_TESTED]
    reached = {v.cell.as_published for v in tested}
    counted = {v.verdict for v in here if v in tested or v.cell.as_published not in reached}
    return next(verdict for verdict in rules.VERDICTS if verdict in counted)


def decide(
    evidence: Evidence, sources: Sequence[Source], experiment: str | None = None
) -> list[Decision]:
    """All claims, or those of one experiment, in the order of the sources."""
    return [
        Decision(source, claim, tuple(verdicts_on(evidence, source, claim)))
        for source in sources
        for claim in source.claims
        if experiment is None or experiment in claim.experiments
    ]


def verdicts_on(evidence: Evidence, source: Source, claim: Claim) -> Iterator[Verdict]:
    """Decides every cell; an error in the claim's rule or arguments is one line that names both."""
    for comparison in claim.comparisons:
        for cell in comparison.cells:
            case = Case(source, claim, comparison, cell, evidence)
            rule, arguments = rules.bind(case)
            where = f"{source.file}: claim '{claim.id}': rule {comparison.rule}"
            try:
                for part in split(case, rule):
                    yield decide_cell(part, rule, arguments)
            except UNFIT as error:
                what = f"{type(error).__name__}: {error}".removesuffix(": ")
                raise InputError(
                    f"{where}: does not fit its arguments, cell or rows: {what}"
                ) from error
            except InputError as error:  # of a file that an argument names something of
                if str(source.file) in str(error):
                    raise
                raise InputError(f"{where}: {error}") from None


def split(case: Case, rule: Rule) -> list[Case]:
    """The case itself, or the cases into which its rule divides it for this run."""
    try:
        cells = rule.split(case) if rule.split else [case.cell]
    except NotTested:  # the rule itself says what is missing
        cells = [case.cell]
    return [replace(case, cell=cell, used={}) for cell in cells]


def decide_cell(case: Case, rule: Rule, arguments: dict[str, Any]) -> Verdict:
    known = {"value": case.value, "tolerance_percent": case.tolerance_percent}
    known["direction"] = rules.DIRECTIONS.get(case.comparison.direction)
    declared = {name: value for name, value in known.items() if value is not None}
    criterion = rule.criterion.format(**declared, **arguments)
    awaits = ""
    try:
        finding = rules.judge(case, rule.decide(case, **arguments))
    except NotTested as nothing:
        awaits = nothing.experiment or case.comparison.experiment
        finding = Finding(rules.NOT_TESTED, str(nothing))
    except NotTestable as why:
        finding = Finding(rules.NOT_TESTABLE, str(why))
    rows = [(file, row) for (file, _), row in case.used.items() if row]
    if why_not := code.differing(rows):
        finding = Finding(rules.NOT_TESTABLE, why_not)
    newest = case.evidence.newest
    elsewhere = bool(case.cell.gpu and newest and not is_on(newest.gpu, case.cell.gpu))
    if elsewhere and not case.used:  # none of the rows exists, and here none would decide
        awaits = ""
    if elsewhere and not awaits:
        said = f"a number of the source's {case.cell.gpu}, which only such a GPU can show"
        reason = f"{said}; on this {newest.gpu}: {finding.reason}"
        finding = replace(finding, verdict=rules.NOT_TESTABLE, reason=reason, short=said)
    return Verdict(
        **vars(finding),
        comparison=case.comparison,
        cell=case.cell,
        criterion=criterion,
        evidence=() if awaits else tuple(case.used),  # the rows of one half show nothing
        awaits=awaits,
        elsewhere=elsewhere,
        of_older_code=any(code.is_older(row) for _, row in rows),
        of_unknown_code=code.unknown(rows),
        predicted=predict(replace(case, used={})),
    )


def is_on(gpu: str, wanted: str) -> bool:
    """'A100-80GB' matches 'NVIDIA A100-SXM4-80GB', and 'T4' 'Tesla T4', but not a MIG slice of
    one."""
    words = set(gpu.upper().replace("-", " ").split())
    return "MIG" not in words and words >= set(wanted.upper().replace("-", " ").split())
