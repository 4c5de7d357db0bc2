"""Tables and figures of experiment end_to_end; figures have batches along x, a panel per model."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.end_to_end.protocol import EAGER, GRAPH, STEP_TIME, WALL_TIME
from experiments.end_to_end.views import steps, tables
from experiments.end_to_end.views.rows import FUSED, OURS, Setting, settings_in
from experiments.end_to_end.views.tables import (
    OVERHEAD,
    our_prediction,
    papers_predictions,
    papers_value,
)
from plots import figures as draw
from plots.experiments import Run
from reprolab.stats import INTERVAL_NOTE, Estimate
from reprolab.tables import Values, plain

BARS = f"Bars: intervals. {INTERVAL_NOTE}"
TOKENS_PER_S = [digit * power for power in (0.1, 1, 10, 100, 1000) for digit in (1, 3)]
# Markers that distinguish the decode modes of one kernel.
FACES: dict[str, dict[str, Any]] = {
    EAGER: {"markerfacecolor": "white", "linestyle": "--"},
    GRAPH: {},
}


def by_model(run: Run, mode: str = EAGER) -> dict[str, list[Setting]]:
    """In the models' order, with the batches ascending; empty lists if a mode has none."""
    settings_of: dict[str, list[Setting]] = {p.model: [] for p in settings_in(run, EAGER)}
    for setting in settings_in(run, mode):
        settings_of[setting.model].append(setting)
    return settings_of


def curve(kernel: str, label: str) -> dict[str, Any]:
    """The look of a kernel's points over the batches."""
    return draw.look(kernel) | {"label": label, "capsize": 2}


def kernels_of(run: Run) -> list[str]:
    """Kernels that figures show: without a library whose kernel is the baseline's."""
    every = dict.fromkeys(kernel for p in settings_in(run, EAGER) for kernel in p.timing)
    newest = {p.installed for p in settings_in(run, EAGER)}
    old = [k for k in every if k.startswith("bitsandbytes") and k not in newest]
    return draw.chosen([k for k in every if k not in old])


def omitted_kernels(run: Run) -> list[str]:
    every = {kernel for p in settings_in(run, EAGER) for kernel in p.timing}
    names = ", ".join(sorted(every - set(kernels_of(run))))
    return [f"Not shown: {names}, in the table."] * bool(names)


def panels_of(run: Run, rows: int, height: float) -> tuple[Figure, list[list[Axes]]]:
    """A column for each model, or a row in a narrow figure, over the batches."""
    models = by_model(run)
    width = draw.width_of_figures()
    narrow = width < draw.WIDTHS[2]
    figure = draw.new_figure(1.0 + 1.45 * len(models) if narrow else height, width)
    grid = draw.grid_of(figure, rows, len(models), sharex=True, sharey="row")
    batches = sorted({setting.batch for shown in models.values() for setting in shown})
    for axes, name in zip(grid[0], models, strict=True):
        axes.set_title(name)
    for axes in [axes for row in grid for axes in row]:
        is_last = axes.get_subplotspec().is_last_row()
        draw.logarithmic(axes.xaxis, batches, "batch (sequences)" * is_last)
        axes.set_xlim(batches[0] / 1.4, batches[-1] * 1.4)
    return figure, grid


def finish(run: Run, figure: Figure, grid: Sequence[Sequence[Axes]], notes: Sequence[str]) -> None:
    """Notes on what panels lack, the legend and the caption."""
    every = [axes for row in grid for axes in row]
    for axes in every:
        if not axes.containers:  # no time of ours; the paper's points have no error bars
            draw.annotate_empty(axes, "no time:\nsee the table")
        if axes.get_yscale() == "linear" and axes.get_autoscaley_on():
            axes.margins(y=0.1)
            axes.set_ylim(bottom=0)
    draw.legend_above(figure, every, columns=3, last="paper")
    draw.add_caption(figure, run["timing"], notes, run.recorded)


