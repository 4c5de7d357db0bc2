"""What a table of experiment bitsandbytes derives from its rows."""

import pandas as pd

BESIDE = ["shared_lut", "streaming"]  # the paper's kernel, and ours


def history(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The largest layer's rows of releases, the oldest first, and of two kernels beside them."""
    largest = rows[rows.problem_n == rows.problem_n.max()] if "problem_n" in rows else rows
    libraries = largest[largest.origin == "peer"].sort_values("kernel")
    return pd.concat([libraries, largest[largest.kernel.isin(BESIDE)]])
