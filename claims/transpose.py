"""Rules of one claim alone, for the claims that experiment transpose decides."""

from claims import rules, stats
from claims.rules import Case, Finding, rule


@rule("the two do the same task; the speed would need a run of Mojo itself")
def same_task(case: Case, *, metric: str, cuda: str, mojo: str) -> Finding:
    """`mojo` is the Mojo code's indices in CUDA: if they do not transpose, nothing is compared."""
    (at,) = case.cell.places
    right, mojos = (case.rows.measured(k, at, metric, may_deviate=True) for k in (cuda, mojo))
    ours = stats.ratio(right.summary_of(metric), mojos.summary_of(metric))
    reason = (
        "Mojo itself was not run; in CUDA, its indices and the right ones move the same bytes at "
        f"{mojos.speed.value:.0f} and {right.speed.value:.0f} GB/s, so its speed may well stand"
    )
    if mojos.outcome == "bit_exact":
        return Finding(rules.NOT_TESTABLE, reason, ours.value, ours.interval)
    wrong = f"{mojos.mismatches or 0} of {mojos.problem['n']} elements are wrong"
    reason = f"not the same task: with the Mojo code's indices {wrong}; {reason}"
    return Finding(rules.PREMISE_FALSE, reason, ours.value, ours.interval)


@rule("the source's check passes, and on random data every bit equals the reference")
def own_check(case: Case, *, kernel: str) -> Finding:
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
    return Finding(rules.PREMISE_FALSE, reason)
