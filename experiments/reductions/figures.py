"""The figure of the sums: the part of a call that is not reading, by the length of the vector."""

import pandas as pd
from matplotlib.figure import Figure

from plots import style

CURVES = {
    "sum_two_launches": ("the post, kernel 0", style.BASE),
    "sum_vectors_redux": ("the post, kernel 9", style.THEIRS),
    "cub_sum": ("CUB", style.LIBRARY),
    "sum_strided": ("fast.cu, kernel 3", style.RED),
    "sum_neighbours": ("ours", style.OURS),
}


def overhead(rows: pd.DataFrame) -> Figure:
    """Each call's time beyond that of reading the vector alone, in percent of the call."""
    figure, panels = style.panels_by_gpu(style.times(rows, "sizes"), 3.2, sharey=True)
    for axes, own in panels:
        times = own.pivot_table("median", "length", "kernel").reindex(
            columns=["read_only", *CURVES]
        )
        mib = times.index.astype(float) * 4 / 2**20
        for kernel, (label, colour) in CURVES.items():
            share = 100 * (1 - times["read_only"] / times[kernel])
            axes.plot(mib, share, "o-", color=colour, markersize=3, label=label)
        style.logarithmic(axes.xaxis, (0.25, 1, 4, 16, 64, 256, 1024, 4096))
        axes.set_xlabel("MiB of the vector, logarithmic")
    figure.axes[0].set_ylim(0, 100)
    figure.axes[0].set_ylabel("time beyond reading, % of a call")
    style.legend(figure, columns=5)
    return figure


FIGURES = {"overhead": ("sizes", overhead)}
