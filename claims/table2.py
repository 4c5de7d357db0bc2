"""Rules of one claim alone, for the claims that experiment table2 decides."""

from claims import stats
from claims.rules import NOT_TESTABLE, PREMISE_FALSE, Case, Finding, count_slower, rule


@rule("the code of bitsandbytes 0.47.0 reads such a table")
def baseline_reads_table(case: Case, *, metric: str, reader: str, subject: str) -> Finding:
    """A matter of the baseline's code, not of times; `reader`, which does read one, is timed."""
    ours = stats.pool(case.ratios(reader, subject, metric))
    reason = (
        "bitsandbytes 0.47.0 holds the 16 values as immediates of a branch tree and reads no table "
        "(kernels/nf4/branch_tree.cu; the tree is in the paper's sections III-C and V-A as well); "
        "beside it, a kernel that does read a table from global memory takes "
        f"{ours.value:.2f} times as long as the paper's"
    )
    return Finding(PREMISE_FALSE, reason, ours.value, ours.interval)


@rule("instruction-cache counters, which this run does not take")
def code_size(case: Case, *, metric: str, slow: str, fast: str) -> Finding:
    """Times alone do not decide it; their ratio is shown."""
    ratios = case.ratios(slow, fast, metric)
    reason = f"needs {case.claim.needs}; {count_slower(ratios, slow, fast)}"
    ours = stats.pool(ratios)
    return Finding(NOT_TESTABLE, reason, ours.value, ours.interval)
