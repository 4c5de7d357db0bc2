"""Figures of the ladder: the speed-up step by step, and bandwidth by size, cold and warm."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.ladder.derived import LADDERS
from plots import style

STEPS = LADDERS["plain"]
CURVES = ("branch_tree", "shared_lut", "packed_512", "streaming", "copy")


def steps(rows: pd.DataFrame) -> Figure:
    """How fast each step is, over the first; beside it instructions per weight."""
    timed = style.times(rows, "plain")
    gpus = style.by_gpu(timed)
    figure, grid = style.panels(len(gpus), 3.2, sharex=True)
    for axes, (gpu, own) in zip(grid[0], gpus, strict=False):
        us = own.set_index("kernel").geometric_mean
        names = [kernel for kernel in STEPS if kernel in us]
        counted = rows[(rows["pass"] == "plain_counters") & (rows.metric == "warp_instructions")]
        counted = counted[counted.gpu == own.gpu.iloc[0]].set_index("kernel")
        limit = us[names[0]] / us.get("copy", us.min())
        for i, kernel in enumerate(names):
            gain = us[names[0]] / us[kernel]
            axes.barh(i, gain, 0.7, color=style.COLOURS.get(kernel, "#b9b9b9"))
            step = us[names[max(i - 1, 0)]] / us[kernel]
            text = f"{gain:.2f}" + f"  (x {step:.2f})" * (i > 0)
            if kernel in counted.index:
                row = counted.loc[kernel]
                text += f"  {32 * row['median'] / row.problem_n:.0f} instr."
            axes.text(max(gain, limit) + 0.06, i, text, va="center", fontsize=6.5)
        axes.axvline(limit, color=style.LIMIT, linewidth=1.2, label="a copy of as many bytes")
        style.rows_of_bars(axes, [STEPS[kernel] for kernel in names])
        axes.set_title(gpu, loc="left")
        axes.set_xlabel("times as fast as the tree of branches")
        axes.set_xlim(0, 6)
    style.legend(figure, grid.flat)
    return figure


def sizes(rows: pd.DataFrame) -> Figure:
    """Bandwidth by the number of weights: each launch in other memory, and in the same."""
    gpus = style.by_gpu(rows[rows["pass"].isin(("cold", "warm"))])
    figure, grid = style.panels(2, 2.4 * max(1, len(gpus)), len(gpus), sharex=True, sharey="row")
    for line, (gpu, own) in zip(grid, gpus, strict=False):
        for axes, (of, text) in zip(line, {"cold": "cold", "warm": "warm"}.items(), strict=True):
            timed = style.times(own, of)
            for kernel, colour in style.colours(CURVES).items():
                curve = timed[timed.kernel == kernel].sort_values("problem_n")
                colour = style.LIMIT if kernel == "copy" else colour
                look = {"color": colour, "markersize": 3, "label": style.label(kernel)}
                axes.plot(curve.problem_n.astype(float) / 1e6, curve.gb_per_s, "o-", **look)
            style.logarithmic(axes.xaxis, (0.1, 1, 10, 100))
            axes.set_title(f"{gpu}, {text}", loc="left")
        line[0].set_ylabel("GB/s")
        line[0].set_ylim(bottom=0)
    for axes in grid[-1]:
        axes.set_xlabel("million weights, logarithmic")
    style.legend(figure, grid.flat)
    return figure


FIGURES = {"steps": ("plain", steps), "sizes": ("cold", sizes)}
