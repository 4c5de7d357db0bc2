"""Rules of one claim alone, for the claims that experiment puzzle decides."""

import math
from contextlib import suppress
from dataclasses import replace

from claims import rules
from claims.evidence import NotTestable, NotTested, Rows
from claims.occupancy import LAUNCHES, WARP, launch_of
from claims.published import Cell
from claims.rules import Case, Finding, rule
from records import stats
from records.families import in_cuda
from records.results import KERNEL_TIME, Record, Results
from records.stats import Estimate, significant, span

WALL_TIME = "wall_time"  # on the host's clock, which waits for the GPU after every launch
COUNTERS = "counters/nf4_counters"  # beside LAUNCHES: the same kernels, each layer alone


@rule("timed as published, " + rules.WITHIN)
def gain_as_published(
    case: Case, *, value: float, tolerance_percent: float, slow: str, fast: str
) -> Finding:
    """Decided by the host's clock, as in the source."""
    ours, reason = gain(case, slow, fast)
    found = rules.judge(case, ours, value, tolerance_percent)
    return replace(found, reason=f"{reason}; {found.reason}")


@rule("timed as published, {slow} slower than {fast}, beyond the intervals")
def faster_as_published(case: Case, *, slow: str, fast: str) -> Finding:
    ours, reason = gain(case, slow, fast)
    verdict = rules.NOT_REPRODUCED if ours.high < 1 else rules.UNDECIDED
    verdict = rules.REPRODUCED if ours.low > 1 else verdict
    seconds = [
        median / 1e6 for kernel in (slow, fast) for median in case.medians(kernel, WALL_TIME)
    ]
    short = "{:.3f} s become {:.3f} s".format(*seconds)
    return Finding(verdict, reason, ours.value, ours.interval, short)


def gain(case: Case, slow: str, fast: str) -> tuple[Estimate, str]:
    """As published; with both times, and with the gain by graphs."""
    rows = [case.rows.measured(kernel, {}, WALL_TIME) for kernel in (slow, fast)]
    found = stats.ratio(*(row.summary_of(WALL_TIME) for row in rows))
    return found, ", ".join(map(in_seconds, rows)) + by_graphs(*rows)


def in_seconds(row: Record) -> str:
    return f"{row.kernel}: {row.summary_of(WALL_TIME).median / 1e6:.3f} s"


def by_graphs(slow: Record, fast: Record) -> str:
    """The gain without the host, where both were captured."""
    graphs = [m.summary for r in (slow, fast) if (m := r.metric(KERNEL_TIME)) and m.summary]
    if len(graphs) < 2:
        return ""
    return f"; without the host between launches {stats.ratio(*graphs).value:.2f} x"


def each_library(case: Case) -> list[Cell]:
    """One cell for each library that the run was given; the source names no version of its own."""
    rows = case.rows.results.records
    peers = dict.fromkeys(row.kernel for row in rows if row.origin == "peer")
    ats = [case.cell.at | {"library": kernel} for kernel in peers]
    return [replace(case.cell, at=at) for at in ats] or [case.cell]


@rule("timed as published, " + rules.WITHIN, split=each_library)
def gain_over_peer(case: Case, *, value: float, tolerance_percent: float, fast: str) -> Finding:
    """Over Unsloth's way with one bitsandbytes of the user's."""
    ours = case.rows.measured(fast, {}, WALL_TIME)
    if "library" not in case.cell.at:
        raise NotTested("no bitsandbytes ran: PEER=path/to/libbitsandbytes_cuda130.so")
    peer = case.rows.measured(case.cell.at["library"], {}, WALL_TIME)
    ratio = stats.ratio(peer.summary_of(WALL_TIME), ours.summary_of(WALL_TIME))
    found = rules.judge(case, ratio, value, tolerance_percent)
    rows, short = [peer, ours], f"{ratio.value:.2f} x over {peer.kernel}"
    with suppress(NotTested, NotTestable):  # the same kernel in CUDA decides nothing
        rows.append(case.rows.measured(in_cuda(fast), {}, WALL_TIME))
    reason = ", ".join(map(in_seconds, rows)) + by_graphs(peer, ours)
    return replace(found, reason=f"{reason}; {found.reason}", short=short)


@rule("timed as published, " + rules.WITHIN, split=each_library)
def seconds_of_library(case: Case, *, value: float, tolerance_percent: float) -> Finding:
    """Seconds of Unsloth's code with a bitsandbytes of the user's."""
    if "library" not in case.cell.at:
        raise NotTested("no bitsandbytes ran: PEER=path/to/libbitsandbytes_cuda130.so")
    return in_its_unit(case, case.cell.at["library"], value, tolerance_percent)


@rule("timed as published, " + rules.WITHIN)
def seconds_of_kernel(
    case: Case, *, value: float, tolerance_percent: float, kernel: str
) -> Finding:
    return in_its_unit(case, kernel, value, tolerance_percent)


