"""Time over the number of rows, under both roofs."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import figures as draw
from plots.experiments import Run
from plots.product.tables import MODEL, Cell, by_layer, cells, is_of_model, measured_peak
from records.stats import significant

MARKED_US = (1, 3, 10, 30, 100, 300, 1000, 3000)
ROOF = "roof: "


def rows_figure(run: Run) -> Figure:
    """A panel per layer of the largest model."""
    found = [cell for cell in cells(run) if is_of_model(cell)]
    groups = by_layer(found)
    lines = max(1, (len(groups) + 1) // 2)
    figure = draw.new_figure(0.6 + 2.4 * lines)
    panels = list(figure.subplots(lines, 2, squeeze=False, sharex=True).flat)
    for axes, group in zip(panels, groups.values(), strict=False):
        draw_layer(axes, group)
    for axes in panels[-2:]:
        axes.set_xlabel("rows of activations, logarithmic")
    for axes in panels[::2]:
        axes.set_ylabel("us, logarithmic")
    for axes in panels[len(groups) :]:
        draw.annotate_empty(axes, "no layer")
    draw.legend_above(figure, panels, last=ROOF)
    notes = [
        f"Layers of {MODEL}, fp16, plain scales. Medians; intervals: the tables. Reading: codes "
        "and scales once, at the bandwidth of read_only on the largest layer."
    ]
    tflops, where = measured_peak(run)
    if where:
        notes.append(
            f"Tensor cores: at their measured peak, {significant(tflops, 3)} TFLOP/s, the highest "
            f"rate of any row ({where})."
        )
    draw.add_caption(figure, run["layers"], notes, run.recorded)
    return figure


def draw_layer(axes: Axes, group: list[Cell]) -> None:
    curves: dict[str, list[tuple[float, float]]] = {}
    for cell in group:
        for name, m in cell.rows.items():
            if m.record.ranked:
                curves.setdefault(name, []).append((cell.batch, m.record.times.median))
    for name, points in sorted(curves.items()):
        axes.plot(*zip(*points, strict=True), label=name, gid=name, **draw.look(name))
    batches = [cell.batch for cell in group]
    reading = [cell.reading_us for cell in group]
    if None not in reading:
        axes.plot(batches, reading, color=draw.BLACK, label=f"{ROOF}reading", gid="reading")
    multiplying = [cell.multiplying_us for cell in group]
    if any(multiplying):
        look = {"color": draw.GREY, "linestyle": (0, (4, 2))}
        axes.plot(batches, multiplying, label=f"{ROOF}tensor cores", gid="multiplying", **look)
    axes.set_title(group[0].layer)
    draw.logarithmic(axes.xaxis, batches, "")
    draw.logarithmic(axes.yaxis, MARKED_US, "")
    axes.set_ylim(bottom=lowest(curves, reading))


def lowest(curves: dict[str, list[tuple[float, float]]], reading: list[float | None]) -> float:
    """A little below all that is drawn but the second roof, which begins near nothing."""
    times = [us for points in curves.values() for _, us in points]
    return 0.7 * min([*times, *(us for us in reading if us)], default=1.0)
