"""Figures of generated text: Figure 4, Table I's shares, and decoding steps in a CUDA graph."""

from collections.abc import Callable, Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import style
from plots.frame import against
from reprolab.json_files import ROOT, read_json

BASE = {"kernel": "branch_tree"}
SHOWN = ("shared_lut", "streaming")
KEYS = ["file", "problem"]
MODELS = ("gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b")


def by_model(rows: pd.DataFrame, draw: Callable[[Axes, str, pd.DataFrame, str], None]) -> Figure:
    """A panel for each model, over its batches, with a line style for each GPU."""
    models = [model for model in MODELS if model in set(rows.model)]
    batches = sorted(rows.batch.dropna().unique())
    figure, grid = style.panels(len(models), 3.0, sharey=True)
    for axes, model in zip(grid[0], models, strict=False):
        for (gpu, own), line in zip(style.by_gpu(rows), style.LINES, strict=False):
            draw(axes, line, own[own.model == model].sort_values("batch"), gpu)
        style.logarithmic(axes.xaxis, batches)
        axes.set_xlim(batches[0] / 1.4, batches[-1] * 1.4)
        axes.set_title(model, loc="left")
        axes.set_xlabel("batch")
    return figure


def speedups(axes: Axes, line: str, own: pd.DataFrame, gpu: str) -> None:
    """The curves of one batch stand side by side, so that their intervals can be told apart."""
    for i, (kernel, colour) in enumerate(style.colours(SHOWN).items()):
        of = own[own.kernel == kernel]
        x = of.batch.astype(float) * 2 ** (0.13 * (2 * style.LINES.index(line) + i - 1.5))
        spread = [(of.ratio - of.ratio_low).clip(lower=0), (of.ratio_high - of.ratio).clip(lower=0)]
        look = {"color": colour, "linestyle": line, "marker": "o", "markersize": 3, "capsize": 1.5}
        axes.errorbar(x, of.ratio, spread, label=f"{style.label(kernel)}, {gpu}", **look)


def papers(axes: Axes, values: Mapping[str, dict[str, float]], field: str) -> None:
    """The paper's values by batch."""
    points = [(int(batch), of[field]) for batch, of in values.items() if batch != "average"]
    look = {"color": style.LIMIT, "markerfacecolor": "none", "label": "the paper, A100"}
    axes.plot(*zip(*points, strict=True), "*", markersize=9, zorder=3, **look)


def figure4(rows: pd.DataFrame) -> Figure:
    """Speed-up of generating 32 tokens over the tree of branches, with the paper's values."""
    timed = style.times(rows[rows["way"] == "eager"], "timing", metric="wall_time")
    figure = by_model(against(timed, BASE, KEYS), speedups)
    paper = read_json(ROOT / "data/published/paper.json")["tables"]["figure4"]
    for axes in figure.axes:
        model = axes.get_title(loc="left")
        own = paper.get(model, paper["gemma-27b"] if model.startswith("gemma") else {})
        papers(axes, own, "speedup_latency")
        axes.axhline(1, color=style.BASE, linewidth=1)
    return finish(figure, "speed-up over the baseline (x)")


def graph(rows: pd.DataFrame) -> Figure:
    """Speed-up of a decoding step that is one CUDA graph, so that the host takes no time."""
    timed = style.times(rows[rows["way"] == "graph"], "timing", metric="wall_time.step")
    figure = by_model(against(timed, BASE, KEYS), speedups)
    return finish(figure, "speed-up of a step in a graph (x)")


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
            text = f"{style.label(kernel)}, {gpu}"
            axes.plot(of.batch.astype(float), of.share, label=text, **look)

    figure = by_model(took, draw)
    paper = read_json(ROOT / "data/published/paper.json")["tables"]["table1_qwen3_32b"]
    for axes in figure.axes:
        if axes.get_title(loc="left") == "qwen3-32b":
            papers(axes, paper, "overhead_percent")
    return finish(figure, "dequantization's share\nof a generation (%)")


def finish(figure: Figure, text: str) -> Figure:
    figure.axes[0].set_ylabel(text)
    figure.axes[0].set_ylim(bottom=0)
    style.legend(figure)
    return figure


FIGURES = {"figure4": ("timing", figure4), "share": ("profile", share), "graph": ("timing", graph)}
