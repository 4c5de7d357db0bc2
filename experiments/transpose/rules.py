"""Rules of single claims, for the claims that experiment transpose decides."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.rules import WITHIN, Decide, Finding, Ours, judge, rule
from reprolab.families import in_cuda
from reprolab.results import COPY, KERNEL_TIME, Outcome, Record
from reprolab.stats import Estimate, difference_percent, out_of, significant

TILE_BYTES = 4 * 32 * 32  # that a block of the post's kernels loads
IN_EITHER = "in Mojo, or without it in CUDA, "  # begins the criteria of rules in_own_language


def ran(case: Case, *kernels: str) -> bool:
    """Whether all have rows, with any outcome; runs older than the Mojo kernels lack theirs."""
    try:
        return all(case.find(kernel, case.place) for kernel in kernels)
    except NotTested:
        return False


def in_own_language(*names: str) -> Callable[[Decide], Decide]:
    """The arguments of these names are kernels in Mojo, which the post's numbers are about. Their
    counterparts in CUDA are shown for comparison, and decide only if Mojo was not run.
    """

    def of_both(function: Decide) -> Decide:
        @wraps(function)
        def decide(case: Case, **arguments: Any) -> Finding:
            mojo = {name: arguments[name] for name in names}
            cuda = arguments | {name: in_cuda(kernel) for name, kernel in mojo.items()}
            if not ran(case, *mojo.values()):
                finding = judge(case, function(case, **cuda))
                reason = f"Mojo itself was not run; in CUDA: {finding.reason}"
                return replace(finding, reason=reason)
            finding = judge(case, function(case, **arguments))
            with suppress(NotTested, NotTestable):
                if (ours := judge(case, function(case, **cuda)).ours) is not None:
                    beside = f"in CUDA {significant(ours, 3)} {case.comparison.unit}"
                    finding = replace(finding, reason=f"{finding.reason}; {beside}")
            return finding

        return decide

    return of_both


def speeds(*rows: Record) -> str:
    return ", ".join(f"{row.kernel}: {row.bandwidth.value:.0f} GB/s" for row in rows)


def confirmed_only(finding: Finding) -> Finding:
    """The finding, unless it refutes a speed of the author's own code, which ours cannot."""
    if finding.verdict != rules.NOT_REPRODUCED:
        return finding
    short = "ours is written anew; the author's own code, which was not run, may differ"
    reason = f"{short}; {finding.reason}"
    return replace(finding, verdict=rules.NOT_TESTABLE, reason=reason, short=short)


ANEW = "; otherwise nothing is decided, as ours are written anew"


@rule(f"in Mojo over CUDA, {WITHIN}{ANEW}")
def mojo_over_cuda(case: Case, *, mojo: str) -> Finding:
    theirs = case.measured(in_cuda(mojo), KERNEL_TIME)
    if not ran(case, mojo):
        raise NotTestable("Mojo itself was not run")
    ours = case.measured(mojo, KERNEL_TIME)
    said = speeds(ours, theirs)
    ratio = uncertainty.ratio(theirs, ours, KERNEL_TIME)
    return confirmed_only(judge(case, Ours(ratio, said, said)))


@rule(IN_EITHER + "with the source's own indices every element is where a transpose has it")
@in_own_language("published")
def same_task(case: Case, *, published: str) -> Finding:
    """`published` has the indices of the source's Mojo kernel: if they do not transpose, the source
    compared two different tasks.
    """
    row = case.measured(published, KERNEL_TIME, may_deviate=True)
    verdict, said = rules.REPRODUCED, "it transposes"
    if row.deviates:
        wrong = f"{out_of(row.mismatches or 0, row.problem['n'])} elements are wrong"
        verdict, said = rules.PREMISE_FALSE, f"not the same task: {wrong}"
    return Finding(verdict, f"{said}, at {row.bandwidth.value:.0f} GB/s", short=said)


@rule(IN_EITHER + "the source's check passes, and on random data every bit equals the reference")
@in_own_language("kernel")
def own_check(case: Case, *, kernel: str) -> Finding:
    """The source checks a constant matrix, which is its own transpose in any case."""
    random, constant = (case.verified(kernel, {"data": d}) for d in ("random", "constant"))
    if constant.outcome != Outcome.BIT_EXACT:
        return Finding(rules.NOT_REPRODUCED, f"the source's check fails here: {constant.reason}")
    if random.outcome == Outcome.BIT_EXACT:
        reason = "the source's check passes, and on random data the output is right"
        return Finding(rules.REPRODUCED, reason)
    reason = (
        "the check passes here too, but shows nothing: a matrix of one constant is its own "
        f"transpose whatever the indices; on random data {random.reason}"
    )
    short = "its matrix of one constant is its own transpose"
    return Finding(rules.PREMISE_FALSE, reason, short=short)


