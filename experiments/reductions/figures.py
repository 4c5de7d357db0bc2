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
    timed = style.times(rows, "sizes")
    gpus = style.by_gpu(timed)
    figure, grid = style.panels(len(gpus), 3.2, sharey=True)
    for axes, (gpu, own) in zip(grid[0], gpus, strict=False):
        times = own.pivot_table("median", "length", "kernel")
        for kernel, (label, colour) in CURVES.items():
            share = 100 * (1 - times["read_only"] / times[kernel])
            mib = times.index.astype(float) * 4 / 2**20
            axes.plot(mib, share, "o-", color=colour, markersize=3, label=label)
        style.logarithmic(axes.xaxis, (0.25, 4, 64, 1024, 4096))
        axes.set_title(gpu, loc="left")
        axes.set_xlabel("MiB of the vector, logarithmic")
    grid[0][0].set_ylim(0, 100)
    grid[0][0].set_ylabel("% of a call beyond reading alone")
    style.legend(figure, grid.flat, columns=5)
    return figure


FIGURES = {"overhead": ("sizes", overhead)}
