"""Rules of single claims, for the claims that experiments reductions and scan decide. A cell names
the source's kernels: "kernel_9", or "kernel_9 over kernel_8"; setup.our_kernels maps them to ours.
"""

from typing import Any

from experiments.transpose.rules import ANEW, confirmed_only, speeds
from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case
from reprolab.claims.rules import WITHIN, Verdict, judge, rule
from reprolab.results import KERNEL_TIME, Outcome


def place_of(case: Case) -> tuple[list[str], dict[str, Any]]:
    """The source's kernels that a cell names, and the fields of its problem."""
    at = dict(case.place)
    return str(at.pop("kernels")).split(" over "), at


@rule(WITHIN + ANEW)
def speed(case: Case, *, table: str) -> Verdict:
    """In GB/s. A library is the source's own code, so that its speed also refutes."""
    (kernel,), at = place_of(case)
    row = case.measured(case.source.fact("our_kernels")[table][kernel], KERNEL_TIME, at)
    found = judge(case, row.bandwidth, speeds(row))
    return found if row.origin == "peer" else confirmed_only(found)


@rule(WITHIN)
def gain(case: Case, *, table: str) -> Verdict:
    """The slower kernel's time over the faster one's."""
    kernels, at = place_of(case)
    ours = case.source.fact("our_kernels")[table]
    fast, slow = (case.measured(ours[kernel], KERNEL_TIME, at) for kernel in kernels)
    ratio = uncertainty.log_ratio(slow, fast, KERNEL_TIME).ratio
    return judge(case, ratio, speeds(slow, fast))


@rule(WITHIN + ANEW)
def gain_anew(case: Case, *, table: str) -> Verdict:
    """As `gain`, where the faster kernel is in a language that was not run."""
    return confirmed_only(gain(case, table=table))


@rule(WITHIN)
def step(case: Case, *, segment: int = 0) -> Verdict:
    """As `gain`, for scans with this segment, or else each with the source's own."""
    known = {
        kernel: (own, segment or int(table.rpartition("_")[2]))
        for table, kernels in case.source.fact("our_kernels").items()
        for kernel, own in kernels.items()
    }
    fast, slow = (
        case.measured(known[kernel][0], KERNEL_TIME, {"segment": known[kernel][1]})
        for kernel in place_of(case)[0]
    )
    ratio = uncertainty.log_ratio(slow, fast, KERNEL_TIME).ratio
    return judge(case, ratio, speeds(slow, fast))


@rule("{kernel} gives the sums of the whole vector, and does not restart every {restarts_after}")
def never_restarts(case: Case, *, kernel: str, restarts_after: int) -> Verdict:
    """Every sum from the first restart on is another, but for one of 2^32."""
    row = case.find(kernel, case.place)
    if row.outcome != Outcome.UNSUPPORTED:
        return rules.output_equal(case, kernel=kernel)
    other = 100 * (1 - restarts_after / row.problem["n"])
    return Verdict(rules.PREMISE_FALSE, f"{row.reason}: {other:.5f} % of the sums are others")
