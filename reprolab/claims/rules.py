"""The rules that claims name: each decides one cell of a claim from the rows that bear on it.

A rule is a function of a `Case` and of the cell's `arguments`, and returns a `Verdict`; `judge`
makes one of our value. Rules of one experiment's claims are in experiments/<experiment>/rules.py
and are named "<experiment>.<rule>".
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reprolab import stats
from reprolab.claims import uncertainty
from reprolab.claims.evidence import Case, NotTestable
from reprolab.claims.published import Cell
from reprolab.results import KERNEL_TIME, Outcome, Row
from reprolab.stats import Estimate, LogMean, significant, span

# The verdict on a whole claim is the first of these that one of its cells has. Nothing is measured
# for "contradicted" and "documented": a document, or the source itself, has another number or the
# same.
VERDICTS = (
    *("not_reproduced", "premise_false", "contradicted", "undecided", "not_testable"),
    *("not_tested", "reproduced", "documented"),
)
NOT_REPRODUCED, PREMISE_FALSE, CONTRADICTED, UNDECIDED, NOT_TESTABLE = VERDICTS[:5]
NOT_TESTED, REPRODUCED, DOCUMENTED = VERDICTS[5:]
# Directions of a number. A gain is at least that large, and more than 1 for any tolerance.
GAIN, AT_LEAST, AT_MOST, EXACTLY = "gain", "at_least", "at_most", "exactly"
DIRECTIONS = {GAIN: "more than 1 and at least", AT_LEAST: "at least", AT_MOST: "at most"}
DIRECTIONS |= {EXACTLY: "equal to"}
MANY_HOSTS = 1000
COUNTS = 0  # guard band of counts, which are equal in six recorded runs
# The criterion by which `judge` decides that a cell is reproduced.
WITHIN = "ours is {direction} the source's value, {tolerance_percent:g} % allowed"
ANEW = "; otherwise nothing is decided, as ours are written anew"


@dataclass(frozen=True)
class Verdict:
    """On one cell: `note` has the numbers that decide it, or why nothing does. A rule gives the
    first four; the ledger adds the others.
    """

    kind: str
    note: str = ""
    ours: float | None = None
    interval: tuple[float, float] | None = None
    cell: Cell | None = None
    criterion: str = ""  # when the cell is reproduced
    rows: tuple[tuple[str, str], ...] = ()  # result file and the record's key that show it
    elsewhere: bool = False  # of a GPU that this is not


Decide = Callable[..., Verdict]


MODULES = {"": __name__, "documents": "reprolab.claims.documents"}  # else an experiment's


def rule(criterion: str) -> Callable[[Decide], Decide]:
    """Marks a rule with when a cell is reproduced; names of arguments are in braces."""

    def mark(function: Decide) -> Decide:
        function.criterion = criterion
        return function

    return mark


def rule_named(name: str) -> Decide:
    owner, _, function = name.rpartition(".")
    module = MODULES.get(owner, f"experiments.{owner}.rules")
    return getattr(importlib.import_module(module), function)


def judge(
    case: Case, ours: Estimate, note: str = "", spread_percent: float = stats.SPREAD_PERCENT
) -> Verdict:
    """Compares our value with the source's, in the direction that the cell declares; undecided if
    our interval, widened by the spread between runs, crosses a bound. `spread_percent`: 0 for what
    no run can change, such as a size or a compiler's output.
    """
    cell, tolerance_percent = case.cell, case.cell.tolerance_percent
    widened = ours if ours.log else ours.widened(spread_percent)
    sides = []
    if cell.direction in (GAIN, AT_LEAST, EXACTLY):
        bound = cell.value * (1 - tolerance_percent / 100)
        bound = max(bound, 1) if cell.direction == GAIN else bound
        sides.append((side_above(widened, bound, cell.family_size), bound))
    if cell.direction in (AT_MOST, EXACTLY):
        bound = cell.value * (1 + tolerance_percent / 100)
        sides.append((side_below(widened, bound, cell.family_size), bound))
    kind, bound = min(sides, key=lambda side: VERDICTS.index(side[0]))
    if kind == UNDECIDED:
        ends = span(widened.deciding(cell.family_size).interval)
        notes = [note, f"{ends} {cell.unit} with what runs differ by", by_hosts(case, ours, bound)]
        note = "; ".join(filter(None, notes))
    return Verdict(kind, note, ours.value, ours.interval)


def by_hosts(case: Case, ratio: Estimate, bound: float) -> str:
    """Of an undecided eager gain: how many hosts it would take; '' where no host takes part."""
    if not case.hosts:
        return ""
    hosts, cells = min(case.hosts), 1 if ratio.value >= bound else case.cell.family_size
    needed = uncertainty.hosts_to_decide(ratio.log, bound, cells, hosts)
    count = f"about {needed}" if needed < MANY_HOSTS else f"more than {MANY_HOSTS}"
    return f"undecided on {hosts} host{'s' * (hosts > 1)}, {count} would decide"


def side_above(estimate: Estimate, bound: float, cells: int = 1) -> str:
    """Decides one of several cells, all of which must reach the bound."""
    return side_of(estimate.deciding().low, estimate.deciding(cells).high, bound)


def side_below(estimate: Estimate, bound: float, cells: int = 1) -> str:
    return side_of(-estimate.deciding().high, -estimate.deciding(cells).low, -bound)


def worst(kinds: Iterable[str]) -> str:
    """The verdict on what has to hold everywhere."""
    return min(kinds, key=VERDICTS.index)


def side_of(low: float, high: float, bound: float) -> str:
    """Reproduced from the bound on; undecided if the interval crosses it."""
    slack = 1e-12 * abs(bound)
    if low >= bound - slack:
        return REPRODUCED
    return UNDECIDED if high >= bound - slack else NOT_REPRODUCED


def reproduced_if(holds: bool) -> str:
    return REPRODUCED if holds else NOT_REPRODUCED


def all_above(
    values: Sequence[float],
    bounds: Sequence[float] | float,
    guard_percent: float = stats.SPREAD_PERCENT,
) -> str:
    """Whether the counts of all places reach their bounds, one does not, or one is within the guard
    band. Counts of instructions are the same in every run and have none.
    """
    bounds = [bounds] * len(values) if isinstance(bounds, float | int) else bounds
    ours = [Estimate(value, value, value).widened(guard_percent) for value in values]
    return worst(side_above(*both) for both in zip(ours, bounds, strict=True))


def all_below(
    values: Sequence[float], bound: float, guard_percent: float = stats.SPREAD_PERCENT
) -> str:
    return all_above([-value for value in values], -bound, guard_percent)


def over_places(kind: str, note: str, values: Sequence[float]) -> Verdict:
    """With the median of the values, one for each place, and their range."""
    summary = stats.summarize(values)
    interval = (summary.min, summary.max) if summary.min < summary.max else None
    return Verdict(kind, note, summary.median, interval)


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
def ratio_within(
    case: Case,
    *,
    metric: str,
    baseline: str = "",
    subject: str = "",
    baseline_pass: str = "",
    table: str = "",
) -> Verdict:
    """The baseline's time over the subject's; for several places, the mean of their ratios.

    `baseline`: not if the cell names a library. `baseline_pass`: if it is another. `table`: if the
    cell names the source's kernels, "kernel_9 over kernel_8", the faster first.
    """
    if table:
        subject, baseline = our_kernels(case, table)
    baseline = baseline or case.cell.at["library"]
    ratios = case.ratios(baseline, subject, metric, over_pass=baseline_pass)
    return judge(case, stats.mean(ratios), times_of(case, metric))


def times_of(case: Case, metric: str) -> str:
    """The rows that were read for a single place."""
    rows = case.used.values() if len(case.cell.places) == 1 else ()
    times = (row.metrics[metric] for row in rows)
    return ", ".join(f"{t.kernel} {significant(t.median)} {t.unit}" for t in times)


def confirmed_only(found: Verdict) -> Verdict:
    """The verdict, unless it refutes a speed of the author's own code, which ours cannot."""
    if found.kind != NOT_REPRODUCED:
        return found
    note = f"the author's own code was not run; {found.note}".removesuffix("; ")
    return replace(found, kind=NOT_TESTABLE, note=note)


