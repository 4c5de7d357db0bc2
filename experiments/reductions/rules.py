"""Rules of single claims, for the claims that experiments reductions and scan decide."""

from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case
from reprolab.claims.rules import WITHIN, Verdict, judge, rule
from reprolab.results import KERNEL_TIME, Outcome


@rule(WITHIN)
def step(case: Case, *, segment: int = 0) -> Verdict:
    """As ratio_within, for scans with this segment, or else each with the source's own."""
    known = {
        kernel: (own, segment or int(table.rpartition("_")[2]))
        for table, kernels in case.source.setup["our_kernels"].items()
        for kernel, own in kernels.items()
    }
    fast, slow = (
        case.measured(known[kernel][0], KERNEL_TIME, {"segment": known[kernel][1]})
        for kernel in str(case.cell.at["kernels"]).split(" over ")
    )
    return judge(case, uncertainty.log_ratio(slow, fast).ratio)


@rule("{kernel} gives the sums of the whole vector, and does not restart every {restarts_after}")
def never_restarts(case: Case, *, kernel: str, restarts_after: int) -> Verdict:
    """Every sum from the first restart on is another, but for one of 2^32."""
    row = case.find(kernel, case.place)
    if row.outcome != Outcome.UNSUPPORTED:
        return rules.output_equal(case, kernel=kernel)
    other = 100 * (1 - restarts_after / row.problem["n"])
    return Verdict(rules.PREMISE_FALSE, f"{row.reason}: {other:.5f} % of the sums are others")