@rule(IN_EITHER + WITHIN + ANEW)
@in_own_language("kernel")
def share_of_peak(case: Case, *, kernel: str) -> Finding:
    """The share of the GPU's theoretical peak, in percent; a declared deviation is allowed."""
    row, results = case.measured(kernel, KERNEL_TIME, may_deviate=True), case.results()
    if results.peak_gb_s is None:
        return Finding(rules.NOT_TESTABLE, "this GPU does not say its theoretical bandwidth")
    ends = (row.bandwidth.value, *row.bandwidth.interval)
    ours = Estimate(*(100 * end / results.peak_gb_s for end in ends))
    finding = judge(case, Ours(ours))
    reason = (
        f"{finding.reason}; {row.bandwidth.value:.0f} of {results.peak_gb_s:.0f} GB/s in theory, "
        f"where the source takes {case.source.fact('peak_gb_s')} GB/s for its {case.source.gpu}"
    )
    copy = results.find(row.problem["name"], COPY)
    if copy is not None and copy.bandwidth is not None:
        of_copy = 100 * row.bandwidth.value / copy.bandwidth.value
        reason += f"; of what a copy reaches here it is {of_copy:.1f} %"
    return confirmed_only(replace(finding, reason=reason))


STORES = {"accesses": "shared_stores", "rounds": "shared_store_wavefronts"}


@rule(IN_EITHER + "one round for each access, up to {tolerance_percent:g} % more allowed")
@in_own_language("kernel", "beside")
def one_round_each(case: Case, *, kernel: str, beside: str) -> Finding:
    return rules.one_round_each(case, kernel=kernel, beside=beside, **STORES)


@rule(IN_EITHER + "fewer rounds for each access than without the swizzle")
@in_own_language("swizzled", "plain")
def fewer_rounds(case: Case, *, swizzled: str, plain: str) -> Finding:
    (ours,), (without,) = (
        rules.rounds_per_access(case, kernel, **STORES) for kernel in (swizzled, plain)
    )
    said = f"{significant(ours, 3)} rounds for each access, {significant(without, 3)} without"
    verdict = rules.side_of_margins([rules.percent_below(ours, without)])
    return Finding(verdict, said, ours)


@rule(IN_EITHER + WITHIN)
def gain(case: Case, *, slow: str, fast: str, counters: str = "") -> Finding:
    """Decided by times; a pass of `counters`, if any, adds the amount of data in flight."""
    finding = gain_alone(case, slow=slow, fast=fast)
    if not counters:
        return finding
    decided = [slow, fast] if ran(case, slow, fast) else [in_cuda(slow), in_cuda(fast)]
    with suppress(NotTested, NotTestable):
        tiles = [tiles_under_way(case, counters, kernel) for kernel in decided]
        both = " and ".join(
            f"{significant(n, 3)} ({significant(n * TILE_BYTES / 1e3, 3)} kB)" for n in tiles
        )
        tiles_of = f"tiles of {' and '.join(decided)} under way on a multiprocessor at once"
        finding = replace(finding, reason=f"{finding.reason}; {tiles_of}: {both}")
    return finding


@in_own_language("slow", "fast")
def gain_alone(case: Case, *, slow: str, fast: str) -> Ours:
    return alone(case, slow, fast)


def alone(case: Case, slow: str, fast: str) -> Ours:
    before, after = (case.measured(kernel, KERNEL_TIME) for kernel in (slow, fast))
    said = speeds(before, after)
    theirs = [case.source.number(path) for path in case.cell.paths[::-1]]
    listed = " and ".join(f"{gb_s:g}" for gb_s in theirs)
    ours = (row.bandwidth.value for row in (before, after))
    off = [difference_percent(*pair) for pair in zip(ours, theirs, strict=True)]
    reason = f"{said}; the source has {listed} GB/s on its {case.source.gpu}, from which ours "
    reason += f"differ by {' and '.join(f'{percent:+.1f}' for percent in off)} %"
    return Ours(uncertainty.ratio(before, after, KERNEL_TIME), reason, said)


@rule(f"in CUDA, {WITHIN}")
def cuda_gain(case: Case, *, slow: str, fast: str) -> Ours:
    """From the post about the CUDA version."""
    return alone(case, slow, fast)


def tiles_under_way(case: Case, counters: str, kernel: str) -> float:
    """The average on a multiprocessor: one tile for each active block."""
    names = ("blocks_launched", "warps_launched", "active_warps")
    blocks, warps, active = (case.medians(kernel, name, counters) for name in names)
    return active[0] * rules.quotients(blocks, warps)[0]


@rule(IN_EITHER + WITHIN + ANEW)
def speed(case: Case, *, counterparts: str) -> Finding:
    """In GB/s, for the kernel that represents the source's; `counterparts`: its table and language.

    A cell names the source's kernel; setup.our_kernels maps it to ours.
    """
    own = case.source.fact("our_kernels")[counterparts][case.cell.at["kernel"]]
    return confirmed_only(speed_alone(case.at({"data": "random"}), kernel=own))


@in_own_language("kernel")
def speed_alone(case: Case, *, kernel: str) -> Ours:
    """A declared deviation is allowed."""
    return Ours(case.measured(kernel, KERNEL_TIME, may_deviate=True).bandwidth)
