"""The rules that claims name: each decides one cell of a claim from the rows that bear on it.

A rule is a function of a `Case` and of keyword arguments, which come from the claim: its
`arguments`, its `tolerance_percent`, and the cell's `value`. Rules of one claim alone are in
claims/<experiment>.py and are named "<experiment>.<rule>".
"""

import importlib.util
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from claims.evidence import Evidence, NotTestable, NotTested, Rows
from claims.published import Cell, Claim, Comparison, Source
from records import stats
from records.errors import InputError
from records.printable import shortened
from records.results import COPY, Record
from records.stats import Estimate, Summary, significant

# On a claim as a whole: the first of these that one of its cells has.
VERDICTS = (
    *("not_reproduced", "premise_false", "undecided", "not_testable", "not_tested", "reproduced"),
)
NOT_REPRODUCED, PREMISE_FALSE, UNDECIDED, NOT_TESTABLE, NOT_TESTED, REPRODUCED = VERDICTS
AT_LEAST, AT_MOST, EXACTLY = "at_least", "at_most", "exactly"  # directions of a number
DIRECTIONS = {AT_LEAST: "at least", AT_MOST: "at most", EXACTLY: "equal to"}

CODE = "counters/sass"  # the pass with facts of compiled code
THIS_GPU = "this GPU"  # as a cell's architecture


@dataclass(frozen=True)
class Case:
    """What a rule is given: one cell of a claim, and the rows; `used` are those it looked at."""

    source: Source
    claim: Claim
    comparison: Comparison
    cell: Cell
    evidence: Evidence
    used: dict[tuple[Path, str], None] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        return self.rows_of(self.comparison.arguments["pass"])

    def rows_of(self, name: str) -> Rows:
        """The records of a pass of the comparison's experiment, or of another's: 'counters/nf4'."""
        experiment, pass_name = [self.comparison.experiment, *name.split("/")][-2:]
        results = self.evidence.results.get((experiment, pass_name))
        if results is None:
            raise NotTested(f"no results of the pass {experiment}/{pass_name}", experiment)
        wanted = (experiment, f"{experiment}/{pass_name}")
        conditions = [self.source.decided_on.get(name, {}) for name in wanted]
        return Rows(results, conditions[0] | conditions[1], self.used)

    def summaries(self, kernel: str, metric: str, pass_name: str = "") -> list[Summary]:
        """Summaries of the kernel's samples at every place that the cell stands for."""
        rows = self.rows_of(pass_name) if pass_name else self.rows
        measured = [rows.measured(kernel, at, metric) for at in self.cell.places]
        return [row.summary_of(metric) for row in measured]

    def medians(self, kernel: str, metric: str) -> list[float]:
        return [summary.median for summary in self.summaries(kernel, metric)]

    def ratios(self, over: str, under: str, metric: str, pass_name: str = "") -> list[Estimate]:
        """Ratios of two kernels at every place that the cell stands for."""
        both = (self.summaries(kernel, metric, pass_name) for kernel in (over, under))
        return [stats.ratio(a, b) for a, b in zip(*both, strict=True)]

    def comparisons(self, over: str, under: str, metric: str) -> list[Estimate]:
        """As `ratios`, for what is decided by intervals: a single sample has none."""
        for kernel in (over, under):
            if min(summary.n for summary in self.summaries(kernel, metric)) < 2:
                raise NotTestable(f"a single sample of {kernel} has no interval")
        return self.ratios(over, under, metric)

    def compiled(self, kernel: str, arch: str, fact: str) -> float:
        return self.compiled_row(kernel, arch, fact).summary_of(f"sass_{fact}").median

    def compiled_row(self, kernel: str, arch: str, fact: str) -> Record:
        """The row of a kernel's code for an architecture; THIS_GPU is that of the newest run."""
        if arch == THIS_GPU:
            newest = self.evidence.newest
            if newest is None:
                raise NotTested("nothing ran on a GPU")
            arch = "sm_" + newest.provenance["gpu"]["compute_capability"].replace(".", "")
        return self.rows_of(CODE).compiled(kernel, arch, f"sass_{fact}")


@dataclass(frozen=True)
class Finding:
    """A verdict on one cell, the whole of its reason, and our own value where there is one."""

    verdict: str
    reason: str
    ours: float | None = None
    interval: tuple[float, float] | None = None
    short: str = ""  # the reason in one short sentence, where it is longer than that

    @property
    def why(self) -> str:
        return self.short or self.reason


