"""The figure of the sums: the part of a call that is not reading, by the length of the vector."""

import pandas as pd
from matplotlib.figure import Figure

from plots import style

CURVES = {
    "sum_two_launches": "the post, kernel 0",
    "sum_vectors_redux": "the post, kernel 9",
    "cub_sum": "CUB",
    "sum_strided": "fast.cu, kernel 3",
    "sum_neighbours": "ours",
}


def overhead(rows: pd.DataFrame) -> Figure:
    """Each call's time beyond that of reading the vector alone, in percent of the call."""
    timed = style.times(rows, "sizes")
    gpus = style.by_gpu(timed)
    figure, grid = style.panels(len(gpus), 3.2, sharey=True)
    for axes, (gpu, own) in zip(grid[0], gpus, strict=False):
        times = own.pivot_table("median", "length", "kernel")
        for kernel, colour in style.colours(CURVES).items():
            share = 100 * (1 - times["read_only"] / times[kernel])
            axes.plot(times.index.astype(float) * 4 / 2**20, share, "o-", markersize=3,
                      color=colour, label=CURVES[kernel])  # fmt: skip
        style.logarithmic(axes.xaxis, (0.25, 4, 64, 1024, 4096))
        axes.set_title(gpu, loc="left")
        axes.set_xlabel("MiB of the vector, logarithmic")
    grid[0][0].set_ylim(0, 100)
    grid[0][0].set_ylabel("% of a call beyond reading alone")
    style.legend(figure, grid.flat, columns=5)
    return figure


FIGURES = {"overhead": ("sizes", overhead)}
