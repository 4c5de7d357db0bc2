"""Rules of single claims, for the claims that experiments reductions and scan decide. A cell names
the source's kernels: "kernel_9", or "kernel_9 over kernel_8"; setup.our_kernels maps them to ours.
"""

from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case
from reprolab.claims.rules import ANEW, WITHIN, Verdict, judge, rule
from reprolab.results import KERNEL_TIME, Outcome


@rule(WITHIN)
def gain(case: Case, *, table: str) -> Verdict:
    """The slower kernel's time over the faster one's."""
    fast, slow = rules.our_kernels(case, table)
    return rules.ratio_within(case, metric=KERNEL_TIME, baseline=slow, subject=fast)


@rule(WITHIN + ANEW)
def gain_anew(case: Case, *, table: str) -> Verdict:
    """As `gain`, where the faster kernel is in a language that was not run."""
    return rules.confirmed_only(gain(case, table=table))


@rule(WITHIN)
def step(case: Case, *, segment: int = 0) -> Verdict:
    """As `gain`, for scans with this segment, or else each with the source's own."""
    known = {
        kernel: (own, segment or int(table.rpartition("_")[2]))
        for table, kernels in case.source.setup["our_kernels"].items()
        for kernel, own in kernels.items()
    }
    fast, slow = (
        case.measured(known[kernel][0], KERNEL_TIME, {"segment": known[kernel][1]})
        for kernel in str(case.cell.at["kernels"]).split(" over ")
    )
    ratio = uncertainty.log_ratio(slow, fast, KERNEL_TIME).ratio
    return judge(case, ratio)


@rule("{kernel} gives the sums of the whole vector, and does not restart every {restarts_after}")
def never_restarts(case: Case, *, kernel: str, restarts_after: int) -> Verdict:
    """Every sum from the first restart on is another, but for one of 2^32."""
    row = case.find(kernel, case.place)
    if row.outcome != Outcome.UNSUPPORTED:
        return rules.output_equal(case, kernel=kernel)
    other = 100 * (1 - restarts_after / row.problem["n"])
    return Verdict(rules.PREMISE_FALSE, f"{row.reason}: {other:.5f} % of the sums are others")