def figure4(run: Run) -> Figure:
    """Speed-up and throughput, with the points that the paper's text gives."""
    figure, grid = panels_of(run, 2, 5.4)
    baseline, subject = run.compared
    names = {baseline: "baseline", subject: "optimized"}
    for column, shown in enumerate(by_model(run).values()):
        panels = gains, speeds = [row[column] for row in grid]
        draw.logarithmic(speeds.yaxis, TOKENS_PER_S, "")
        for kernel in kernels_of(run):
            look = curve(kernel, kernel)
            if kernel != baseline:
                speed_ups = ((p.batch, p.gain(baseline, kernel, WALL_TIME)) for p in shown)
                draw.whiskers(gains, speed_ups, **look)
            draw.whiskers(speeds, ((p.batch, p.tokens_per_s(kernel)) for p in shown), **look)
        gains.axhline(1, color=draw.BLACK, linewidth=1)
        for kernel, name in names.items():
            look = {"color": draw.colour(kernel), "gid": "paper"}
            look |= {"label": f"paper's {kernel} ({run.source.gpu})"}
            gain_fields = ("speedup", "speedup_latency") if kernel == subject else ()
            fields = (gain_fields, (f"{name}_tokens_per_s",))
            for axes, wanted in zip(panels, fields, strict=True):
                # Batches that ran here, and the first of the fields that the paper has of them.
                values = ((p.batch, [papers_value(run, p, f) for f in wanted]) for p in shown)
                points = ((batch, next(filter(None, some))) for batch, some in values if any(some))
                draw.mark(axes, points, **look)
    grid[0][0].set_ylabel(f"speed-up of a generation\nover {baseline} (x)")
    grid[1][0].set_ylabel("tokens per second,\nlogarithmic")
    tokens = tables.tokens_text(run)
    notes = [
        f"Eager, {tokens} new tokens; the paper does not say how many it made. {BARS}",
        *omitted_kernels(run),
    ]
    finish(run, figure, grid, notes)
    return figure


def share_figure(run: Run) -> Figure:
    """Table I: dequantization's share of a generation, of the baseline and the paper's kernel."""
    figure, grid = panels_of(run, 1, 3.4)
    for axes, (model, shown) in zip(grid[0], by_model(run).items(), strict=True):
        for kernel in run.compared:
            shares = ((p.batch, p.share(kernel)) for p in shown)
            draw.whiskers(axes, shares, **curve(kernel, kernel))
        cells = [v.cell for v in run.decision(OVERHEAD).verdicts if v.cell.at.get("model") == model]
        papers = ((cell.at["batch"], cell.value) for cell in cells)
        draw.mark(axes, papers, label=f"paper's baseline ({run.source.gpu})", gid="paper")
    grid[0][0].set_ylabel("dequantization's share\nof a generation (%)")
    finish(run, figure, grid, [f"Eager. {BARS}"])
    return figure


def graph_figure(run: Run) -> Figure:
    """A decoding step in a CUDA graph over the baseline's; and, without one, the GPU at rest."""
    figure, grid = panels_of(run, 2, 5.4)
    baseline, _ = run.compared
    modes = zip(*grid, by_model(run, GRAPH).values(), by_model(run, EAGER).values(), strict=True)
    for gains, idle, in_graph, eager in modes:
        for kernel in kernels_of(run):
            look = curve(kernel, kernel)
            if kernel != baseline:
                speed_ups = ((p.batch, p.gain(baseline, kernel, STEP_TIME)) for p in in_graph)
                draw.whiskers(gains, speed_ups, **look)
            draw.whiskers(idle, ((p.batch, p.idle_percent(kernel)) for p in eager), **look)
    for gains, idle in zip(*grid, strict=True):
        gains.axhline(1, color=draw.BLACK, linewidth=1)
        idle.set_ylim(-3, 100)
    grid[0][0].set_ylabel(f"in a graph: speed-up of a\nstep over {baseline} (x)")
    grid[1][0].set_ylabel("eager: part of a step in\nwhich the GPU is idle (%)")
    idle_most = max((e.value for p in settings_in(run, GRAPH) for e in idle_in(p)), default=None)
    notes = [f"Decoding steps alone. {BARS}", *omitted_kernels(run)]
    if idle_most is not None:
        notes.append(f"In a graph the GPU is idle for {idle_most:.0f} % of a step at most.")
    finish(run, figure, grid, notes)
    return figure


def idle_in(p: Setting) -> list[Estimate]:
    return [e for kernel in p.timing if (e := p.idle_percent(kernel))]


