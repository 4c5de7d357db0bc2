"""Table 2's figures about forward passes: speed-ups, all kernels, and shares."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, MultipleLocator

from claims.ledger import Verdict
from claims.published import AVERAGE
from claims.rules import NOT_TESTED
from plots import figures as draw
from plots.bandwidth import Measured
from plots.captions import clock_warning
from plots.experiments import Run
from plots.table2 import models
from plots.table2.speedup import (
    by_model,
    reading_of,
    rows_of,
    subject_of,
    title_of,
)
from records.stats import INTERVAL_NOTE, Estimate, ratio

INTERVAL_BARS = f"Bars: intervals. {INTERVAL_NOTE}"
MIN_SPAN = 0.4  # of the speed-up axis, so that small differences stay small


def cells_by_model(run: Run) -> list[list[list[Verdict]]]:
    """Table II without its averages: for each model, the cells in each reading of the text."""
    found: dict[str, list[list[Verdict]]] = {}
    for cells in by_model(run):
        shown = [v for v in cells if v.cell.at["batch"] != AVERAGE]
        found.setdefault(title_of(cells[0]), []).append(shown)
    return list(found.values())


def speedup_figure(run: Run) -> Figure:
    """One panel per model: our speed-ups with their intervals in every reading of the paper's text,
    and the paper's value, per batch.
    """
    cells = cells_by_model(run)
    figure, panels = draw.panels(3.3, len(cells), sharey=True)
    for axes, readings in zip(panels, cells, strict=True):
        draw_papers(axes, run, readings[0])
        for k, verdicts in enumerate(readings):
            draw_ours(axes, run, verdicts, k)
    every = [v for readings in cells for verdicts in readings for v in verdicts]
    extremes = [v.cell.value for v in every] + [end for v in every for end in v.interval or ()]
    middle, span = (max(extremes) + min(extremes)) / 2, max(extremes) - min(extremes)
    half = max(span * 1.25, MIN_SPAN) / 2
    panels[0].set_ylim(middle - half, middle + half)
    panels[0].yaxis.set_major_formatter(FormatStrFormatter("%.2f"))
    panels[0].set_ylabel(f"speed-up over\n{run.compared[0]} (x)")
    draw.legend_above(figure, panels, last="paper")
    warnings = [w for v in every for w in clock_warning(*rows_of(run, v))]
    notes = [f"The axis does not start at 0. {INTERVAL_NOTE}"]
    draw.add_caption(figure, run["replay"], notes, run.recorded, warnings)
    return figure


def draw_papers(axes: Axes, run: Run, verdicts: list[Verdict]) -> None:
    """The panel, with the paper's value at the left of each batch's place."""
    source, places = run.source, range(len(verdicts))
    papers = [v.cell.value for v in verdicts]
    label = f"paper ({source.gpu}, {source.fact('sm_clock_mhz')} MHz)"
    draw.mark(axes, [x - 0.2 for x in places], papers, label=label, gid="paper")
    model = title_of(verdicts[0]).replace(" (", "\n(")
    axes.set_title(model if "\n" in model else model + "\n")
    axes.set_xticks(list(places), [str(v.cell.at["batch"]) for v in verdicts])
    axes.set_xlim(-0.6, len(verdicts) - 0.4)
    axes.set_xlabel("batch (sequences)")
    axes.grid(axis="x", visible=False)


def draw_ours(axes: Axes, run: Run, verdicts: list[Verdict], k: int) -> None:
    """The k-th reading, at the right of each batch's place."""
    ours = [
        (x + 0.2, Estimate(v.ours, *(v.interval or (v.ours, v.ours))))
        for x, v in enumerate(verdicts)
        if v.ours is not None
    ]
    if ours:
        look = draw.look(subject_of(verdicts[0])) | {"linestyle": "none", "capsize": 3}
        xs, values = zip(*ours, strict=True)
        draw.whiskers(axes, xs, values, label=reading_of(verdicts[0]), gid=f"ours-{k}", **look)
    elif k == 0:
        was_run = any(v.verdict != NOT_TESTED for v in verdicts)
        draw.annotate_empty(axes, "no value: see the table" if was_run else "not run", 0.92)