@dataclass(frozen=True)
class Rule:
    decide: Callable[..., Finding]
    criterion: str  # when a cell is reproduced, with the names of arguments in braces
    split: Callable[[Case], list[Cell]] | None = None  # into cells that only a run can name

    def words(self, comparison: Comparison, arguments: dict[str, Any]) -> str:
        """The criterion, with the arguments of one comparison."""
        direction = DIRECTIONS.get(comparison.direction, "")
        return self.criterion.format(direction=direction, **arguments)


RULES: dict[str, Rule] = {}


def rule(
    criterion: str, split: Callable[[Case], list[Cell]] | None = None
) -> Callable[[Callable[..., Finding]], Callable[..., Finding]]:
    """Registers a rule under the function's name."""

    def register(function: Callable[..., Finding]) -> Callable[..., Finding]:
        module = function.__module__.rpartition(".")[2]
        name = function.__name__ if module == "rules" else f"{module}.{function.__name__}"
        RULES[name] = Rule(function, criterion, split)
        return function

    return register


def bind(
    source: Source, claim: Claim, comparison: Comparison, cell: Cell
) -> tuple[Rule, dict[str, Any]]:
    """The rule with its arguments; InputError where there is none, or they do not fit."""
    where, name = f"{source.file}: claim '{claim.id}'", comparison.rule
    module = name.rpartition(".")[0]
    if module.isidentifier() and importlib.util.find_spec(f"claims.{module}"):
        importlib.import_module(f"claims.{module}")
    if name not in RULES:
        raise InputError(
            f"{where}: there is no rule '{name}'; there are {shortened(', '.join(RULES), 500)}"
        )
    found = RULES[name]
    arguments = {k: v for k, v in comparison.arguments.items() if k != "pass"}
    if comparison.tolerance_percent is not None:
        arguments["tolerance_percent"] = comparison.tolerance_percent
    signature = inspect.signature(found.decide)
    if "value" in signature.parameters and cell.value is not None:
        arguments["value"] = cell.value
    try:
        signature.bind(None, **arguments)
    except TypeError as error:
        raise InputError(f"{where}: rule {name}: {error}") from None
    return found, arguments


# What Python raises where a source, or a row, does not hold what a rule counts on.
UNFIT = (ArithmeticError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError)
UNFIT += (ValueError,)


@contextmanager
def unfit_is_input(case: Case) -> Iterator[None]:
    """What does not fit the claim's rule is one line that names the three."""
    try:
        yield
    except UNFIT as error:
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        where = f"{case.source.file}: claim '{case.claim.id}': rule {case.comparison.rule}"
        raise InputError(f"{where}: does not fit its arguments, cell or rows: {what}") from error


def reproduced_if(holds: bool) -> str:
    return REPRODUCED if holds else NOT_REPRODUCED


def over_places(holds: bool, reason: str, values: Sequence[float], short: str = "") -> Finding:
    """With the median of the values, one for each place, and their range."""
    found = stats.summarize(values)
    interval = (found.min, found.max) if found.min < found.max else None
    return Finding(reproduced_if(holds), reason, found.median, interval, short)


def quotients(
    over: Sequence[float], under: Sequence[float], may_be_zero: bool = False
) -> list[float]:
    """Place by place, of counts that are positive where anything was counted.

    `may_be_zero`: those of `over`, where none is an answer too.
    """
    if min(under) <= 0:
        raise NotTestable("a count that others are divided by is not positive")
    if min(over) < 0 or (min(over) == 0 and not may_be_zero):
        raise NotTestable("a count that is divided by others is not positive")
    return [a / b for a, b in zip(over, under, strict=True)]


