"""Rules of single claims, for the claims that experiment transpose decides."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case, NotTestable, NotTested
from reprolab.claims.rules import WITHIN, Decide, Verdict, judge, rule
from reprolab.families import in_cuda
from reprolab.results import KERNEL_TIME, Outcome, Row
from reprolab.stats import Estimate, out_of, significant

IN_EITHER = "in Mojo, or without it in CUDA, "  # begins the criteria of rules in_own_language
STORES = {"accesses": "shared_stores", "rounds": "shared_store_wavefronts"}
ANEW = "; otherwise nothing is decided, as ours are written anew"


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
        def decide(case: Case, **arguments: Any) -> Verdict:
            mojo = {name: arguments[name] for name in names}
            cuda = arguments | {name: in_cuda(kernel) for name, kernel in mojo.items()}
            if not ran(case, *mojo.values()):
                found = function(case, **cuda)
                return replace(found, note=f"Mojo itself was not run; in CUDA {found.note}")
            found = function(case, **arguments)
            with suppress(NotTested, NotTestable):
                if (ours := function(case, **cuda).ours) is not None:
                    beside = f"in CUDA {significant(ours, 3)} {case.cell.unit}"
                    found = replace(found, note="; ".join(filter(None, (found.note, beside))))
            return found

        return decide

    return of_both


def speeds(*rows: Row) -> str:
    return ", ".join(f"{row.kernel} {row.bandwidth.value:.0f} GB/s" for row in rows)


def confirmed_only(found: Verdict) -> Verdict:
    """The verdict, unless it refutes a speed of the author's own code, which ours cannot."""
    if found.kind != rules.NOT_REPRODUCED:
        return found
    note = f"the author's own code was not run; {found.note}".removesuffix("; ")
    return replace(found, kind=rules.NOT_TESTABLE, note=note)


@rule(f"in Mojo over CUDA, {WITHIN}{ANEW}")
def mojo_over_cuda(case: Case, *, mojo: str) -> Verdict:
    theirs = case.measured(in_cuda(mojo), KERNEL_TIME)
    if not ran(case, mojo):
        raise NotTestable("Mojo itself was not run")
    ours = case.measured(mojo, KERNEL_TIME)
    ratio = uncertainty.log_ratio(theirs, ours).ratio
    return confirmed_only(judge(case, ratio, speeds(ours, theirs)))


@rule(IN_EITHER + "with the source's own indices every element is where a transpose has it")
@in_own_language("published")
def same_task(case: Case, *, published: str) -> Verdict:
    """`published` has the indices of the source's Mojo kernel: if they do not transpose, the source
    compared two different tasks.
    """
    row = case.measured(published, KERNEL_TIME, may_deviate=True)
    if not row.deviates:
        return Verdict(rules.REPRODUCED, "it transposes")
    wrong = f"{out_of(row.mismatches or 0, row.problem['n'])} elements are wrong"
    return Verdict(rules.PREMISE_FALSE, wrong)


@rule(IN_EITHER + "the source's check passes, and on random data every bit equals the reference")
@in_own_language("kernel")
def own_check(case: Case, *, kernel: str) -> Verdict:
    """The source checks a constant matrix, which is its own transpose in any case."""
    random, constant = (case.verified(kernel, {"data": d}) for d in ("random", "constant"))
    if constant.outcome != Outcome.BIT_EXACT:
        return Verdict(rules.NOT_REPRODUCED, f"the source's check fails: {constant.reason}")
    if random.outcome == Outcome.BIT_EXACT:
        return Verdict(rules.REPRODUCED, "both are right")
    note = "its matrix of one constant is its own transpose"
    return Verdict(rules.PREMISE_FALSE, f"{note}; on random data {random.reason}")


@rule(IN_EITHER + WITHIN + ANEW)
@in_own_language("kernel")
def share_of_peak(case: Case, *, kernel: str) -> Verdict:
    """The share of the GPU's theoretical peak, in percent; a declared deviation is allowed."""
    row, peak = case.measured(kernel, KERNEL_TIME, may_deviate=True), case.results().peak_gb_s
    if peak is None:
        return Verdict(rules.NOT_TESTABLE, "this GPU does not say its theoretical bandwidth")
    ends = (row.bandwidth.value, *row.bandwidth.interval)
    ours = Estimate(*(100 * end / peak for end in ends))
    return confirmed_only(judge(case, ours, f"{ends[0]:.0f} of {peak:.0f} GB/s in theory"))


@rule(IN_EITHER + "one round for each access, up to {tolerance_percent:g} % more allowed")
@in_own_language("kernel", "beside")
def one_round_each(case: Case, *, kernel: str, beside: str) -> Verdict:
    return rules.one_round_each(case, kernel=kernel, beside=beside, **STORES)


@rule(IN_EITHER + "fewer rounds for each access than without the swizzle")
@in_own_language("swizzled", "plain")
def fewer_rounds(case: Case, *, swizzled: str, plain: str) -> Verdict:
    (ours,), (without,) = (
        rules.rounds_per_access(case, kernel, **STORES) for kernel in (swizzled, plain)
    )
    note = f"{significant(ours, 3)} rounds for each access, {significant(without, 3)} without"
    kind = rules.side_of_margins([rules.percent_below(ours, without)])
    return Verdict(kind, note, ours)


@rule(IN_EITHER + WITHIN)
@in_own_language("slow", "fast")
def gain(case: Case, *, slow: str, fast: str) -> Verdict:
    return gain_of(case, slow, fast)


@rule(f"in CUDA, {WITHIN}")
def cuda_gain(case: Case, *, slow: str, fast: str) -> Verdict:
    """From the post about the CUDA version."""
    return gain_of(case, slow, fast)


def gain_of(case: Case, slow: str, fast: str) -> Verdict:
    before, after = (case.measured(kernel, KERNEL_TIME) for kernel in (slow, fast))
    return judge(case, uncertainty.log_ratio(before, after).ratio, speeds(before, after))


@rule(IN_EITHER + WITHIN + ANEW)
def speed(case: Case, *, counterparts: str) -> Verdict:
    """In GB/s, for the kernel that represents the source's; `counterparts`: its table and language.

    A cell names the source's kernel; setup.our_kernels maps it to ours.
    """
    own = case.source.fact("our_kernels")[counterparts][case.cell.at["kernel"]]
    return confirmed_only(speed_alone(case.at({"data": "random"}), kernel=own))


@in_own_language("kernel")
def speed_alone(case: Case, *, kernel: str) -> Verdict:
    """A declared deviation is allowed."""
    return judge(case, case.measured(kernel, KERNEL_TIME, may_deviate=True).bandwidth)
