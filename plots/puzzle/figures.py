"""The puzzle's figure: seconds of every kernel, beside those of the post's GPUs."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import bandwidth
from plots import figures as draw
from plots.bandwidth import Measured
from plots.captions import clock_warning
from plots.experiments import Run
from plots.puzzle.tables import MAKERS, brief, published, puzzle_rows, wall
from records.results import Record
from records.stats import INTERVAL_NOTE, significant

SECONDS = [digit * power for power in (0.01, 0.1, 1, 10) for digit in (1, 1.5, 2, 3, 5, 7)]


def seconds_figure(run: Run) -> Figure:
    return draw_seconds(run, puzzle_rows(run))


def brief_figure(run: Run) -> Figure:
    return draw_seconds(run, brief(run))


def draw_seconds(run: Run, rows: Sequence[Measured]) -> Figure:
    """One row per GPU of the post and per kernel here; both ways on one logarithmic axis."""
    results = run["mlps"]
    shown = [m for m in rows if wall(m.record) and not m.record.is_ceiling]
    gpus = list(dict.fromkeys(p.gpu for p in published(run)))
    figure, (axes,) = draw.panels(1.5 + 0.32 * max(3, len(gpus) + len(shown)))
    for which, what in enumerate(MAKERS.values()):
        found = [(p.seconds, gpus.index(p.gpu)) for p in published(run) if p.what == what]
        if found:
            look = {"label": f"published: {what}", "gid": what}
            draw.mark(axes, *zip(*found, strict=True), which, **look)
    for row, m in enumerate(shown, len(gpus)):
        draw_row(axes, row, m.record)
    best = bandwidth.ceiling([m.record for m in puzzle_rows(run)])
    if best is not None:
        seconds = best.times.median / 1e6
        text = f"ceiling by graphs ({best.kernel}): {significant(seconds)} s"
        axes.axvline(seconds, color=draw.BLACK, linewidth=1.6, label=text, gid="ceiling")
    if not shown:
        draw.annotate_empty(axes, "no timed row", 0.15)
    labels = [m.record.kernel + draw.DEVIATES * bool(m.record.deviation) for m in shown]
    draw.kernel_rows(axes, [*(f"the post's {gpu}" for gpu in gpus), *labels])
    draw.logarithmic(axes.xaxis, SECONDS, "seconds")
    draw.explain(axes, "timed as published", marker="o", markerfacecolor="white")
    draw.explain(axes, "by graphs", marker="o")
    draw.legend_above(figure, [axes], columns=3, last="published")
    notes = [f"Medians and intervals; right of each row: its median by graphs. {INTERVAL_NOTE}"]
    if any(m.record.deviation for m in shown):
        notes.append(draw.DEVIATES_NOTE)
    warnings = [w for m in shown for w in clock_warning(m.record, shown[0].record)]
    draw.add_caption(figure, results, notes, run.recorded, warnings)
    return figure


def draw_row(axes: Axes, row: int, record: Record) -> None:
    """As published hollow, by graphs filled."""
    look = draw.look(record.kernel) | {"linestyle": "none", "capsize": 3, "markersize": 6}
    for us, face in ((wall(record), "white"), (record.summary, look["color"])):
        if us is not None:
            seconds, style = us.estimate.scaled(1e-6), look | {"markerfacecolor": face}
            draw.whiskers(axes, [row], [seconds], upright=False, **style)
    if record.summary is not None:
        draw.write_right(axes, row, f"{significant(record.summary.median / 1e6)} s")