@rule(WITHIN + ANEW)
def ratio_anew(case: Case, **arguments: str) -> Verdict:
    """As `ratio_within`, of kernels that are not the source's own code."""
    return confirmed_only(ratio_within(case, **arguments))


def our_kernels(case: Case, table: str) -> list[str]:
    """For those of the source's table that the cell names."""
    ours = case.source.setup["our_kernels"][table]
    return [ours[kernel] for kernel in str(case.cell.at["kernels"]).split(" over ")]


@rule(WITHIN + ANEW)
def speed(case: Case, *, table: str) -> Verdict:
    """In GB/s; a declared deviation is allowed. A library is the source's own code, so that its
    speed also refutes.
    """
    (kernel,) = our_kernels(case, table)
    row = case.measured(kernel, KERNEL_TIME, may_deviate=True)
    found = judge(case, row.bandwidth, kernel)
    return found if row.origin == "peer" else confirmed_only(found)


@rule("nothing: ours is an upper bound, which could only refute it, {tolerance_percent:g} % below")
def share_not_above(case: Case, *, kernel: str, part: str, rest: str) -> Verdict:
    """The share of one metric in the sum of two, sample by sample, in percent; our sum lacks parts
    of the source's.
    """
    samples = [case.measured(kernel, name).samples for name in (part, rest)]
    judged = judge(case, stats.share_percent(*samples).estimate)
    if judged.kind != REPRODUCED:
        return judged
    note = f"ours is an upper bound, {significant(judged.ours, 3)} %, and does not refute it"
    return Verdict(NOT_TESTABLE, note, judged.ours, judged.interval)


