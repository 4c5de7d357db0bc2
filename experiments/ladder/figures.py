"""Figures of the ladder: the speed-up step by step, and bandwidth by size, cold and warm."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.ladder.derived import LADDERS
from plots import style

STEPS = LADDERS["plain"]
CURVES = ("branch_tree", "shared_lut", "packed_512", "streaming", "copy")


def steps(rows: pd.DataFrame) -> Figure:
    """How fast each step is, over the first; beside it instructions per weight."""
    figure, panels = style.panels_by_gpu(style.times(rows, "plain"), 3.2, sharex=True)
    for axes, own in panels:
        us = own.set_index("kernel").geometric_mean
        names = [kernel for kernel in STEPS if kernel in us]
        counted = rows[(rows["pass"] == "plain_counters") & (rows.metric == "warp_instructions")]
        counted = counted[counted.gpu == own.gpu.iloc[0]].set_index("kernel")
        limit = us[names[0]] / us.get("copy", us.min())
        for i, kernel in enumerate(names):
            gain, step = us[names[0]] / us[kernel], us[names[max(i - 1, 0)]] / us[kernel]
            text = f"{gain:.2f}" + f"  (x {step:.2f})" * (i > 0)
            if kernel in counted.index:
                row = counted.loc[kernel]
                text += f"  {32 * row['median'] / row.problem_n:.0f} instr."
            style.bar(axes, i, gain, text, limit, color=style.colour(kernel))
        axes.axvline(limit, color=style.LIMIT, linewidth=1.2, label="a copy of as many bytes")
        style.rows_of_bars(axes, [STEPS[kernel] for kernel in names], 8)
        axes.set_xlabel("times as fast as the tree of branches")
        axes.set_xlim(0, 6)
    style.legend(figure)
    return figure


def sizes(rows: pd.DataFrame) -> Figure:
    """Bandwidth by the number of weights: each launch in other memory, and in the same."""
    gpus = style.by_gpu(rows[rows["pass"].isin(("cold", "warm"))])
    figure, grid = style.panels(2, 2.4 * max(1, len(gpus)), len(gpus), sharex=True, sharey="row")
    for line, (gpu, own) in zip(grid, gpus, strict=False):
        for axes, of in zip(line, ("cold", "warm"), strict=True):
            timed = style.times(own, of)
            style.bandwidths(axes, timed, CURVES, timed.problem_n / 1e6)
            style.logarithmic(axes.xaxis, (0.1, 1, 10, 100))
            axes.set_title(f"{gpu}, {of}", loc="left")
        line[0].set_ylabel("GB/s")
        line[0].set_ylim(bottom=0)
    for axes in grid[-1]:
        axes.set_xlabel("million weights, logarithmic")
    style.legend(figure)
    return figure


FIGURES = {"steps": ("plain", steps), "sizes": ("cold", sizes)}
