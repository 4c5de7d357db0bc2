"""Rules of one claim alone, for the claims that experiment puzzle decides."""

import math
import re
from contextlib import suppress
from dataclasses import replace

from claims import rules, stats
from claims.evidence import NotTestable, NotTested, Rows
from claims.occupancy import LAUNCHES, WARP, launch_of
from claims.published import Cell
from claims.results import KERNEL_TIME, Record
from claims.rules import Case, Finding, rule
from claims.stats import Estimate, significant, span

WALL_TIME = "wall_time"  # on the host's clock, which waits for the GPU after every launch
COUNTERS = "counters/nf4_counters"  # beside LAUNCHES: the same kernels, each layer alone


@rule("timed as published, at least the source's factor, less {tolerance_percent:g} %")
def gain_as_published(
    case: Case, *, value: float, tolerance_percent: float, slow: str, fast: str
) -> Finding:
    """Decided by the host's clock, as in the source; a gain may be greater on another GPU."""
    ours, reason = gain(case, slow, fast)
    verdict = rules.reproduced_if(stats.is_at_least(ours.value, value, tolerance_percent))
    return Finding(verdict, reason, ours.value, ours.interval)


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
    return [replace(case.cell, at={"library": kernel}) for kernel in peers] or [case.cell]


@rule(
    "timed as published, at least the source's factor, less {tolerance_percent:g} %, over the "
    "library, and faster beyond the intervals",
    split=each_library,
)
def gain_over_peer(
    case: Case, *, value: float, tolerance_percent: float, fast: str, twin: str
) -> Finding:
    """Over Unsloth's way with one bitsandbytes of the user's; `twin`: beside."""
    (place,) = case.cell.places
    ours = case.rows.measured(fast, place, WALL_TIME)
    if "library" not in case.cell.at:
        raise NotTested("no bitsandbytes ran: PEER=path/to/libbitsandbytes_cuda130.so")
    peer = case.rows.measured(case.cell.at["library"], place, WALL_TIME)
    found = stats.ratio(peer.summary_of(WALL_TIME), ours.summary_of(WALL_TIME))
    is_enough = stats.is_at_least(found.value, value, tolerance_percent) and found.low > 1
    rows = [peer, ours]
    with suppress(NotTested, NotTestable):  # the same kernel in CUDA decides nothing
        rows.append(case.rows.measured(twin, place, WALL_TIME))
    reason = ", ".join(map(in_seconds, rows)) + by_graphs(peer, ours)
    return Finding(rules.reproduced_if(is_enough), reason, found.value, found.interval)


@rule(
    "time: {fast} faster as published, beyond the intervals; occupancy: more of its warps are "
    "resident, and those of {slow} can be at most {most:g} % of what a multiprocessor holds"
)
def faster_by_occupancy(case: Case, *, slow: str, fast: str, most: float) -> Finding:
    """Without that limit, which the source puts down to registers, nothing can be said of it."""
    if "rows" not in case.cell.at:
        ours, reason = gain(case, slow, fast)
        return Finding(rules.reproduced_if(ours.low > 1), reason, ours.value, ours.interval)
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
    ours = stats.pool(resident)
    limited = all(100 * n <= most * all_ for n, all_ in zip(fit[slow], held, strict=True))
    if not limited:
        of_slow = [launch_of(launches.verified(slow, at)) for at in case.cell.places]
        registers = span([launch["registers"] for launch in of_slow], 1)
        reason += f"; {registers} registers a thread of {slow} are not the pressure that it names"
        return Finding(rules.NOT_TESTABLE, reason, ours.value, ours.interval)
    verdict = rules.reproduced_if(all(ratio.low > 1 for ratio in resident))
    return Finding(verdict, reason, ours.value, ours.interval)


def warps_that_fit(case: Case, launches: Rows, kernel: str) -> list[int]:
    found = []
    for at in case.cell.places:
        launch = launch_of(launches.verified(kernel, at))
        if launch["blocks_per_multiprocessor"] is None:
            raise NotTestable("the occupancy calculator does not know this GPU")
        warps = -(-math.prod(launch["block"]) // WARP)
        found.append(launch["blocks_per_multiprocessor"] * warps)
    return found


def is_on(case: Case, gpu: str) -> bool:
    """'T4' is on a 'Tesla T4'."""
    return gpu in case.rows.results.gpu.split()


@rule("on the source's GPU, at most its seconds")
def within_target(case: Case, *, value: float, kernel: str) -> Finding:
    row, gpu = case.rows.measured(kernel, {}, WALL_TIME), case.cell.at["gpu"]
    if not is_on(case, gpu):
        here = f"this is {case.rows.results.gpu}, {in_seconds(row)}"
        return Finding(rules.NOT_TESTABLE, f"a target for the {gpu} alone; {here}")
    time = row.summary_of(WALL_TIME)
    seconds, *ends = (us / 1e6 for us in (time.median, time.low, time.high))
    return Finding(rules.reproduced_if(seconds <= value), in_seconds(row), seconds, tuple(ends))


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
    for name, size in mlps_bytes(rows[0]).items():
        metric = f"{WALL_TIME}.{name}"
        both = (case.rows.measured(kernel, {}, metric) for kernel in (over, under))
        found = stats.ratio(*(row.summary_of(metric) for row in both))
        (cached if size <= cache_bytes else others).append(found)
        fits = f" (fits into {cache_bytes / 1e6:.0f} MB of L2)" * (size <= cache_bytes)
        shown.append(f"{name} {significant(found.value, 3)}{fits}")
    reason = f"time of {over} over {under}: {significant(ours.value, 3)}; {', '.join(shown)}"
    gpu = case.cell.at["gpu"]
    if not is_on(case, gpu):
        said = f"only the source's {gpu} can tell; on this {case.rows.results.gpu}, {reason}"
        return Finding(rules.NOT_TESTABLE, said)
    is_same = ours.low > 1 if value > 1 else ours.high < 1
    verdict = rules.reproduced_if(is_same)
    if is_same and value < 1:
        if not cached or not others:
            raise NotTestable(f"the cache is of no difference to the MLPs: {reason}")
        by_more = max(e.high for e in cached) < min(e.low for e in others)
        verdict = rules.REPRODUCED if by_more else rules.PREMISE_FALSE
    return Finding(verdict, reason, ours.value, ours.interval)


def mlps_bytes(row: Record) -> dict[str, float]:
    """What one iteration moves of each MLP, again in every iteration: {"2048x8192": 126.6e6}."""
    named = (re.fullmatch(rf"{WALL_TIME}\.([1-9]\d*)x([1-9]\d*)", name) for name in row.metrics)
    sizes = {f"{m[1]}x{m[2]}": int(m[1]) * int(m[2]) for m in named if m}
    per_iteration = row.bytes_moved / row.problem["iterations"]
    return {name: per_iteration * size / sum(sizes.values()) for name, size in sizes.items()}
