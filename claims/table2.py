"""Rules of one claim alone, for the claims that experiment table2 decides."""

from claims import stats
from claims.rules import PREMISE_FALSE, Case, Finding, rule


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