def newest_figure(run: Run) -> Figure:
    """A decoding step of bitsandbytes as it is installed, over one in each of our two ways."""
    figure, grid = panels_of(run, 1, 3.4)
    for axes in grid[0]:
        axes.axhline(1, color=draw.BLACK, linewidth=1)
    for kernel, mode in product((OURS, FUSED), (EAGER, GRAPH)):
        for axes, shown in zip(grid[0], by_model(run, mode).values(), strict=True):
            gains = ((p.batch, p.gain(p.installed, kernel, STEP_TIME)) for p in shown)
            draw.whiskers(axes, gains, **curve(kernel, f"{kernel}, {mode}") | FACES[mode])
    grid[0][0].set_ylabel(f"speed-up of a step over\n{steps.installed_name(run)} (x)")
    ways = f"with {OURS} all products dequantize, with {FUSED} few"
    lost = tables.absent_kernels(run, steps.installed_name(run), OURS, FUSED)
    finish(run, figure, grid, [f"Above 1, ours is the faster: {ways}. {BARS}", *lost])
    return figure


def amdahl_figure(run: Run) -> Figure:
    """Measured speed-ups over predicted ones; the paper's own where its text reports one."""
    figure, (axes,) = draw.panels(4.4)
    _, subject = run.compared
    drawn: list[float] = []
    for mode in (EAGER, GRAPH):
        points = known_pairs([our_prediction(run, setting) for setting in settings_in(run, mode)])
        label = f"ours, {mode} ({run['timing'].gpu})"
        look = curve(subject, label) | FACES[mode] | {"linestyle": "none", "gid": mode}
        draw.whiskers(axes, points, **look)
        drawn += [end for x, y in points for end in (x, y.value)]
    theirs = [(x, y.value) for x, y in known_pairs(papers_predictions(run))]
    label = f"paper, qwen3-32b at batch 32 ({run.source.gpu})"
    draw.mark(axes, theirs, label=label, gid="paper")
    drawn += [value for point in theirs for value in point]
    ends = [min(drawn) - 0.05, max(drawn) + 0.05]
    axes.plot(ends, ends, color=draw.BLACK, linewidth=1, label="as predicted")
    axes.set_xlabel(f"predicted speed-up with {subject} (x)")
    axes.set_ylabel("measured speed-up (x)")
    draw.legend_above(figure, [axes], columns=2, last="paper")
    notes = [
        "Amdahl's law: 1 / (1 - share + share / kernel speed-up).",
        f"Eager: of a generation; graph: of a decoding step. {BARS}",
        *tables.absent_kernels(run, *run.compared),
    ]
    draw.add_caption(figure, run["timing"], notes, run.recorded)
    return figure


def known_pairs(predictions: Iterable[Values]) -> list[tuple[float, Estimate]]:
    pairs = [(row["predicted"], plain(row["_measured"])) for row in predictions]
    return [(predicted, measured) for predicted, measured in pairs if predicted and measured]


def highlights(run: Run) -> list[str]:
    """For each model, the speed-up of a step with each of our two ways and bitsandbytes' own."""
    baseline, _ = run.compared
    lines = []
    smallest = {model: shown[0].batch for model, shown in by_model(run).items()}
    for p in settings_in(run, GRAPH):
        gain_of = {way: p.gain(baseline, way, STEP_TIME) for way in (OURS, p.installed, FUSED)}
        gains = [f"{way} {gain.value:.2f}x" for way, gain in gain_of.items() if gain]
        if gains and p.batch == smallest[p.model]:
            where = f"{p.model} at batch {p.batch}, a decoding step in a CUDA graph"
            lines.append(f"{where}, over {baseline}: {', '.join(gains)}.")
    return lines


TABLES = (
    tables.table1,
    tables.figure4,
    steps.steps,
    steps.newest,
    tables.amdahl_table,
    tables.left,
    tables.qmatmul,
)
ON_TERMINAL = ("table1", "figure4", "newest")
HEADLINE = "end-to-end"  # the claim
QUESTION = "Does the kernel make text generation faster?"
FIGURES = {
    "figure4": ("Speed-up and throughput, ours and the paper's points", figure4),
    "share": ("Dequantization's share of a generation", share_figure),
    "graph": ("A decoding step, eager and in one CUDA graph", graph_figure),
    "newest": ("Against bitsandbytes as it is installed", newest_figure),
    "amdahl": ("Speed-ups predicted by Amdahl's law, and measured", amdahl_figure),
}
