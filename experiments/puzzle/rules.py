"""Rules of single claims, for the claims that experiment puzzle decides."""

import math

from experiments.counters.rules import LAUNCHES, launch_of
from reprolab import stats
from reprolab.claims import rules
from reprolab.claims.evidence import Case, NotTestable
from reprolab.claims.rules import WITHIN, Verdict, judge, reproduced_if, rule
from reprolab.results import WARP, Results, Row
from reprolab.stats import significant, span

WALL_TIME = "wall_time"  # on the host's clock, which waits for the GPU after every launch
COUNTERS = "counters/nf4_counters"  # next to LAUNCHES: the same kernels, each layer alone


@rule("what fits into the larger cache is at least the part of all bytes that the flip changes")
def cache_is_enough(case: Case, *, over: str, under: str, cache_mb: float) -> Verdict:
    """By arithmetic: MLPs that fit could at best take no time. `over`, `under`: two designs of the
    source's table, whose order flips between its T4 and its L4.
    """
    their = case.source.numbers
    t4, l4 = (their[f"{over}/{gpu}"] / their[f"{under}/{gpu}"] for gpu in ("t4_s", "l4_s"))
    row = case.results().records[0]
    sizes = mlp_bytes(case.results(), row).values()
    if sum(sizes) <= 0:
        raise NotTestable(f"{row.place}: moves no bytes")
    share = 100 * sum(size for size in sizes if size <= 1e6 * cache_mb) / sum(sizes)
    flip = 100 * (t4 / l4 - 1)
    note = f"{share:.1f} % of the bytes fit into {cache_mb:g} MB, the order changes by {flip:.0f} %"
    return Verdict(rules.REPRODUCED if share >= flip else rules.PREMISE_FALSE, note, share)


@rule(f"timed as published, {WITHIN}")
def seconds(case: Case, *, kernel: str = "") -> Verdict:
    """The whole puzzle with a kernel, or else with the library that the cell names; in GB/s where
    the cell's unit says so.
    """
    row = case.measured(kernel or case.cell.at["library"], WALL_TIME)
    in_seconds = row.estimate.scaled(1e-6)
    note = f"{row.kernel} {in_seconds.value:.3f} s"
    return judge(case, row.bandwidth if case.cell.unit == "GB/s" else in_seconds, note)


@rule(
    "{fast} has more warps resident than {slow}, whose warps can be at most {most:g} % of what a "
    "multiprocessor holds"
)
def faster_by_occupancy(case: Case, *, slow: str, fast: str, most: float) -> Verdict:
    """Undecided without that limit, which the source attributes to registers."""
    there = {k: case.rows(k, "achieved_occupancy", COUNTERS) for k in (fast, slow)}
    if min(s.low for s in there[slow]) <= 0:
        raise NotTestable(f"{slow} has no warps on any multiprocessor")
    resident = [stats.ratio(a, b) for a, b in zip(*there.values(), strict=True)]
    fit = {kernel: warps_that_fit(case, kernel) for kernel in (slow, fast)}
    active = {kernel: case.medians(kernel, "active_warps", COUNTERS) for kernel in fit}
    shares = [s.median / 100 for s in there[slow]]
    held = [round(warps) for warps in rules.quotients(active[slow], shares)]
    note = " and ".join(f"{span(active[k])} of {span(fit[k], 1)} warps" for k in fit)
    kind = reproduced_if(all(ratio.low > 1 for ratio in resident))
    if not all(100 * n <= most * warps for n, warps in zip(fit[slow], held, strict=True)):
        kind, note = rules.NOT_TESTABLE, f"{note}: registers of {slow} limit no block"
    ours = stats.pool(resident)
    return Verdict(kind, note, ours.value, ours.interval)


def warps_that_fit(case: Case, kernel: str) -> list[int]:
    counts = []
    for at in case.cell.places:
        launch = launch_of(case.verified(kernel, at, LAUNCHES))
        if launch["blocks_per_multiprocessor"] is None:
            raise NotTestable("the occupancy calculator does not know this GPU")
        counts.append(launch["blocks_per_multiprocessor"] * -(-math.prod(launch["block"]) // WARP))
    return counts


@rule(
    "on each of the two GPUs the same kernel is faster as in the source, beyond the intervals; "
    "where that is {over}, by more in MLPs that fit into the L2 cache than in those that do not"
)
def turned_by_the_cache(case: Case, *, over: str, under: str) -> Verdict:
    """The source's value is its time of `over`, divided by that of `under`."""
    (ours,) = case.ratios(over, under, WALL_TIME)
    results, row = case.results(), case.measured(over, WALL_TIME)
    cache_bytes = results.provenance["gpu"]["l2_bytes"]
    cached, others, shown = [], [], []
    for name, size in mlp_bytes(results, row).items():
        (ratio,) = case.ratios(over, under, f"{WALL_TIME}.{name}")
        (cached if size <= cache_bytes else others).append(ratio)
        shown.append(f"{name} {significant(ratio.value, 3)}")
    kind = rules.side_above(ours, 1) if case.cell.value > 1 else rules.side_below(ours, 1)
    if kind == rules.REPRODUCED and case.cell.value < 1:
        if not cached or not others:  # then the cache is of no difference to the MLPs
            kind = rules.NOT_TESTABLE
        elif max(e.high for e in cached) >= min(e.low for e in others):
            kind = rules.UNDECIDED  # a cache may merge accesses in MLPs of any size
    return Verdict(kind, ", ".join(shown), ours.value, ours.interval)


def mlp_bytes(results: Results, row: Row) -> dict[str, float]:
    """The bytes that each MLP with separate times moves in an iteration: {"2048x8192": 6e7}."""
    measured = {name for r in results.records for name in r.metrics}
    parts = [p for p in results.family.parts.values() if f"{WALL_TIME}.{p.name}" in measured]
    moved, weights = row.bytes_moved / row.problem["iterations"], sum(p.weights for p in parts)
    return {p.name: moved * p.weights / weights for p in parts}