def in_its_unit(case: Case, kernel: str, value: float, tolerance_percent: float) -> Finding:
    """The whole puzzle, in seconds or, where the comparison's unit says so, in GB/s."""
    row = case.rows.measured(kernel, {}, WALL_TIME)
    times = row.summary_of(WALL_TIME)
    ours = times.estimate.scaled(1e-6)
    if case.comparison.unit == "GB/s":
        ours = stats.gb_per_s(row.bytes_moved, times)
    found = rules.judge(case, ours, value, tolerance_percent)
    return replace(found, reason=f"{in_seconds(row)}; {found.reason}", short=in_seconds(row))


@rule(
    "{fast} has more warps resident than {slow}, whose warps can be at most {most:g} % of what a "
    "multiprocessor holds"
)
def faster_by_occupancy(case: Case, *, slow: str, fast: str, most: float) -> Finding:
    """Without that limit, which the source puts down to registers, nothing can be said of it."""
    there = {k: case.summaries(k, "achieved_occupancy", COUNTERS) for k in (fast, slow)}
    if min(s.low for s in there[slow]) <= 0:
        raise NotTestable(f"{slow} has no warps on any multiprocessor")
    resident = [stats.ratio(a, b) for a, b in zip(*there.values(), strict=True)]
    launches = case.rows_of(LAUNCHES)
    fit = {kernel: warps_that_fit(case, launches, kernel) for kernel in (slow, fast)}
    active = {k: [s.median for s in case.summaries(k, "active_warps", COUNTERS)] for k in fit}
    shares = [s.median / 100 for s in there[slow]]
    held = [round(warps) for warps in rules.quotients(active[slow], shares)]
    words = [f"{span(fit[k], 1)} with {k}, of which {span(active[k])} are there" for k in fit]
    reason = (
        f"of the {span(held, 1)} warps that a multiprocessor of this {launches.results.gpu} holds, "
        f"there can be {' and '.join(words)} on average"
    )
    short = f"{' and '.join(span(active[k]) for k in fit)} warps are resident"
    ours = stats.pool(resident)
    limited = all(100 * n <= most * all_ for n, all_ in zip(fit[slow], held, strict=True))
    if not limited:
        of_slow = [launch_of(launches.verified(slow, at)) for at in case.cell.places]
        registers = span([launch["registers"] for launch in of_slow], 1)
        short = f"{registers} registers per thread of {slow} limit no block"
        reason += f"; {short}"
        return Finding(rules.NOT_TESTABLE, reason, ours.value, ours.interval, short)
    verdict = rules.reproduced_if(all(ratio.low > 1 for ratio in resident))
    return Finding(verdict, reason, ours.value, ours.interval, short)


def warps_that_fit(case: Case, launches: Rows, kernel: str) -> list[int]:
    found = []
    for at in case.cell.places:
        launch = launch_of(launches.verified(kernel, at))
        if launch["blocks_per_multiprocessor"] is None:
            raise NotTestable("the occupancy calculator does not know this GPU")
        warps = -(-math.prod(launch["block"]) // WARP)
        found.append(launch["blocks_per_multiprocessor"] * warps)
    return found


@rule(
    "on each of the two GPUs the same kernel is faster as in the source, beyond the intervals; "
    "where that is {over}, by more in MLPs that fit into the L2 cache than in those that do not"
)
def turned_by_the_cache(case: Case, *, value: float, over: str, under: str) -> Finding:
    """`value`: the source's time of `over`, divided by that of `under`."""
    rows = [case.rows.measured(kernel, {}, WALL_TIME) for kernel in (over, under)]
    ours = stats.ratio(*(row.summary_of(WALL_TIME) for row in rows))
    cache_bytes = case.rows.results.provenance["gpu"]["l2_bytes"]
    cached, others, shown = [], [], []
    for name, size in mlps_bytes(case.rows.results, rows[0]).items():
        metric = f"{WALL_TIME}.{name}"
        both = (case.rows.measured(kernel, {}, metric) for kernel in (over, under))
        found = stats.ratio(*(row.summary_of(metric) for row in both))
        (cached if size <= cache_bytes else others).append(found)
        fits = f" (fits into {cache_bytes / 1e6:.0f} MB of L2)" * (size <= cache_bytes)
        shown.append(f"{name} {significant(found.value, 3)}{fits}")
    reason = f"time of {over} over {under}: {significant(ours.value, 3)}; {', '.join(shown)}"
    is_same = ours.low > 1 if value > 1 else ours.high < 1
    is_other = ours.high < 1 if value > 1 else ours.low > 1
    verdict = rules.UNDECIDED if not is_same and not is_other else rules.reproduced_if(is_same)
    if is_same and value < 1:
        if not cached or not others:  # then the cache is of no difference to the MLPs
            return Finding(rules.NOT_TESTABLE, reason, ours.value, ours.interval)
        by_more = max(e.high for e in cached) < min(e.low for e in others)
        verdict = rules.REPRODUCED if by_more else rules.PREMISE_FALSE
    return Finding(verdict, reason, ours.value, ours.interval)


def mlps_bytes(results: Results, row: Record) -> dict[str, float]:
    """What one iteration moves of each MLP, again in every iteration: {"2048x8192": 126.6e6}."""
    found = [p for p in results.family.parts.values() if f"{WALL_TIME}.{p.name}" in row.metrics]
    per_weight = row.bytes_moved / row.problem["iterations"] / sum(p.weights for p in found)
    return {p.name: per_weight * p.weights for p in found}
