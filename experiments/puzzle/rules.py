"""Rules of single claims, for the claims that experiment puzzle decides."""

import math
from contextlib import suppress
from dataclasses import replace

from experiments.counters.rules.occupancy import LAUNCHES, launch_of
from reprolab import stats
from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.published import Cell
from reprolab.claims.rules import WITHIN, Finding, Ours, reproduced_if, rule
from reprolab.counter_table import WARP
from reprolab.families import in_cuda
from reprolab.results import KERNEL_TIME, Record, Results
from reprolab.stats import Estimate, significant, span

WALL_TIME = "wall_time"  # on the host's clock, which waits for the GPU after every launch
COUNTERS = "counters/nf4_counters"  # next to LAUNCHES: the same kernels, each layer alone


@rule(f"timed as published, {WITHIN}")
def gain_as_published(case: Case, *, slow: str, fast: str, slow_pass: str = "") -> Ours:
    """Decided by the host's clock, as in the source. `slow_pass`: the pass with the row of `slow`,
    if it is another.
    """
    return Ours(*gain(case, slow, fast, slow_pass=slow_pass))


@rule("timed as published, {slow} slower than {fast}, beyond the intervals")
def faster_as_published(case: Case, *, slow: str, fast: str) -> Finding:
    ours, reason = gain(case, slow, fast)
    before, after = (mean_seconds(case.measured(kernel, WALL_TIME)) for kernel in (slow, fast))
    short = f"{before:.3f} s become {after:.3f} s"
    verdict = rules.above_one([ours], case.family_size)
    return Finding(verdict, reason, ours.value, ours.interval, short)


def gain(
    case: Case, slow: str, fast: str, beside: str = "", slow_pass: str = ""
) -> tuple[Estimate, str]:
    """As published. The reason has both times and, if it ran, the time of another kernel for
    comparison, and the gain without the host if both were captured in graphs.
    """
    measured_in = {slow: slow_pass, fast: ""}
    rows = [case.measured(k, WALL_TIME, pass_name=name) for k, name in measured_in.items()]
    ours = uncertainty.ratio(*rows, WALL_TIME)
    graphs = [m.summary for r in rows if (m := r.metric(KERNEL_TIME)) and m.summary]
    if beside:
        with suppress(NotTested, NotTestable):
            rows.append(case.measured(beside, WALL_TIME))
    times_text = ", ".join(map(in_seconds, rows))
    if len(graphs) == 2:
        times_text += f"; without the host between launches {stats.ratio(*graphs).value:.2f} x"
    return ours, times_text


def in_seconds(row: Record) -> str:
    return f"{row.kernel}: {mean_seconds(row):.3f} s"


def mean_seconds(row: Record) -> float:
    return row.metrics[WALL_TIME].log.geometric_mean / 1e6


def each_library(case: Case) -> list[Cell]:
    """One cell for each library of the run, because the source names no version. Not for a rule
    whose argument is a kernel.
    """
    return ("kernel" not in case.comparison.arguments and libraries(case)) or [case.cell]


def libraries(case: Case) -> list[Cell]:
    rows = case.results().records
    peers = dict.fromkeys(row.kernel for row in rows if row.origin == "peer")
    return [replace(case.cell, at=case.cell.at | {"library": kernel}) for kernel in peers]


def library(case: Case) -> str:
    if "library" not in case.cell.at:
        raise NotTested("no bitsandbytes ran: PEER=path/to/libbitsandbytes_cuda130.so")
    return case.cell.at["library"]


@rule(f"timed as published, {WITHIN}", split=each_library)
def gain_over_peer(case: Case, *, fast: str) -> Ours:
    """Over Unsloth's calls of one bitsandbytes of the user's; with the same kernel in CUDA for
    comparison."""
    case.measured(fast, WALL_TIME)  # without this row, a library would not help
    ours, times_text = gain(case, library(case), fast, in_cuda(fast))
    return Ours(ours, times_text, f"{ours.value:.2f} x over {library(case)}")


@rule(f"timed as published, the slowest library over the fastest, {WITHIN}")
def between_libraries(case: Case) -> Ours:
    """Among the libraries of the run."""
    rows = [case.measured(cell.at["library"], WALL_TIME) for cell in libraries(case)]
    if len(rows) < 2:
        raise NotTested("one bitsandbytes ran, of two: PEER=old.so:new.so")
    slow, fast = (pick(rows, key=lambda r: r.summary_of(WALL_TIME).median) for pick in (max, min))
    times_text = f"{in_seconds(slow)}, {in_seconds(fast)}"
    return Ours(uncertainty.ratio(slow, fast, WALL_TIME), times_text, times_text)


@rule("what fits into the larger cache is at least the part of all bytes that the flip changes")
def cache_is_enough(case: Case, *, over: str, under: str, cache_mb: float) -> Finding:
    """By arithmetic: MLPs that fit could at best take no time. `over`, `under`: two designs of the
    source's table, whose order flips between its T4 and its L4.
    """
    number = case.source.number
    t4, l4 = (number(f"{over}/{gpu}") / number(f"{under}/{gpu}") for gpu in ("t4_s", "l4_s"))
    results = case.results()
    row = results.records[0]
    sizes = {
        n: share * row.bytes_moved / row.problem["iterations"] for n, share in mlps(results).items()
    }
    if sum(sizes.values()) <= 0:
        raise NotTestable(f"{row.place}: moves no bytes")
    fitting = {name: size for name, size in sizes.items() if size <= 1e6 * cache_mb}
    share, flip = 100 * sum(fitting.values()) / sum(sizes.values()), 100 * (t4 / l4 - 1)
    short = f"{share:.1f} % of the bytes fit, the order changes by {flip:.0f} %"
    named = ", ".join(fitting) or "none"
    reason = f"of the MLPs, {named} fits into {cache_mb:g} MB: {short}"
    verdict = rules.REPRODUCED if share >= flip else rules.PREMISE_FALSE
    return Finding(verdict, reason, share, short=short)