@rule("{kernel}'s time changes by at most {tolerance_percent:g} % from the first place to the last")
def invariant_over(case: Case, *, metric: str, kernel: str) -> Verdict:
    """By the line through the times of all places, which are in the order of doubled batches; the
    greatest over the smallest time would differ where only noise does.
    """
    rows = case.rows(kernel, metric)
    change = trend([uncertainty.log_time(row) for row in rows]).ratio
    note = f"{span([row.median for row in rows], 4)} {rows[0].unit} in {len(rows)} rows"
    kind = equivalent([change], case.cell.tolerance_percent, case.cell.family_size)
    percents = [100 * (end - 1) for end in (change.value, *change.interval)]
    return Verdict(kind, note, percents[0], (percents[1], percents[2]))


def trend(values: Sequence[LogMean]) -> LogMean:
    """The change from the first value to the last on the line of least squares, as if no error
    were shared, as those would cancel.
    """
    values = [LogMean(v.value, tuple((*part[:2], False) for part in v.parts)) for v in values]
    middle = (len(values) - 1) / 2
    offsets = [i - middle for i in range(len(values))]
    scale = (len(values) - 1) / sum(offset**2 for offset in offsets)
    return stats.weighted(values, [offset * scale for offset in offsets])


def equivalent(ratios: Sequence[Estimate], percent: float, cells: int) -> str:
    """Whether all ratios lie within the tolerance of 1 on either side, by their intervals."""
    bound = 1 + percent / 100
    below = [side_below(ratio, bound, cells) for ratio in ratios]
    return worst(below + [side_above(ratio, 1 / bound, cells) for ratio in ratios])


