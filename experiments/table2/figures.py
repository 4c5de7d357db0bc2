"""Figures of Table II: speed-ups by model and batch, kernels, and bandwidth by shape."""

import pandas as pd
from matplotlib.figure import Figure

from plots import style
from plots.frame import against
from reprolab.json_files import ROOT, read_json

SHOWN = ("shared_lut", "bitsandbytes_0.50.2", "streaming")
PAPERS = {"gemma-2-27b": "gemma-27b", "gemma-3-27b": "gemma-27b"}  # it does not say which


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    timed = style.times(rows, "replay")
    return against(timed, {"kernel": "branch_tree"}, ["file", "problem"])


def speedup(rows: pd.DataFrame) -> Figure:
    """Speed-up over the baseline by model and batch, on each GPU, with the paper's values."""
    every = gains(rows)
    paper = read_json(ROOT / "data/published/paper.json")["tables"]["table2"]
    models = list(every.model.drop_duplicates())
    figure, grid = style.panels(len(models), 3.0, sharey=True)
    for axes, model in zip(grid[0], models, strict=False):
        for kernel, colour in style.colours(SHOWN).items():
            for (gpu, own), line in zip(style.by_gpu(every), style.LINES, strict=False):
                of = own[(own.model == model) & (own.kernel == kernel)].sort_values("batch")
                text = f"{style.label(kernel)}, {gpu}"
                axes.plot(range(len(of)), of.ratio, line, color=colour, label=text)
        batches = sorted(every[every.model == model].batch.unique())
        published = paper.get(PAPERS.get(model, model), {})
        marks = [(i, published[str(b)]) for i, b in enumerate(batches) if str(b) in published]
        look = {"color": style.LIMIT, "markerfacecolor": "none", "label": "the paper, A100"}
        axes.plot(*zip(*marks, strict=True), "*", markersize=8, **look)
        axes.axhline(1, color=style.BASE, linewidth=1)
        axes.set_xticks(range(len(batches)), [str(int(batch)) for batch in batches])
        axes.set_title(model, loc="left")
        axes.set_xlabel("batch")
    grid[0][0].set_ylim(0, 4.2)
    grid[0][0].set_ylabel("times as fast as the tree of branches")
    style.legend(figure, grid.flat)
    return figure


def kernels(rows: pd.DataFrame) -> Figure:
    """Dequantization of all layers per forward pass at batch 8, of every kernel."""
    every = gains(rows)
    model = every.loc[every.layers.idxmax()].model
    every = every[(every.batch == 8) & (every.model == model)]
    gpus = style.by_gpu(every)
    figure, grid = style.panels(len(gpus), 3.8, sharex=True)
    for axes, (gpu, own) in zip(grid[0], gpus, strict=False):
        own = own.sort_values("median", ascending=False).reset_index()
        for i, row in own.iterrows():
            bar = style.error(row.ratio_low, row.ratio, row.ratio_high)
            colour = style.COLOURS.get(row.kernel, "#b9b9b9")
            axes.barh(i, row.ratio, 0.72, color=colour, xerr=bar, ecolor=style.LIMIT)
            axes.text(row.ratio + 0.08, i, f"{row.ratio:.2f}", va="center", fontsize=6.5)
        names = [style.label(kernel) for kernel in own.kernel]
        style.rows_of_bars(axes, names)
        axes.axvline(1, color=style.LIMIT, linewidth=0.8)
        axes.set_title(f"{gpu}, {model}", loc="left")
        axes.set_xlabel("times as fast as the tree of branches")
        axes.tick_params(axis="y", labelsize=6.5)
    return figure


def bandwidth(rows: pd.DataFrame) -> Figure:
    """Bandwidth of each distinct layer by its number of weights, under the copy's."""
    timed = style.times(rows, "shapes")
    drawn = ("branch_tree", "constant_lut", "global_lut", "shared_lut", "streaming", "copy")
    gpus = style.by_gpu(timed)
    figure, grid = style.panels(len(gpus), 3.2, sharey=True)
    for axes, (gpu, own) in zip(grid[0], gpus, strict=False):
        for kernel, colour in style.colours(drawn).items():
            of = own[own.kernel == kernel].sort_values("problem_n")
            colour = style.LIMIT if kernel == "copy" else colour
            axes.plot(
                of.problem_n / 1e6, of.gb_per_s, "o-", color=colour, label=style.label(kernel)
            )
        style.logarithmic(axes.xaxis, (3, 10, 30, 100, 300))
        axes.set_title(gpu, loc="left")
        axes.set_xlabel("million weights of the layer, logarithmic")
    grid[0][0].set_ylim(0, 1.05 * timed[timed.kernel.isin(drawn)].gb_per_s.max())
    grid[0][0].set_ylabel("GB/s, read and written")
    style.legend(figure, grid.flat)
    return figure


FIGURES = {
    "speedup": ("replay", speedup),
    "kernels": ("replay", kernels),
    "bandwidth": ("shapes", bandwidth),
}
