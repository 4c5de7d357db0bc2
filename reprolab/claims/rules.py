"""The rules that claims name: each decides one cell of a claim from the rows that bear on it.

A rule is a function of a `Case` and of the claim's `arguments`. It returns a verdict, or only our
value, which is then compared with the source's. Rules of a single claim are in
experiments/<experiment>/rules.py and are named "<experiment>.<rule>".
"""

import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from reprolab import declared, stats
from reprolab.claims import uncertainty
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.published import Cell
from reprolab.errors import InputError
from reprolab.printable import shortened
from reprolab.results import Outcome
from reprolab.stats import Estimate, LogMean, significant, span

# The verdict on a whole claim is the first of these that one of its cells has.
VERDICTS = (
    *("not_reproduced", "premise_false", "undecided", "not_testable", "not_tested", "reproduced"),
)
NOT_REPRODUCED, PREMISE_FALSE, UNDECIDED, NOT_TESTABLE, NOT_TESTED, REPRODUCED = VERDICTS
# Directions of a number. A gain is at least that large, and more than 1 for any tolerance.
GAIN, AT_LEAST, AT_MOST, EXACTLY = "gain", "at_least", "at_most", "exactly"
DIRECTIONS = {GAIN: "more than 1 and at least", AT_LEAST: "at least", AT_MOST: "at most"}
DIRECTIONS |= {EXACTLY: "equal to"}


@dataclass(frozen=True)
class Finding:
    """A verdict on one cell, its full reason, and our own value if there is one.

    `documented`: the number of a document, where nothing is measured here.
    """

    verdict: str
    reason: str
    ours: float | None = None
    interval: tuple[float, float] | None = None
    short: str = ""  # the reason in one short sentence, where it is longer than that
    documented: float | None = None

    @property
    def why(self) -> str:
        return self.short or self.reason


@dataclass(frozen=True)
class Ours:
    """Our value, for comparison with the source's. `reason` precedes their difference, `short`
    replaces it. `spread_percent`: the spread between runs; 0 for what no run can change, such as a
    size or a compiler's output.
    """

    value: Estimate
    reason: str = ""
    short: str = ""
    spread_percent: float = stats.SPREAD_PERCENT


Decide = Callable[..., Finding | Ours]
KINDS = {str: "a text", int: "a whole number", float: "a number"}  # of rules' arguments


@dataclass(frozen=True)
class Rule:
    decide: Decide
    criterion: str  # when a cell is reproduced, with the names of arguments in braces
    split: Callable[[Case], list[Cell]] | None  # into cells that only a run can name


RULES: dict[str, Rule] = {}
MODULES = ("arithmetic", "gpus")  # of this folder, with rules that need no experiment


def rule(
    criterion: str, split: Callable[[Case], list[Cell]] | None = None
) -> Callable[[Decide], Decide]:
    """Registers a rule under the function's name: of this file as it is, of another module of
    reprolab/claims/ as '<module>.<name>', of an experiment as '<experiment>.<name>'.
    """

    def register(function: Decide) -> Decide:
        owner = function.__module__.removeprefix("reprolab.").split(".")[1]
        prefix = "" if function.__module__ == __name__ else f"{owner}."
        RULES[prefix + function.__name__] = Rule(function, criterion, split)
        return function

    return register


def import_rules(owner: str) -> None:
    """Registers the rules of a module of reprolab/claims/ or of an experiment, if there is one."""
    if owner in MODULES:
        importlib.import_module(f"reprolab.claims.{owner}")
    elif owner in declared.names() and (rules := declared.module(owner, "rules")):
        importlib.import_module(rules)