def judge(
    case: Case,
    ours: Estimate,
    value: float,
    tolerance_percent: float,
    spread_percent: float = stats.SPREAD_PERCENT,
) -> Finding:
    """Ours against the source's value, in the direction that the comparison declares.

    Undecided where our interval reaches over a bound. The interval is widened by what runs differ
    by (`spread_percent`; 0 for what no run can change, such as a size or a compiler's output).
    """
    direction, unit = case.comparison.direction, case.comparison.unit
    widened = ours.widened(spread_percent)
    bounds, verdicts = [], []
    if direction in (AT_LEAST, EXACTLY):
        bounds.append(value * (1 - tolerance_percent / 100))
        verdicts.append(side_of(widened.low, widened.high, bounds[-1]))
    if direction in (AT_MOST, EXACTLY):
        bounds.append(value * (1 + tolerance_percent / 100))
        verdicts.append(side_of(-widened.high, -widened.low, -bounds[-1]))
    verdict = next(v for v in VERDICTS if v in verdicts)
    difference = stats.difference_percent(ours.value, value)
    allowed = {AT_LEAST: "less", AT_MOST: "more", EXACTLY: "either way"}[direction]
    reason = (
        f"{difference:+.1f} % from the source's value, {tolerance_percent:g} % {allowed} allowed"
    )
    if verdict == UNDECIDED:
        crossed = bounds[verdicts.index(UNDECIDED)]
        ends = " to ".join(significant(end, 3) for end in widened.interval)
        short = f"{ends} {unit}, with what runs differ by, reaches over {significant(crossed)}"
        reason += f"; {short}: runs on several GPUs of this kind would decide it"
        return Finding(verdict, reason, ours.value, ours.interval, short)
    return Finding(verdict, reason, ours.value, ours.interval)


def side_of(low: float, high: float, bound: float) -> str:
    """Reproduced from the bound on; undecided where the interval reaches over it."""
    slack = 1e-12 * abs(bound)
    if low >= bound - slack:
        return REPRODUCED
    return UNDECIDED if high >= bound - slack else NOT_REPRODUCED


WITHIN = "ours is {direction} the source's value, {tolerance_percent:g} % allowed"


@rule(WITHIN)
def ratio_within(
    case: Case, *, value: float, tolerance_percent: float, metric: str, baseline: str, subject: str
) -> Finding:
    """The baseline's time over the subject's; over several places, the mean of their ratios."""
    found = stats.mean(case.ratios(baseline, subject, metric))
    return judge(case, found, value, tolerance_percent)


@rule(WITHIN)
def gain_in_speed(
    case: Case, *, value: float, tolerance_percent: float, metric: str, slow: str, fast: str
) -> Finding:
    """As `ratio_within` at one place, with the two speeds."""
    (at,) = case.cell.places
    before, after = (case.rows.measured(kernel, at, metric) for kernel in (slow, fast))
    ours = stats.ratio(before.summary_of(metric), after.summary_of(metric))
    found = judge(case, ours, value, tolerance_percent)
    speeds = ", ".join(f"{r.kernel}: {r.speed.value:.0f} GB/s" for r in (before, after))
    return replace(found, reason=f"{speeds}; {found.reason}", short=speeds)


@rule(WITHIN)
def share_within(
    case: Case, *, value: float, tolerance_percent: float, kernel: str, part: str, rest: str
) -> Finding:
    """What one metric is of the sum of two, sample by sample, in percent."""
    (at,) = case.cell.places
    samples = [case.rows.measured(kernel, at, name).metrics[name].samples for name in (part, rest)]
    return judge(case, stats.share_percent(*samples).estimate, value, tolerance_percent)


@rule(WITHIN)
def speed_within(
    case: Case, *, value: float, tolerance_percent: float, metric: str, kernel: str
) -> Finding:
    """In GB/s; a declared deviation is no hindrance."""
    (at,) = case.cell.places
    row = case.rows.measured(kernel, at, metric, may_deviate=True)
    return judge(case, row.speed, value, tolerance_percent)


@rule(WITHIN)
def share_of_peak_within(
    case: Case, *, value: float, tolerance_percent: float, metric: str, kernel: str
) -> Finding:
    """The share of the GPU's theoretical peak, in percent; a declared deviation is no hindrance."""
    (at,) = case.cell.places
    row = case.rows.measured(kernel, at, metric, may_deviate=True)
    peak = case.rows.results.peak_gb_s
    if peak is None:
        return Finding(NOT_TESTABLE, "this GPU does not say its theoretical bandwidth")
    ends = (row.speed.value, *row.speed.interval)
    ours = Estimate(*(100 * end / peak for end in ends))
    found = judge(case, ours, value, tolerance_percent)
    reason = f"{found.reason}; {row.speed.value:.0f} of {peak:.0f} GB/s in theory"
    taken = case.source.setup.get("peak_gb_s")
    if taken:
        reason += f", where the source takes {taken} GB/s for its {case.source.gpu}"
    copy = case.rows.results.find(row.problem["name"], COPY)
    if copy is not None and copy.bandwidth is not None:
        of_copy = 100 * row.speed.value / copy.bandwidth.value
        reason += f"; of what a copy reaches here it is {of_copy:.1f} %"
    return replace(found, reason=reason)


