"""Figures of generated text: Figure 4, Table I's shares, and decoding steps in a CUDA graph."""

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import style
from plots.frame import against
from reprolab.json_files import ROOT, read_json

BASE = {"kernel": "branch_tree"}
SHOWN = ("shared_lut", "streaming")
KEYS = ["file", "problem"]


def by_model(
    rows: pd.DataFrame, draw: Callable[[Axes, str, pd.DataFrame, str], None]
) -> tuple[Figure, list[Axes]]:
    """A panel for each model, over its batches, with a line style for each GPU."""
    models = [
        m
        for m in ("gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b")
        if m in set(rows.model)
    ]
    batches = sorted(rows.batch.dropna().unique())
    figure, grid = style.panels(len(models), 3.0, sharey=True)
    for axes, model in zip(grid[0], models, strict=False):
        for (gpu, own), line in zip(style.by_gpu(rows), style.LINES, strict=False):
            draw(axes, line, own[own.model == model].sort_values("batch"), gpu)
        style.logarithmic(axes.xaxis, batches)
        axes.set_title(model, loc="left")
        axes.set_xlabel("batch")
    return figure, list(grid.flat)


def speedups(axes: Axes, line: str, own: pd.DataFrame, gpu: str) -> None:
    for kernel, colour in style.colours(SHOWN).items():
        of = own[own.kernel == kernel]
        spread = [(of.ratio - of.ratio_low).clip(lower=0), (of.ratio_high - of.ratio).clip(lower=0)]
        look = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3, "capsize": 2}
        axes.errorbar(
            of.batch.astype(float),
            of.ratio,
            yerr=spread,
            label=f"{style.label(kernel)}, {gpu}",
            **look,
        )


def figure4(rows: pd.DataFrame) -> Figure:
    """Speed-up of generating 32 tokens over the tree of branches, with the paper's values."""
    timed = style.times(rows[rows["way"] == "eager"], "timing", metric="wall_time")
    figure, panels = by_model(against(timed, BASE, KEYS), speedups)
    paper = read_json(ROOT / "data/published/paper.json")["tables"]["figure4"]
    for axes in panels:
        model = axes.get_title(loc="left")
        values = paper.get(model, paper["gemma-27b"] if model.startswith("gemma") else {})
        points = [
            (int(batch), v["speedup_latency"]) for batch, v in values.items() if batch != "average"
        ]
        look = {"color": style.LIMIT, "markerfacecolor": "none", "label": "the paper, A100"}
        axes.plot(*zip(*points, strict=True), "*", markersize=9, **look)
        axes.axhline(1, color=style.BASE, linewidth=1)
    finish(figure, panels, "speed-up of a generation (x)", 2.6)
    return figure


def graph(rows: pd.DataFrame) -> Figure:
    """Speed-up of a decoding step that is one CUDA graph, so that the host takes no time."""
    timed = style.times(rows[rows["way"] == "graph"], "timing", metric="wall_time.step")
    figure, panels = by_model(against(timed, BASE, KEYS), speedups)
    finish(figure, panels, "speed-up of a step in a graph (x)", 3.6)
    return figure


def share(rows: pd.DataFrame) -> Figure:
    """Dequantization's share of a generation, of the baseline and the paper's kernel."""
    took = style.times(rows[rows["way"] == "eager"], "profile")
    whole = style.times(rows[rows["way"] == "eager"], "timing", metric="wall_time")
    whole = whole.set_index(["gpu", "problem", "kernel"]).geometric_mean.rename("whole")
    took = took.join(whole, on=["gpu", "problem", "kernel"])
    took["share"] = 100 * took.geometric_mean / took.whole

    def draw(axes: Axes, line: str, own: pd.DataFrame, gpu: str) -> None:
        for kernel, colour in style.colours(("branch_tree", "shared_lut")).items():
            of = own[own.kernel == kernel]
            look = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3}
            axes.plot(
                of.batch.astype(float), of.share, label=f"{style.label(kernel)}, {gpu}", **look
            )

    figure, panels = by_model(took, draw)
    paper = read_json(ROOT / "data/published/paper.json")["tables"]["table1_qwen3_32b"]
    for axes in panels:
        if axes.get_title(loc="left") == "qwen3-32b":
            points = [(int(batch), values["overhead_percent"]) for batch, values in paper.items()]
            look = {"color": style.LIMIT, "markerfacecolor": "none", "label": "the paper, A100"}
            axes.plot(*zip(*points, strict=True), "*", markersize=8, **look)
    finish(figure, panels, "dequantization's share\nof a generation (%)", 100)
    return figure


def finish(figure: Figure, panels: list[Axes], text: str, top: float) -> None:
    panels[0].set_ylabel(text)
    panels[0].set_ylim(0, top)
    style.legend(figure, panels)


FIGURES = {"figure4": ("timing", figure4), "share": ("profile", share), "graph": ("timing", graph)}
