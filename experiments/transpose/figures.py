"""Figures of the transpose: bandwidth of each kernel, and by the size of the matrix."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.transpose.derived import published
from plots import style
from reprolab.stats import out_of

CEILINGS = ("copy", "copy_kernel", "same_bytes")
CURVES = ("column_walk", "tiled", "cublas_sgeam", "tma_batched", "tma_swizzle", "tma_naive", "copy")


def kernels(rows: pd.DataFrame) -> Figure:
    """Bandwidth of each kernel, and the post's values on its H100; hatched: its output is wrong."""
    own = rows[(rows["pass"] == "matrix") & rows["median"].notna() & (rows.metric == "kernel_time")]
    posts = {kernel: gb_s for table in published().values() for kernel, gb_s in table.items()}
    figure, panels = style.panels_by_gpu(own, 3.9, sharex=True)
    for axes, timed in panels:
        timed = timed[(timed.origin != "ceiling") | timed.kernel.isin(CEILINGS)]
        timed = timed.sort_values("gb_per_s", ascending=False).reset_index()
        for i, row in timed.iterrows():
            text, look = f"{row.gb_per_s:.0f}", {"color": style.colour(row.kernel)}
            if row.outcome == "deviation_as_declared":
                look = {"hatch": "////", "color": "white", "edgecolor": style.RED}
                text += f", {out_of(row.mismatches, row.problem_n)} wrong"
            style.bar(axes, i, row.gb_per_s, text, posts.get(row.kernel, 0), **look)
            if row.kernel in posts:
                look = {"color": style.LIMIT, "label": "the post, on its H100"}
                look |= {"markeredgecolor": "white", "markeredgewidth": 0.5, "markersize": 8}
                axes.plot(posts[row.kernel], i, "*", **look)
        style.rows_of_bars(axes, [style.label(kernel) for kernel in timed.kernel])
        axes.set_xlabel("GB/s, read and written, 32768x32768")
        axes.set_xlim(0, 1.5 * own.gb_per_s[own.kernel.isin(CEILINGS)].max())
    style.legend(figure)
    return figure


def sizes(rows: pd.DataFrame) -> Figure:
    """Bandwidth of square matrices by their size."""
    timed = style.times(rows, "sizes")
    timed = timed[(timed["rows"] == timed["columns"]) & (timed.in_stride == timed["columns"])]
    figure, panels = style.panels_by_gpu(timed, 3.2, sharey=True)
    for axes, own in panels:
        style.bandwidths(axes, own, CURVES, own["rows"])
        style.logarithmic(axes.xaxis, (256, 1024, 4096, 16384))
        axes.set_xlabel("rows and columns of the matrix, logarithmic")
    figure.axes[0].set_ylim(bottom=0)
    figure.axes[0].set_ylabel("GB/s, read and written")
    style.legend(figure)
    return figure


FIGURES = {"kernels": ("matrix", kernels), "sizes": ("sizes", sizes)}
