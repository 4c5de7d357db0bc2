"""Rules of single claims, for the claims that experiment transpose decides."""

from reprolab.claims import rules
from reprolab.claims.evidence import Case
from reprolab.claims.rules import ANEW, WITHIN, Verdict, judge, rule
from reprolab.results import KERNEL_TIME, Outcome
from reprolab.stats import Estimate, out_of, significant

STORES = {"accesses": "shared_stores", "rounds": "shared_store_wavefronts"}


@rule("with the source's own indices every element is where a transpose has it")
def same_task(case: Case, *, published: str) -> Verdict:
    """`published` has the indices of the source's Mojo kernel: if they do not transpose, the source
    compared two different tasks.
    """
    row = case.measured(published, KERNEL_TIME, may_deviate=True)
    if not row.deviates:
        return Verdict(rules.REPRODUCED, "it transposes")
    wrong = f"{out_of(row.mismatches or 0, row.problem['n'])} elements are wrong"
    return Verdict(rules.PREMISE_FALSE, wrong)


@rule("the source's check passes, and on random data every bit equals the reference")
def own_check(case: Case, *, kernel: str) -> Verdict:
    """The source checks a constant matrix, which is its own transpose in any case."""
    random, constant = (case.verified(kernel, {"data": d}) for d in ("random", "constant"))
    if constant.outcome != Outcome.BIT_EXACT:
        return Verdict(rules.NOT_REPRODUCED, f"the source's check fails: {constant.reason}")
    if random.outcome == Outcome.BIT_EXACT:
        return Verdict(rules.REPRODUCED, "both are right")
    note = "its matrix of one constant is its own transpose"
    return Verdict(rules.PREMISE_FALSE, f"{note}; on random data {random.reason}")


@rule(WITHIN + ANEW)
def share_of_peak(case: Case, *, kernel: str) -> Verdict:
    """The share of the GPU's theoretical peak, in percent; a declared deviation is allowed."""
    row, peak = case.measured(kernel, KERNEL_TIME, may_deviate=True), case.results().peak_gb_s
    if peak is None:
        return Verdict(rules.NOT_TESTABLE, "this GPU does not say its theoretical bandwidth")
    ends = (row.bandwidth.value, *row.bandwidth.interval)
    ours = Estimate(*(100 * end / peak for end in ends))
    return rules.confirmed_only(judge(case, ours, f"{ends[0]:.0f} of {peak:.0f} GB/s in theory"))


@rule("fewer rounds for each access than without the swizzle")
def fewer_rounds(case: Case, *, swizzled: str, plain: str) -> Verdict:
    (ours,), (without,) = (
        rules.rounds_per_access(case, kernel, **STORES) for kernel in (swizzled, plain)
    )
    note = f"{significant(ours, 3)} rounds for each access, {significant(without, 3)} without"
    return Verdict(rules.all_below([ours], without), note, ours)
