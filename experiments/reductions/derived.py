"""Values of several rows for the tables of experiment reductions."""

import pandas as pd


def launches(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The kernels of a call, each of which is another: setting the sum to 0 is none."""
    own = rows[rows.origin != "ceiling"]
    return own.assign(kernels_per_call=[float(len(kernels)) for kernels in own.launch])
