"""What tables of experiment table2 derive from its rows and claims."""

import pandas as pd

from plots.frame import beside, summaries
from reprolab.results import PRODUCT_TIME
from reprolab.stats import share_percent


def table2(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The paper's Table II, then ours; shared_lut_tile512 is another reading of its tile."""
    cells = claims[claims.claim == "kernel-speedup"].copy()
    cells[["model", "batch"]] = cells.cell.str.extract(r"^(.*), (?:batch )?(\w+)$")
    cells["kernel"] = cells["keys"].str.extract(r"(\w+)$")
    cells.loc[cells.ours.isna(), "kernel"] = None  # not measured: the keys name only the baseline
    of_reading = cells.groupby("reading").kernel.transform("first")
    cells["kernel"] = of_reading.fillna(cells.reading)
    names = {"ours": "gain", "low": "gain_low", "high": "gain_high"}
    paper = cells.drop_duplicates(["model", "batch"]).assign(kernel="the paper's", verdict="")
    paper = paper.assign(ours=paper.published, low=None, high=None)
    return pd.concat([paper, cells]).rename(columns=names)


def share(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Dequantization's part of dequantization and products in percent, pass by pass."""
    cells = beside(rows, PRODUCT_TIME)
    pairs = zip(cells.samples, cells.product_time_samples, strict=True)
    shares = summaries([share_percent(*pair) for pair in pairs], "share", cells.index)
    return cells.join(shares)