def bind(case: Case) -> tuple[Rule, dict[str, Any]]:
    """The rule with its arguments; InputError if there is none, or its arguments do not fit."""
    where, name = f"{case.source.file}: claim '{case.claim.id}'", case.comparison.rule
    owner = name.rpartition(".")[0]
    if name not in RULES:
        import_rules(owner)
    if name not in RULES:
        others = ", ".join(rule for rule in RULES if rule.rpartition(".")[0] == owner)
        raise InputError(f"{where}: no rule is named '{name}'; known are {shortened(others, 500)}")
    arguments = {k: v for k, v in case.comparison.arguments.items() if k != "pass"}
    signature = inspect.signature(RULES[name].decide)
    try:
        signature.bind(case, **arguments)
    except TypeError as error:
        raise InputError(f"{where}: rule {name}: {error}") from None
    for argument, value in arguments.items():
        kind = signature.parameters[argument].annotation
        if not isinstance(value, (int, float) if kind is float else kind):
            raise InputError(f"{where}: arguments.{argument} must be {KINDS[kind]}, not {value!r}")
    return RULES[name], arguments


COUNTS = 0  # guard band of counts, which are equal in six recorded runs

# The criterion by which `judge` decides that a cell is reproduced.
WITHIN = "ours is {direction} the source's value, {tolerance_percent:g} % allowed"


def judge(case: Case, ours: Finding | Ours) -> Finding:
    """Compares our value with the source's, in the direction that the comparison declares;
    undecided if our interval, widened by the spread between runs, crosses a bound.
    """
    if isinstance(ours, Finding):
        return ours
    value, tolerance_percent, estimate = case.value, case.tolerance_percent, ours.value
    direction = case.comparison.direction
    widened = estimate if estimate.log else estimate.widened(ours.spread_percent)
    cells = case.family_size
    sides: dict[str, float] = {}  # by verdict, the bound that ours is on that side of
    if direction in (GAIN, AT_LEAST, EXACTLY):
        bound = value * (1 - tolerance_percent / 100)
        bound = max(bound, 1) if direction == GAIN else bound
        sides[side_above(widened, bound, cells)] = bound
    if direction in (AT_MOST, EXACTLY):
        bound = value * (1 + tolerance_percent / 100)
        sides.setdefault(side_below(widened, bound, cells), bound)
    verdict = next(v for v in VERDICTS if v in sides)
    difference = stats.difference_percent(estimate.value, value)
    allowed = {AT_MOST: "more", EXACTLY: "either way"}.get(direction, "less")
    reason = (
        f"{difference:+.1f} % from the source's value, {tolerance_percent:g} % {allowed} allowed"
    )
    short = ours.short
    if verdict == UNDECIDED:
        ends = " to ".join(significant(end, 3) for end in widened.deciding(cells).interval)
        reaches = f"{ends} {case.comparison.unit}, with what runs differ by, reaches over "
        reaches += significant(sides[UNDECIDED])
        reason += f"; {reaches}: runs on several GPUs of this kind would decide it"
        short = short or reaches
    reason = "; ".join(filter(None, (ours.reason, reason)))
    return Finding(verdict, reason, estimate.value, estimate.interval, short)


def side_above(estimate: Estimate, bound: float, cells: int) -> str:
    """Decides one of several cells, all of which must reach the bound."""
    return side_of(estimate.deciding().low, estimate.deciding(cells).high, bound)


def side_below(estimate: Estimate, bound: float, cells: int) -> str:
    return side_of(-estimate.deciding().high, -estimate.deciding(cells).low, -bound)


def above_one(ratios: Sequence[Estimate], cells: int) -> str:
    """Whether all ratios reach the bound, or one of so many cells is below it."""
    holds = all(ratio.deciding().low > 1 for ratio in ratios)
    return reproduced_if(holds, any(ratio.deciding(cells).high < 1 for ratio in ratios))


def side_of(low: float, high: float, bound: float) -> str:
    """Reproduced from the bound on; undecided if the interval crosses it."""
    slack = 1e-12 * abs(bound)
    if low >= bound - slack:
        return REPRODUCED
    return UNDECIDED if high >= bound - slack else NOT_REPRODUCED


def reproduced_if(holds: bool, fails: bool = True) -> str:
    """The verdict by intervals: it holds, it does not hold, or neither is shown."""
    if holds:
        return REPRODUCED
    return NOT_REPRODUCED if fails else UNDECIDED


