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
    style.legend(figure)
    return figure


def kernels(rows: pd.DataFrame) -> Figure:
    """Dequantization of all layers per forward pass at batch 8, of every kernel."""
    every = gains(rows)
    model = every.loc[every.layers.idxmax()].model
    every = every[(every.batch == 8) & (every.model == model)]
    figure, panels = style.panels_by_gpu(every, 3.8, sharex=True)
    for axes, own in panels:
        own = own.sort_values("median", ascending=False).reset_index()
        for i, row in own.iterrows():
            ends = [[row.ratio - row.ratio_low], [row.ratio_high - row.ratio]]
            look = {"color": style.colour(row.kernel), "xerr": ends, "ecolor": style.LIMIT}
            style.bar(axes, i, row.ratio, f"{row.ratio:.2f}", row.ratio_high, **look)
        style.rows_of_bars(axes, [style.label(kernel) for kernel in own.kernel])
        axes.axvline(1, color=style.LIMIT, linewidth=0.8)
        axes.set_title(f"{axes.get_title('left')}, {model}", loc="left")
        axes.set_xlabel("times as fast as the tree of branches")
    return figure


def bandwidth(rows: pd.DataFrame) -> Figure:
    """Bandwidth of each distinct layer by its number of weights, under the copy's."""
    drawn = ("branch_tree", "constant_lut", "global_lut", "shared_lut", "streaming", "copy")
    figure, panels = style.panels_by_gpu(style.times(rows, "shapes"), 3.2, sharey=True)
    for axes, own in panels:
        style.bandwidths(axes, own, drawn, own.problem_n / 1e6)
        style.logarithmic(axes.xaxis, (3, 10, 30, 100, 300))
        axes.set_xlabel("million weights of the layer, logarithmic")
    figure.axes[0].set_ylim(bottom=0)
    figure.axes[0].set_ylabel("GB/s, read and written")
    style.legend(figure)
    return figure


FIGURES = {
    "speedup": ("replay", speedup),
    "kernels": ("replay", kernels),
    "bandwidth": ("shapes", bandwidth),
}