@rule(f"timed as published, {WITHIN}", split=each_library)
def seconds(case: Case, *, kernel: str = "") -> Ours:
    """The whole puzzle with a kernel, or else with one bitsandbytes of the user's; in GB/s where
    the comparison's unit says so.
    """
    row = case.measured(kernel or library(case), WALL_TIME)
    times = row.summary_of(WALL_TIME)
    in_gb_s = case.comparison.unit == "GB/s"
    ours = stats.gb_per_s(row.bytes_moved, times) if in_gb_s else times.estimate.scaled(1e-6)
    text = f"{row.kernel}: {times.median / 1e6:.3f} s"
    return Ours(ours, text, text)


@rule(
    "{fast} has more warps resident than {slow}, whose warps can be at most {most:g} % of what a "
    "multiprocessor holds"
)
def faster_by_occupancy(case: Case, *, slow: str, fast: str, most: float) -> Finding:
    """Undecided without that limit, which the source attributes to registers."""
    there = {k: case.summaries(k, "achieved_occupancy", COUNTERS) for k in (fast, slow)}
    if min(s.low for s in there[slow]) <= 0:
        raise NotTestable(f"{slow} has no warps on any multiprocessor")
    resident = [stats.ratio(a, b) for a, b in zip(*there.values(), strict=True)]
    fit = {kernel: warps_that_fit(case, kernel) for kernel in (slow, fast)}
    active = {kernel: case.medians(kernel, "active_warps", COUNTERS) for kernel in fit}
    shares = [s.median / 100 for s in there[slow]]
    held = [round(warps) for warps in rules.quotients(active[slow], shares)]
    words = [f"{span(fit[k], 1)} with {k}, of which {span(active[k])} are there" for k in fit]
    gpu = case.results(LAUNCHES).gpu
    reason = (
        f"of the {span(held, 1)} warps that a multiprocessor of this {gpu} holds, there can be "
        f"{' and '.join(words)} on average"
    )
    short = f"{' and '.join(span(active[k]) for k in fit)} warps are resident"
    ours, verdict = stats.pool(resident), reproduced_if(all(ratio.low > 1 for ratio in resident))
    if not all(100 * n <= most * warps for n, warps in zip(fit[slow], held, strict=True)):
        of_slow = [launch_of(case.verified(slow, at, LAUNCHES)) for at in case.cell.places]
        registers = span([launch["registers"] for launch in of_slow], 1)
        short = f"{registers} registers per thread of {slow} limit no block"
        reason, verdict = f"{reason}; {short}", rules.NOT_TESTABLE
    return Finding(verdict, reason, ours.value, ours.interval, short)


def warps_that_fit(case: Case, kernel: str) -> list[int]:
    counts = []
    for at in case.cell.places:
        launch = launch_of(case.verified(kernel, at, LAUNCHES))
        if launch["blocks_per_multiprocessor"] is None:
            raise NotTestable("the occupancy calculator does not know this GPU")
        warps = -(-math.prod(launch["block"]) // WARP)
        counts.append(launch["blocks_per_multiprocessor"] * warps)
    return counts


@rule(
    "on each of the two GPUs the same kernel is faster as in the source, beyond the intervals; "
    "where that is {over}, by more in MLPs that fit into the L2 cache than in those that do not"
)
def turned_by_the_cache(case: Case, *, over: str, under: str) -> Finding:
    """The source's value is its time of `over`, divided by that of `under`."""
    (ours,) = case.ratios(over, under, WALL_TIME)
    results = case.results()
    cache_bytes = results.provenance["gpu"]["l2_bytes"]
    cached, others, shown = [], [], []
    row = case.measured(over, WALL_TIME)
    for name, share in mlps(results).items():
        size = share * row.bytes_moved / row.problem["iterations"]  # moved again in each
        (ratio,) = case.ratios(over, under, f"{WALL_TIME}.{name}")
        (cached if size <= cache_bytes else others).append(ratio)
        fits = f" (fits into {cache_bytes / 1e6:.0f} MB of L2)" * (size <= cache_bytes)
        shown.append(f"{name} {significant(ratio.value, 3)}{fits}")
    reason = f"time of {over} over {under}: {significant(ours.value, 3)}; {', '.join(shown)}"
    slower, faster = ours.low > 1, ours.high < 1
    verdict = reproduced_if(slower, faster) if case.value > 1 else reproduced_if(faster, slower)
    if verdict == rules.REPRODUCED and case.value < 1:
        if not cached or not others:  # then the cache is of no difference to the MLPs
            verdict = rules.NOT_TESTABLE
        elif max(e.high for e in cached) >= min(e.low for e in others):
            verdict = rules.UNDECIDED  # a cache may merge accesses in MLPs of any size
    return Finding(verdict, reason, ours.value, ours.interval)


def mlps(results: Results) -> dict[str, float]:
    """Each MLP with separate times, and its share of all weights: {"2048x8192": 0.21}."""
    measured = {name for r in results.records for name in r.metrics}
    parts = [p for p in results.family.parts.values() if f"{WALL_TIME}.{p.name}" in measured]
    weights = sum(p.weights for p in parts)
    return {p.name: p.weights / weights for p in parts}
