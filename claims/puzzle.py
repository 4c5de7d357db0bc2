"""Rules of one claim alone, for the claims that experiment puzzle decides."""

from contextlib import suppress

from claims import rules, stats
from claims.evidence import NotTestable, NotTested
from claims.results import KERNEL_TIME, Record
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
    return Finding(verdict, reason + by_graphs(*rows), ours.value, ours.interval)


def by_graphs(slow: Record, fast: Record) -> str:
    """The gain without the host, where both were captured."""
    graphs = [m.summary for r in (slow, fast) if (m := r.metric(KERNEL_TIME)) and m.summary]
    if len(graphs) < 2:
        return ""
    return f"; without the host between launches {stats.ratio(*graphs).value:.2f} x"


@rule(
    "timed as published, at least the source's factor, less {tolerance_percent:g} %, over the "
    "library, and faster beyond the intervals"
)
def gain_over_peer(
    case: Case, *, value: float, tolerance_percent: float, fast: str, twin: str
) -> Finding:
    """Over Unsloth's way with the user's bitsandbytes; of several, the fastest. `twin`: beside."""
    (at,) = case.cell.places
    ours, peer = case.rows.measured(fast, at, WALL_TIME), fastest_peer(case)
    gain = stats.ratio(peer.summary_of(WALL_TIME), ours.summary_of(WALL_TIME))
    is_enough = stats.is_at_least(gain.value, value, tolerance_percent) and gain.low > 1
    rows = [peer, ours]
    with suppress(NotTested, NotTestable):  # the same kernel in CUDA decides nothing
        rows.append(case.rows.measured(twin, at, WALL_TIME))
    times = (f"{r.kernel}: {r.summary_of(WALL_TIME).median / 1e6:.3f} s" for r in rows)
    reason = ", ".join(times) + by_graphs(peer, ours)
    return Finding(rules.reproduced_if(is_enough), reason, gain.value, gain.interval)


def fastest_peer(case: Case) -> Record:
    (at,) = case.cell.places
    peers = [r.kernel for r in case.rows.results.records if r.origin == "peer"]
    if not peers:
        raise NotTested("no bitsandbytes ran: PEER=path/to/libbitsandbytes_cuda130.so")
    found = []
    for kernel in peers:
        with suppress(NotTested, NotTestable):
            found.append(case.rows.measured(kernel, at, WALL_TIME))
    # Where none is timed, the first one's reason stands for all.
    found = found or [case.rows.measured(peers[0], at, WALL_TIME)]
    return min(found, key=lambda row: row.summary_of(WALL_TIME).median)