@rule("greatest and smallest median of {kernel} at most {tolerance_percent:g} % apart")
def invariant_over(case: Case, *, tolerance_percent: float, metric: str, kernel: str) -> Finding:
    """Over all places that the cell stands for."""
    medians = [s.median for s in case.summaries(kernel, metric)]
    low, high = min(medians), max(medians)
    verdict = reproduced_if(stats.is_within(high, low, tolerance_percent))
    unit = case.rows.find(kernel, case.cell.places[0]).metrics[metric].unit
    ends = f"{stats.significant(low)} to {stats.significant(high)} {unit}"
    reason = f"median {metric.replace('_', ' ')} {ends} in {len(medians)} rows"
    return Finding(verdict, reason, stats.difference_percent(high, low))


@rule("{slow} slower than {fast} in every place, beyond the intervals")
def slower_in_every_cell(case: Case, *, metric: str, slow: str, fast: str) -> Finding:
    """One place where it is faster decides; where no difference is seen, nothing is."""
    ratios = case.comparisons(slow, fast, metric)
    ours, reason = stats.pool(ratios), count_slower(ratios, slow, fast)
    if any(r.high < 1 for r in ratios):
        return Finding(NOT_REPRODUCED, reason, ours.value, ours.interval)
    verdict = REPRODUCED if all(r.low > 1 for r in ratios) else UNDECIDED
    return Finding(verdict, reason, ours.value, ours.interval)


def count_slower(ratios: Sequence[Estimate], slow: str, fast: str) -> str:
    slower, faster = sum(r.low > 1 for r in ratios), sum(r.high < 1 for r in ratios)
    return (
        f"{slow} against {fast}: slower in {slower} of {len(ratios)} places, faster in {faster}, "
        f"no difference seen in {len(ratios) - slower - faster}"
    )


@rule("one round for each access of {kernel}, up to {tolerance_percent:g} % more allowed")
def one_round_each(
    case: Case,
    *,
    tolerance_percent: float,
    kernel: str,
    accesses: str,
    rounds: str,
    less: str = "",
    beside: str = "",
) -> Finding:
    """Rounds that shared memory takes for an access of a warp: more than one are bank conflicts.

    `less`: a kernel that lacks the accesses in question, and has all of the others. `beside`: one
    that is shown for comparison.
    """

    def per_access(subject: str) -> list[float]:
        found = [case.medians(subject, metric) for metric in (rounds, accesses)]
        if less:
            without = [case.medians(less, metric) for metric in (rounds, accesses)]
            found = [
                [a - b for a, b in zip(*both, strict=True)]
                for both in zip(found, without, strict=True)
            ]
        if min(found[1]) <= 0:
            lacks = f" that {less} lacks" * bool(less)
            raise NotTestable(f"{subject} has no {accesses.replace('_', ' ')}{lacks}")
        return quotients(*found)

    found = per_access(kernel)
    reason = f"rounds for each access of {kernel}{f' that {less} lacks' * bool(less)}: "
    reason += stats.span(found)
    if beside:
        reason += f"; of {beside}: {stats.span(per_access(beside))}"
    holds = all(value <= 1 or stats.is_within(value, 1, tolerance_percent) for value in found)
    return over_places(holds, reason, found, f"{stats.span(found)} rounds for each access")


@rule("every bit of the output of {kernel} equals the reference")
def output_equal(case: Case, *, kernel: str) -> Finding:
    """At every place that the cell stands for; one wrong output decides."""
    rows = [case.rows.verified(kernel, at) for at in case.cell.places]
    wrong = [row for row in rows if row.outcome != "bit_exact"]
    if wrong:
        return Finding(NOT_REPRODUCED, f"the output is wrong: {wrong[0].reason}")
    outputs = sum(row.problem.get("weights_resident", row.problem.get("n", 0)) for row in rows)
    return Finding(REPRODUCED, f"{outputs / 1e9:.1f} billion elements compared, all equal")


@rule("nothing that runs here can show it")
def beyond_this_project(case: Case, *, why: str) -> Finding:
    return Finding(NOT_TESTABLE, why)
