"""Figures of the counters: what is issued and waited for, divergence, latencies and a roofline."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import style

KERNELS = "branch_tree constant_lut global_lut shared_lut bitsandbytes_0.50.2 streaming".split()
WARP = 32
PIPES = {
    "pipe_alu": ("integer and logic", "#3b6fb5"),
    "pipe_cbu": ("branches", "#b03030"),
    "pipe_fma": ("fp32 and integer products", "#7fb8a4"),
    "pipe_lsu": ("loads and stores", "#d0a215"),
    "pipe_adu": ("addresses and barriers", "#882255"),
    "pipe_uniform": ("uniform datapath", "#99993a"),
}
STALLS = {
    "stall_no_instruction": ("instruction fetch (no instruction)", "#b03030"),
    "stall_branch_resolving": ("branch resolving", "#e08f7a"),
    "stall_math_pipe_throttle": ("busy arithmetic (math pipe throttle)", "#3b6fb5"),
    "stall_wait": ("fixed latency (wait)", "#8fb1de"),
    "stall_not_selected": ("another warp issued (not selected)", "#cfcfcf"),
    "stall_long_scoreboard": ("global memory (long scoreboard)", "#0b8a68"),
    "stall_short_scoreboard": ("shared memory (short scoreboard)", "#7fb8a4"),
    "stall_mio_throttle": ("full memory queue (MIO throttle)", "#d0a215"),
    "stall_barrier": ("barrier", "#882255"),
}
REST = ("all others", "#4d4d4d")
CODES = {"equal": "all equal", "sorted": "sorted", "": "of normal weights", "uniform": "uniform"}
SHADES = ("#d9d9d9", "#a8a8a8", "#0b8a68", "#3b6fb5")


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Counters on the largest layer, by kernel and metric."""
    own = rows[(rows["pass"] == "nf4_counters") & ~rows.older_code.astype(bool)]
    own = own[own.problem == style.largest(own)]
    values = own.pivot_table(index="kernel", columns="metric", values="median")
    values["weights"] = own.problem_n.max() if len(own) else None
    return values.reindex([k for k in KERNELS if k in values.index])


def stack(
    axes: Axes, rows: pd.DataFrame, parts: Mapping[str, tuple[str, str]], total: pd.Series
) -> None:
    """One bar for each kernel; what no part names is the rest of `total`."""
    for i, kernel in enumerate(rows.index):
        left = 0.0
        for metric, (text, colour) in parts.items():
            value = rows.loc[kernel].get(metric, 0.0)
            axes.barh(i, value, 0.74, left, color=colour, label=text)
            left += value
        axes.barh(i, max(0.0, total[kernel] - left), 0.74, left, color=REST[1], label=REST[0])
        axes.text(total[kernel] * 1.01, i, f"{total[kernel]:.1f}", va="center", fontsize=7)
    style.rows_of_bars(axes, [style.label(kernel) for kernel in rows.index], 8)


def bars(rows: pd.DataFrame, kind: str, parts: Mapping[str, tuple[str, str]], about: str) -> Figure:
    own = rows[rows["pass"] == "nf4_counters"]
    figure, panels = style.panels_by_gpu(own, 3.0, sharex=True, sharey=True)
    for axes, own in panels:
        values = counted(own)
        if kind == "pipe":
            total = values.warp_instructions * WARP / values.weights
            values = values.mul(WARP / values.weights, axis=0)
        else:
            stalls = [c for c in values if c.startswith("stall_") and c != "stall_selected"]
            total = values[stalls].sum(axis=1)
        stack(axes, values, parts, total)
        axes.set_xlabel(about)
    first = figure.axes[0]
    first.set_ylim(len(first.get_yticks()) - 0.5, -0.5)
    style.legend(figure, columns=3)
    return figure


def instructions(rows: pd.DataFrame) -> Figure:
    """Executed instructions per weight by the pipe that ran them."""
    return bars(rows, "pipe", PIPES, "thread instructions per weight (warp instructions x 32)")


def stalls(rows: pd.DataFrame) -> Figure:
    """What warps wait for: cycles of all warps per issued instruction."""
    return bars(rows, "stall", STALLS, "warp-cycles waited per issued instruction")


def divergence(rows: pd.DataFrame) -> Figure:
    """Time of each kernel by the order of its codes; the bracket is what divergence costs."""
    timed = style.times(rows, "divergence")
    timed = timed.assign(data=timed.data.fillna(""))
    figure, panels = style.panels_by_gpu(timed, 2.8, sharex=True)
    for axes, own in panels:
        names = dict.fromkeys(("branch_tree", "branch_tree_constant", *KERNELS))
        names = [k for k in names if k in set(own.kernel)]
        medians, means = (
            own.set_index(["kernel", "data"])[name] for name in ("median", "geometric_mean")
        )
        for i, kernel in enumerate(names):
            for j, ((data, text), colour) in enumerate(zip(CODES.items(), SHADES, strict=True)):
                us, look = medians[kernel, data], {"color": colour, "label": f"codes {text}"}
                style.bar(axes, i + 0.19 * (j - 1.5), us, f"{us:.0f}", height=0.18, **look)
        style.rows_of_bars(axes, [style.label(k) for k in names], 8)
        axes.set_xlim(0, 1.5 * timed[timed.origin != "ceiling"]["median"].max())
        axes.set_xlabel("time of one layer, 28672x8192 (µs)")
        if not {"branch_tree", "shared_lut"} <= set(names):
            continue
        tree = medians["branch_tree"]
        saved = means["branch_tree", ""] - means["shared_lut", ""]
        share = (means["branch_tree", ""] - means["branch_tree", "equal"]) / saved
        arrow = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": style.RED}
        axes.annotate("", (tree["equal"], -0.47), (tree[""], -0.47), arrowprops=arrow)
        text = f"divergence: {share:.0%}\nof what the paper's\nkernel saves"
        axes.text(tree[""] + 150, -0.2, text, color=style.RED, fontsize=7, va="center")
    style.legend(figure)
    return figure


def latency(rows: pd.DataFrame) -> Figure:
    """Cycles of one dependent access."""
    timed = style.times(rows, "latency", metric="latency")
    figure, panels = style.panels_by_gpu(timed, 2.8, sharex=True)
    for axes, own in panels:
        own = own.sort_values("median")
        for i, cycles in enumerate(own["median"]):
            style.bar(axes, i, cycles, f"{cycles:.0f}", color=style.LIBRARY)
        style.rows_of_bars(axes, [kernel.replace("_", " ") for kernel in own.kernel], 8)
        axes.set_xlabel("cycles of one dependent access")
    return figure


FIGURES = {
    "instructions": ("nf4_counters", instructions),
    "stalls": ("nf4_counters", stalls),
    "divergence": ("divergence", divergence),
    "latency": ("latency", latency),
}
