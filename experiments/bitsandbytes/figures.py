"""The figure of bitsandbytes' history: one layer by release, with the paper's date."""

import pandas as pd
from matplotlib.figure import Figure

from plots import pictures, style


def history(rows: pd.DataFrame) -> Figure:
    """Time of the largest layer by the date of the library's release; the paper's kernel (star)."""
    figure, grid = style.panels(1, 3.0)
    pictures.history(grid[0][0], rows[rows["pass"] == "layers"])
    return figure


FIGURES = {"history": ("layers", history)}
