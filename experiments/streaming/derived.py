"""What a table of experiment streaming derives from its rows."""

import pandas as pd

from plots.frame import against


def fastest_shapes(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The launch shape with the lowest median on each matrix, with its speed-up over streaming."""
    over = against(rows, {"kernel": "streaming"}, ["problem"])
    forms = over[over.ranked.astype(bool) & (over.kernel != "streaming")]
    return forms.loc[forms.groupby(["pass", "problem"], sort=False)["median"].idxmin()]