def percent_above(value: float, bound: float) -> float:
    """The margin by which a place reaches a bound."""
    return stats.difference_percent(value, bound) if bound else math.copysign(math.inf, value)


def percent_below(value: float, bound: float) -> float:
    return -percent_above(value, bound)


def side_of_margins(margins: Sequence[float], guard_percent: float = stats.SPREAD_PERCENT) -> str:
    """Whether all places reach the bound, one does not, or neither: one is within the guard band.
    Counts of instructions are the same in every run and have no guard band.
    """
    slack = 1e-9
    if min(margins) >= guard_percent - slack:
        return REPRODUCED
    return UNDECIDED if min(margins) > -guard_percent - slack else NOT_REPRODUCED


def over_places(verdict: str, reason: str, values: Sequence[float], short: str = "") -> Finding:
    """With the median of the values, one for each place, and their range."""
    summary = stats.summarize(values)
    interval = (summary.min, summary.max) if summary.min < summary.max else None
    return Finding(verdict, reason, summary.median, interval, short)


def quotients(
    over: Sequence[float], under: Sequence[float], may_be_zero: bool = False
) -> list[float]:
    """Ratios, place by place, of counts that are positive if anything was counted.

    `may_be_zero`: counts of `over` may be zero.
    """
    if min(under) <= 0:
        raise NotTestable("a count that others are divided by is not positive")
    if min(over) < 0 or (min(over) == 0 and not may_be_zero):
        raise NotTestable("a count that is divided by others is not positive")
    return [a / b for a, b in zip(over, under, strict=True)]


@rule(WITHIN)
def ratio_within(case: Case, *, metric: str, baseline: str, subject: str) -> Ours:
    """The baseline's time over the subject's; for several places, the mean of their ratios."""
    return Ours(stats.mean(case.ratios(baseline, subject, metric)))


@rule("nothing: ours is an upper bound, which could only refute it, {tolerance_percent:g} % below")
def share_not_above(case: Case, *, kernel: str, part: str, rest: str) -> Finding:
    """The share of one metric in the sum of two, sample by sample, in percent; our sum lacks parts
    of the source's.
    """
    samples = [case.measured(kernel, name).metrics[name].samples for name in (part, rest)]
    judged = judge(case, Ours(stats.share_percent(*samples).estimate))
    if judged.verdict != REPRODUCED:
        return judged
    said = f"ours is an upper bound, {significant(judged.ours, 3)} %, and does not refute it"
    return replace(judged, verdict=NOT_TESTABLE, reason=f"{said}; {judged.reason}", short=said)


@rule("greatest and smallest time of {kernel} at most {tolerance_percent:g} % apart")
def invariant_over(case: Case, *, metric: str, kernel: str) -> Finding:
    """Over all places that the cell covers."""
    rows = [case.measured(kernel, metric, at) for at in case.cell.places]
    times = [uncertainty.log_time(row, metric) for row in rows]
    unit = rows[0].metrics[metric].unit
    return spread(case, times, f"{metric.replace('_', ' ')}", unit)


@rule("greatest and smallest gain at most {tolerance_percent:g} % apart")
def gains_alike(case: Case, *, metric: str, baseline: str, subject: str) -> Finding:
    """Ratios of the baseline's time to the subject's, over all places that the cell covers."""
    gains = [ratio.log for ratio in case.ratios(baseline, subject, metric)]
    return spread(case, gains, f"{subject} over {baseline}", "x")


