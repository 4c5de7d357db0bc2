"""Rules of one claim alone, for the claims that experiment counters decides."""

from claims import stats
from claims.rules import PREMISE_FALSE, REPRODUCED, Case, Finding, judge, rule
from claims.stats import Summary, significant


@rule(
    "ours within {tolerance_percent:g} % of the source's ratio; where it has none, for an L1 hit "
    "over shared memory, at least {least:g} less the same tolerance"
)
def latency_ratio(
    case: Case,
    *,
    tolerance_percent: float,
    metric: str,
    least: float,
    load: str,
    store: str,
    stored_and_loaded: str,
    value: float | None = None,
) -> Finding:
    """`slow` over `fast`, which the cell names, in cycles.

    A table that every thread reads lies in L1 after its first touch: a cell without a value asks
    whether shared memory has the source's advantage there too. A store returns nothing to wait for:
    whatever its number, it is no latency that a load's could be divided by.
    """

    def cycles(kernel: str) -> Summary:
        return case.rows.measured(kernel, {}, metric).summary_of(metric)

    slow, fast = (case.cell.at[name] for name in ("slow", "fast"))
    ours = stats.ratio(cycles(slow), cycles(fast))
    both = " and ".join(f"{k} {significant(cycles(k).median, 3)}" for k in (slow, fast))
    here = f"{both} cycles on this {case.rows.results.gpu}"
    if value is None:
        holds = stats.is_at_least(ours.value, least, tolerance_percent)
        reason = f"{here}: a table of 64 bytes that every thread reads is in L1 after its first use"
        return Finding(REPRODUCED if holds else PREMISE_FALSE, reason, ours.value, ours.interval)
    if fast == store:
        reason = (
            "divides a load by a store, which nothing waits for: here a thread can store again "
            f"after {significant(cycles(store).median, 3)} cycles, and what it stored can be read "
            f"after {significant(cycles(stored_and_loaded).median, 3)}, where a load alone takes "
            f"{significant(cycles(load).median, 3)}"
        )
        return Finding(PREMISE_FALSE, reason)
    found = judge(ours, value, tolerance_percent)
    reason = f"{found.reason}; {here}, the source's figures are of its {case.source.gpu}"
    return Finding(found.verdict, reason, found.ours, found.interval)
