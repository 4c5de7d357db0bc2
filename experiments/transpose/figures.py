"""Figures of the transpose: bandwidth of each kernel, and by the size of the matrix."""

import pandas as pd
from matplotlib.figure import Figure

from plots import style
from reprolab.json_files import ROOT, read_json

CEILINGS = ("copy", "copy_kernel", "same_bytes")
CURVES = ("column_walk", "tiled", "cublas_sgeam", "tma_batched", "tma_swizzle", "tma_naive", "copy")


def kernels(rows: pd.DataFrame) -> Figure:
    """Bandwidth of each kernel, and the post's values on its H100; hatched: its output is wrong."""
    own = rows[(rows["pass"] == "matrix") & rows["median"].notna() & (rows.metric == "kernel_time")]
    published = read_json(ROOT / "data/published/transpose_blog.json")["tables"]
    posts = {
        ("" if language == "cuda" else "mojo_")
        + kernel.replace("tma_swizzle_batched", "tma_batched"): value
        for language in ("cuda", "mojo")
        for kernel, value in published[f"{language}_gb_s"].items()
    }
    posts["mojo_tma_batched_as_published"] = posts.pop("mojo_tma_batched")
    gpus = style.by_gpu(own)
    figure, grid = style.panels(len(gpus), 3.9, sharex=True)
    for axes, (gpu, timed) in zip(grid[0], gpus, strict=False):
        timed = timed[(timed.origin != "ceiling") | timed.kernel.isin(CEILINGS)]
        timed = timed.sort_values("gb_per_s", ascending=False).reset_index()
        for i, row in timed.iterrows():
            colour = (
                style.LIMIT if row.origin == "ceiling" else style.COLOURS.get(row.kernel, "#b9b9b9")
            )
            wrong = row.outcome == "deviation_as_declared"
            look = (
                {"hatch": "////", "color": "white", "edgecolor": style.RED}
                if wrong
                else {"color": colour}
            )
            axes.barh(i, row.gb_per_s, 0.72, **look)
            text = f"{row.gb_per_s:.0f}" + ", 7 of 8 wrong" * (
                wrong and row.mismatches / row.problem_n == 0.875
            )
            axes.text(row.gb_per_s + 60, i, text, va="center", fontsize=6.5)
            if row.kernel in posts:
                look = {
                    "color": style.LIMIT,
                    "label": "the post, on its H100",
                    "markeredgecolor": "white",
                }
                axes.plot(posts[row.kernel], i + 0.22, "*", markersize=8, linestyle="none", **look)
        style.rows_of_bars(axes, [style.label(kernel) for kernel in timed.kernel])
        axes.tick_params(axis="y", labelsize=6.5)
        axes.set_title(gpu, loc="left")
        axes.set_xlabel("GB/s, read and written, 32768x32768")
        axes.set_xlim(0, 1.22 * own.gb_per_s[own.kernel.isin(CEILINGS)].max())
    style.legend(figure, grid.flat)
    return figure


def sizes(rows: pd.DataFrame) -> Figure:
    """Bandwidth of square matrices by their size."""
    timed = style.times(rows, "sizes")
    timed = timed[(timed["rows"] == timed["columns"]) & (timed.in_stride == timed["columns"])]
    gpus = style.by_gpu(timed)
    figure, grid = style.panels(len(gpus), 3.2, sharey=True)
    for axes, (gpu, own) in zip(grid[0], gpus, strict=False):
        for kernel, colour in style.colours(CURVES).items():
            of = own[own.kernel == kernel].sort_values("problem_n")
            colour = style.LIMIT if kernel == "copy" else colour
            axes.plot(
                of["rows"].astype(float),
                of.gb_per_s,
                "o-",
                color=colour,
                markersize=3,
                label=style.label(kernel),
            )
        style.logarithmic(axes.xaxis, (256, 1024, 4096, 16384))
        axes.set_title(gpu, loc="left")
        axes.set_xlabel("rows and columns of the matrix, logarithmic")
    if len(timed):
        grid[0][0].set_ylim(0, 1.05 * timed[timed.kernel.isin(CURVES)].gb_per_s.max())
    grid[0][0].set_ylabel("GB/s, read and written")
    style.legend(figure, grid.flat)
    return figure


FIGURES = {"kernels": ("matrix", kernels), "sizes": ("sizes", sizes)}