def spread(case: Case, values: Sequence[LogMean], what: str, unit: str) -> Finding:
    """Reproduced if the ends, the two most different of many, are no further apart than the
    tolerance, beyond the uncertainty of both.
    """
    low, high = (pick(values, key=lambda v: v.value) for pick in (min, max))
    pairs = max(1, len(values) * (len(values) - 1) // 2)
    apart, bound = high.over(low).ratio, 1 + case.tolerance_percent / 100
    ends = (significant(math.exp(v.value)) for v in (low, high))
    reason = f"{what} {' to '.join(ends)} {unit} in {len(values)} rows"
    verdict = side_below(apart, bound, max(pairs, case.family_size))
    return Finding(verdict, reason, 100 * (apart.value - 1))


@rule("{slow} slower than {fast} in every place, beyond the intervals")
def slower_in_every_cell(
    case: Case, *, metric: str, slow: str, fast: str, beside: str = ""
) -> Finding:
    """One place where it is faster decides, if chance would show one in so many places in 1 % of
    cases; if no difference is seen, nothing is decided.

    `beside`: a kernel over which the gains of both are shown for comparison.
    """
    ratios = case.comparisons(slow, fast, metric)
    cells = case.family_size
    slower = sum(r.deciding().low > 1 for r in ratios)
    faster = sum(r.deciding(cells).high < 1 for r in ratios)
    reason = (
        f"{slow} against {fast}: slower in {slower} of {len(ratios)} places, faster in {faster}, "
        f"no difference seen in {len(ratios) - slower - faster}"
    )
    if beside:
        with suppress(NotTested, NotTestable):
            gains = {k: stats.mean(case.ratios(beside, k, metric)).value for k in (slow, fast)}
            listed = " and ".join(f"{k} {significant(gain, 3)} x" for k, gain in gains.items())
            reason += f"; over {beside} {listed}"
    ours, verdict = stats.pool(ratios), above_one(ratios, cells)
    short = f"{slow} is slower in {slower} of {len(ratios)} places"
    return Finding(verdict, reason, ours.value, ours.interval, short)


@rule("one round for each access of {kernel}, up to {tolerance_percent:g} % more allowed")
def one_round_each(
    case: Case, *, kernel: str, accesses: str, rounds: str, less: str = "", beside: str = ""
) -> Finding:
    """Rounds of shared memory per access of a warp: more than one are bank conflicts.

    `less`: a kernel that lacks only the accesses in question. `beside`: a kernel that is shown for
    comparison.
    """
    per_access = rounds_per_access(case, kernel, accesses, rounds, less)
    lacked = f" that {less} lacks" * bool(less)
    reason = f"rounds for each access of {kernel}{lacked}: {span(per_access)}"
    short = f"{span(per_access)} rounds for each access"
    if beside:
        others = rounds_per_access(case, beside, accesses, rounds, less)
        of_other = f"of {beside}: {span(others)}"
        reason, short = f"{reason}; {of_other}", f"{short}; {of_other}"
    bound = 1 + case.tolerance_percent / 100
    verdict = side_of_margins([percent_below(value, bound) for value in per_access])
    return over_places(verdict, reason, per_access, short)


def rounds_per_access(
    case: Case, kernel: str, accesses: str, rounds: str, less: str = ""
) -> list[float]:
    """At every place that the cell covers."""
    both_medians = [case.medians(kernel, metric) for metric in (rounds, accesses)]
    if less:
        without = [case.medians(less, metric) for metric in (rounds, accesses)]
        both_medians = [
            [a - b for a, b in zip(*both, strict=True)]
            for both in zip(both_medians, without, strict=True)
        ]
    if min(both_medians[1]) <= 0:
        lacked = f" that {less} lacks" * bool(less)
        raise NotTestable(f"{kernel} has no {accesses.replace('_', ' ')}{lacked}")
    return quotients(*both_medians)


@rule("every bit of the output of {kernel} equals the reference")
def output_equal(case: Case, *, kernel: str) -> Finding:
    """At every place that the cell covers; one wrong output decides."""
    rows = [case.verified(kernel, at) for at in case.cell.places]
    wrong = [row for row in rows if row.outcome != Outcome.BIT_EXACT]
    if wrong:
        return Finding(NOT_REPRODUCED, f"the output is wrong: {wrong[0].reason}")
    outputs = sum(row.problem.get("weights_resident", row.problem.get("n", 0)) for row in rows)
    return Finding(REPRODUCED, f"{outputs / 1e9:.1f} billion elements compared, all equal")


@rule("nothing: nothing that runs here can show it")
def beyond_this_project(case: Case, *, why: str) -> Finding:
    return Finding(NOT_TESTABLE, why)
