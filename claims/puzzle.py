"""Rules of one claim alone, for the claims that experiment puzzle decides."""

from claims import rules, stats
from claims.results import KERNEL_TIME
from claims.rules import Case, Finding, rule

WALL_TIME = "wall_time"  # on the host's clock, which waits for the GPU after every launch


@rule("timed as published, at least the source's factor, less {tolerance_percent:g} %")
def gain_as_published(
    case: Case, *, value: float, tolerance_percent: float, slow: str, fast: str
) -> Finding:
    """Decided by the host's clock, as in the source; a gain may be greater on another GPU."""
    (ours,) = case.ratios(slow, fast, WALL_TIME)
    verdict = rules.reproduced_if(stats.is_at_least(ours.value, value, tolerance_percent))
    seconds = [median / 1e6 for median in case.medians(slow, WALL_TIME)]
    seconds += [median / 1e6 for median in case.medians(fast, WALL_TIME)]
    reason = f"{slow}: {seconds[0]:.3f} s, {fast}: {seconds[1]:.3f} s"
    (at,) = case.cell.places
    rows = [case.rows.find(kernel, at) for kernel in (slow, fast)]
    graphs = [found.summary for r in rows if (found := r.metric(KERNEL_TIME)) and found.summary]
    if len(graphs) == len(rows):
        alone = stats.ratio(*graphs)
        reason += f"; without the host between launches {alone.value:.2f} x"
    return Finding(verdict, reason, ours.value, ours.interval)
