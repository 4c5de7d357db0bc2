"""Rules of one claim alone, for the claims that experiment transpose decides."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from claims import rules
from claims.evidence import NotTestable, NotTested
from claims.rules import Case, Finding, rule
from records import stats
from records.families import in_cuda
from records.results import Record

TILE_BYTES = 4 * 32 * 32  # that a block of the post's kernels loads


@rule(
    "in Mojo with right indices, over CUDA, "
    + rules.WITHIN
    + "; without Mojo only whether the two "
    "do the same task"
)
def same_task(
    case: Case,
    *,
    value: float,
    tolerance_percent: float,
    metric: str,
    mojo: str,
    published: str,
) -> Finding:
    """`mojo` has right indices, `published` the source's own."""
    (at,) = case.cell.places
    cuda, rebuilt = in_cuda(mojo), in_cuda(published)
    if not ran(case, mojo):
        return without_mojo(case, metric, cuda, rebuilt)
    ours = case.rows.measured(mojo, at, metric)
    theirs = case.rows.measured(cuda, at, metric)
    ratio = stats.ratio(theirs.summary_of(metric), ours.summary_of(metric))
    found = rules.judge(case, ratio, value, tolerance_percent)
    short = reason = (
        f"with right indices {mojo}: {ours.speed.value:.0f} GB/s, {cuda}: "
        f"{theirs.speed.value:.0f} GB/s"
    )
    try:
        as_published = case.rows.measured(published, at, metric, may_deviate=True)
    except (NotTested, NotTestable):
        return replace(found, reason=f"{reason}; {found.reason}", short=short)
    if as_published.deviates:
        reason += (
            f"; the post's own kernel does another task: {wrong_elements(as_published)}, at "
            f"{as_published.speed.value:.0f} GB/s"
        )
    return replace(found, reason=f"{reason}; {found.reason}", short=short)


def ran(case: Case, *kernels: str) -> bool:
    """Whether all have rows, whatever became of them; no run before there was Mojo has its."""
    (at,) = case.cell.places
    try:
        return all(case.rows.find(kernel, at) for kernel in kernels)
    except NotTested:
        return False


def without_mojo(case: Case, metric: str, cuda: str, rebuilt: str) -> Finding:
    """If the Mojo code's indices do not transpose, nothing is compared."""
    (at,) = case.cell.places
    right, mojos = (case.rows.measured(k, at, metric, may_deviate=True) for k in (cuda, rebuilt))
    ours = stats.ratio(right.summary_of(metric), mojos.summary_of(metric))
    reason = (
        "Mojo itself was not run; in CUDA, its indices and the right ones move the same bytes at "
        f"{mojos.speed.value:.0f} and {right.speed.value:.0f} GB/s, so its speed may well stand"
    )
    if mojos.outcome == "bit_exact":
        return Finding(rules.NOT_TESTABLE, reason, ours.value, ours.interval)
    reason = f"not the same task: with the Mojo code's indices {wrong_elements(mojos)}; {reason}"
    return Finding(rules.PREMISE_FALSE, reason, ours.value, ours.interval)


def wrong_elements(row: Record) -> str:
    return f"{row.mismatches or 0} of {row.problem['n']} elements are wrong"


@rule(
    "in Mojo, or without it in CUDA, the source's check passes, and on random data every bit "
    "equals the reference"
)
def own_check(case: Case, *, kernel: str) -> Finding:
    found, _ = in_own_language(case, partial(checked, case), kernel=kernel)
    return found


def checked(case: Case, kernel: str) -> Finding:
    """The source checks a matrix of one constant, which is its own transpose in any case."""
    random, constant = (case.rows.verified(kernel, {"data": d}) for d in ("random", "constant"))
    if constant.outcome != "bit_exact":
        return Finding(rules.NOT_REPRODUCED, f"the source's check fails here: {constant.reason}")
    if random.outcome == "bit_exact":
        reason = "the source's check passes, and on random data the output is right"
        return Finding(rules.REPRODUCED, reason)
    reason = (
        "the check passes here too, but shows nothing: a matrix of one constant is its own "
        f"transpose whatever the indices; on random data {random.reason}"
    )
    wrong = random.mismatches or 0
    short = f"passes on a constant, which is its own transpose; on random data {wrong} are wrong"
    return Finding(rules.PREMISE_FALSE, reason, short=short)