def kernels_figure(run: Run) -> Figure:
    """Every timed kernel's speed-up per model at one batch; deviations hollow and last."""
    passes, baseline = models.shown_passes(run), run.compared[0]
    speed_ups = {
        kernel: {model: e for model, rows in passes.items() if (e := compared(rows.get(kernel)))}
        for kernel in models.ranking(passes)
    }
    speed_ups = {kernel: found for kernel, found in speed_ups.items() if found}
    figure, (axes,) = draw.panels(1.4 + 0.4 * max(3, len(speed_ups)))
    shade_papers(axes, run)
    axes.axvline(1, color=draw.BLACK, linewidth=1)
    labels: list[str] = []
    warnings: list[str] = []
    for row, (kernel, found) in enumerate(speed_ups.items()):
        deviates = any(passes[model][kernel].record.deviates for model in found)
        labels.append(kernel + "\n(declared deviation, unranked)" * deviates)
        for k, model in enumerate(passes):
            if model not in found:
                continue
            m, e = passes[model][kernel], found[model]
            warnings += clock_warning(m.base, m.record)
            colour = draw.colour(kernel)
            look = {"markerfacecolor": "white" if deviates else colour, "markersize": 4.4}
            look |= {"fmt": marker_of(k), "color": colour, "capsize": 2}
            y = row + (k - (len(passes) - 1) / 2) * 0.19
            draw.whiskers(axes, [y], [e], upright=False, **look)
    if not speed_ups:
        draw.annotate_empty(axes, f"nothing to compare with {baseline}")
    for k, model in enumerate(passes):
        draw.explain(axes, model, marker=marker_of(k))
    draw.kernel_rows(axes, labels)
    axes.set_xlim(left=0)
    what = f"speed-up over {baseline} in dequantization per forward pass"
    axes.set_xlabel(f"{what}, batch {models.shown_batch(run)} (x)")
    draw.legend_above(figure, [axes])
    draw.add_caption(figure, run["replay"], [INTERVAL_BARS], run.recorded, warnings)
    return figure


def marker_of(k: int) -> str:
    """The marker of the k-th model, in the kernels' colours."""
    return draw.MARKERS[k % len(draw.MARKERS)]


def compared(m: Measured | None) -> Estimate | None:
    """Speed-up over the baseline of any timed kernel, deviations too: they are drawn hollow."""
    if m is None or m.base in (None, m.record) or not m.record.timed or m.record.is_ceiling:
        return None
    return ratio(m.base.times, m.record.times)


def shade_papers(axes: Axes, run: Run) -> None:
    """The range of the paper's speed-ups, over all models and batches."""
    values = [v.cell.value for readings in cells_by_model(run) for v in readings[0]]
    low, high = min(values), max(values)
    axes.axvspan(low, high, color=draw.GREY, alpha=0.25, linewidth=0, gid="paper")
    text = f"paper's {run.compared[1]}: {low:.2f}-{high:.2f}"
    look = {"transform": axes.get_xaxis_transform(), "fontsize": 7, "color": draw.GREY}
    axes.text((low + high) / 2, 1.01, text, ha="center", va="bottom", **look)


def share_figure(run: Run) -> Figure:
    """One panel for each of the two kernels: share of dequantization against batch, per model."""
    replay, kernels, paper = run["replay"], run.compared, models.papers_share(run)
    figure, panels = draw.panels(3.3, len(kernels), sharey=True)
    problems = models.replay_problems(run)
    batches = sorted({p["batch"] for p in problems})
    for axes, kernel in zip(panels, kernels, strict=True):
        curves: dict[str, list[tuple[int, Estimate]]] = {}
        for p in problems:
            points = curves.setdefault(p["model"], [])
            found = models.share(replay.find(p["name"], kernel))
            points += [(p["batch"], found.estimate)] if found else []
        for k, (model, points) in enumerate(curves.items()):
            if points:
                line = draw.LINES[k % len(draw.LINES)]
                look = {"color": draw.colour(kernel), "fmt": marker_of(k), "linestyle": line}
                xs, values = zip(*points, strict=True)
                draw.whiskers(axes, xs, values, capsize=2, **look)
                look |= {"color": draw.BLACK, "marker": look.pop("fmt")}
                draw.explain(axes, model, **look)
        if not any(curves.values()):
            draw.annotate_empty(axes, "no time: see the table")
        axes.set_title(kernel)
        draw.logarithmic(axes.xaxis, batches, "batch (sequences)")
        axes.set_xlim(min(batches, default=1) / 1.3, max(batches, default=2) * 1.3)
        axes.set_ylim(0, 100)
        axes.yaxis.set_major_locator(MultipleLocator(20))
    label = f"paper, {paper.model} at batch {paper.at['batch']} ({run.source.gpu})"
    draw.mark(panels[0], [paper.at["batch"]], [paper.value], label=label, gid="paper")
    panels[0].set_ylabel("dequantization's share of\ndequantize and multiply (%)")
    draw.legend_above(figure, panels, columns=3, last="paper")
    draw.add_caption(figure, replay, [INTERVAL_BARS], run.recorded)
    return figure