def part_of_saving(part: Estimate, whole: Estimate, least: float, rest: bool = False) -> Verdict:
    """The part in percent of the time that a kernel saves, or the rest of it; both are ratios of a
    time to the kernel's. Reproduced from `least` percent on.
    """

    def percent(part_ratio: float, ratio: float) -> float:
        return 100 * (ratio - part_ratio if rest else part_ratio - 1) / (ratio - 1)

    if whole.deciding().low <= 1:
        raise NotTestable("the kernel is not shown to save any time")
    kind = side_of(*ends(part.deciding(), whole.deciding(), percent), least)
    both = " and ".join(significant(ratio.value) for ratio in (part, whole))
    note = f"{both} times the kernel's own time"
    return Verdict(kind, note, percent(part.value, whole.value), ends(part, whole, percent))


def ends(
    a: Estimate, b: Estimate, function: Callable[[float, float], float]
) -> tuple[float, float]:
    """The least and the greatest value over the ends of both intervals."""
    values = [function(x, y) for x in a.interval for y in b.interval]
    return min(values), max(values)


@rule("{slow} slower than {fast} on the average of all places, beyond the interval")
def slower_on_average(case: Case, *, metric: str, slow: str, fast: str) -> Verdict:
    """The places are one experiment; if no difference is seen, nothing is decided."""
    ratios = case.ratios(slow, fast, metric, least=2)
    ours = stats.mean(ratios)
    places = f"{len(ratios)} place{'s' * (len(ratios) > 1)}"
    note = f"time of {slow} over {fast}: {span([r.value for r in ratios])} in {places}"
    return Verdict(side_above(ours, 1), note, ours.value, ours.interval)


@rule("one round for each access of {kernel}, up to {tolerance_percent:g} % more allowed")
def one_round_each(
    case: Case, *, kernel: str, accesses: str, rounds: str, less: str = ""
) -> Verdict:
    """Rounds of shared memory per access of a warp: more than one are bank conflicts. `less`: a
    kernel that lacks only the accesses in question.
    """
    per_access = rounds_per_access(case, kernel, accesses, rounds, less)
    kind = all_below(per_access, 1 + case.cell.tolerance_percent / 100)
    return over_places(kind, f"{span(per_access)} rounds for each access", per_access)


def rounds_per_access(
    case: Case, kernel: str, accesses: str, rounds: str, less: str = ""
) -> list[float]:
    """At every place that the cell covers."""
    counts = [case.medians(kernel, metric) for metric in (rounds, accesses)]
    if less:
        without = [case.medians(less, metric) for metric in (rounds, accesses)]
        counts = [
            [a - b for a, b in zip(*both, strict=True)]
            for both in zip(counts, without, strict=True)
        ]
    return quotients(*counts)


@rule("every bit of the output of {kernel} equals the reference")
def output_equal(case: Case, *, kernel: str) -> Verdict:
    """At every place that the cell covers; one wrong output decides."""
    return all_equal([case.verified(kernel, at) for at in case.cell.places])


def all_equal(rows: Sequence[Row]) -> Verdict:
    wrong = [row for row in rows if row.outcome != Outcome.BIT_EXACT]
    if wrong:
        return Verdict(NOT_REPRODUCED, f"{wrong[0].place}: the output is wrong: {wrong[0].reason}")
    outputs = sum(compared(row.problem) for row in rows)
    amount = f"{outputs / 1e9:.1f} billion" if outputs >= 1e8 else f"{outputs:,}"
    return Verdict(REPRODUCED, f"{amount} elements compared, all equal")


def compared(problem: dict[str, Any]) -> int:
    """Elements of its output; of a generation the tokens that were not extrapolated."""
    if "tokens" in problem:
        return problem["batch"] * problem.get("generated", problem["tokens"])
    counts = ("weights_resident", "outputs", "n")  # n may be the input's
    return next((problem[c] for c in counts if c in problem), 0)


@rule("nothing: nothing that runs here can show it")
def beyond_this_project(case: Case, *, why: str) -> Verdict:
    return Verdict(NOT_TESTABLE, why)