IN_EITHER = "in Mojo, or without it in CUDA, "


@rule(IN_EITHER + rules.WITHIN)
def share_of_peak(
    case: Case, *, value: float, tolerance_percent: float, metric: str, kernel: str
) -> Finding:
    needed = {"value": value, "tolerance_percent": tolerance_percent, "metric": metric}
    decide = partial(rules.share_of_peak_within, case, **needed)
    found, _ = in_own_language(case, decide, kernel=kernel)
    return found


@rule(IN_EITHER + "one round for each access, up to {tolerance_percent:g} % more allowed")
def one_round_each(
    case: Case,
    *,
    tolerance_percent: float,
    accesses: str,
    rounds: str,
    kernel: str,
    beside: str,
) -> Finding:
    needed = {"tolerance_percent": tolerance_percent, "accesses": accesses, "rounds": rounds}
    decide = partial(rules.one_round_each, case, **needed)
    found, _ = in_own_language(case, decide, kernel=kernel, beside=beside)
    return found


@rule(IN_EITHER + rules.WITHIN)
def gain(
    case: Case,
    *,
    value: float,
    tolerance_percent: float,
    metric: str,
    slow: str,
    fast: str,
    counters: str = "",
) -> Finding:
    """Decided by times; a pass of `counters`, where it was taken, says how much is under way at
    once.
    """
    needed = {"value": value, "tolerance_percent": tolerance_percent, "metric": metric}
    decide = partial(rules.gain_in_speed, case, **needed)
    found, decided = in_own_language(case, decide, slow=slow, fast=fast)
    if not counters:
        return found
    try:
        tiles = [tiles_under_way(case, counters, kernel) for kernel in decided.values()]
    except (NotTested, NotTestable):
        return found
    both = " and ".join(
        f"{stats.significant(n, 3)} ({stats.significant(n * TILE_BYTES / 1e3, 3)} kB)"
        for n in tiles
    )
    tiles_of = f"tiles of {' and '.join(decided.values())} under way on a multiprocessor at once"
    return replace(found, reason=f"{found.reason}; {tiles_of}: {both}")


def in_own_language(
    case: Case, decide: Callable[..., Finding], **mojo: str
) -> tuple[Finding, dict[str, str]]:
    """With the kernels that decided. The post's numbers are Mojo's: the counterparts in CUDA stand
    beside them, and decide only where Mojo was not run.
    """
    cuda = {name: in_cuda(kernel) for name, kernel in mojo.items()}
    if not ran(case, *mojo.values()):
        found = decide(**cuda)
        return replace(found, reason=f"Mojo itself was not run; in CUDA: {found.reason}"), cuda
    found = decide(**mojo)
    with suppress(NotTested, NotTestable):
        if (ours := decide(**cuda).ours) is not None:
            beside = f"in CUDA {stats.significant(ours, 3)} {case.comparison.unit}"
            found = replace(found, reason=f"{found.reason}; {beside}")
    return found, mojo


@rule(IN_EITHER + rules.WITHIN)
def speed(
    case: Case, *, value: float, tolerance_percent: float, metric: str, counterparts: str
) -> Finding:
    """Speed of the kernel that stands for the source's; `counterparts`: its table and language.

    A cell names the source's kernel; setup.our_kernels and setup.own_language say which is ours.
    """
    source, name = case.source, case.cell.at["kernel"]
    cuda = source.fact("our_kernels")[counterparts][name]
    own = source.fact("own_language").get(counterparts, {}).get(name, cuda)
    case = replace(case, cell=replace(case.cell, places=({"data": "random"},)))
    needed = {"value": value, "tolerance_percent": tolerance_percent, "metric": metric}
    decide = partial(rules.speed_within, case, **needed)
    found, _ = in_own_language(case, decide, kernel=own)
    return found


def tiles_under_way(case: Case, counters: str, kernel: str) -> float:
    """On average, on a multiprocessor: one for each block that is there."""
    (at,) = case.cell.places
    rows = case.rows_of(counters)

    def counted(metric: str) -> float:
        return rows.measured(kernel, at, metric).summary_of(metric).median

    blocks_per_warp = rules.quotients([counted("blocks_launched")], [counted("warps_launched")])
    return counted("active_warps") * blocks_per_warp[0]
