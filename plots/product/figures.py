"""Time over the number of rows, under both roofs."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import figures as draw
from plots.bandwidth import Measured
from plots.experiments import Run
from plots.product.tables import MODEL, Cell, by_layer, cells, is_of_model
from records.stats import significant

MARKED_US = (1, 3, 10, 30, 100, 300, 1000, 3000)
ROOF = "roof: "


def rows_figure(run: Run) -> Figure:
    """A panel per layer of the largest model."""
    found = [cell for cell in cells(run["layers"]) if is_of_model(cell)]
    groups = by_layer(found)
    rates = [(rate(c, m), m.record.place) for c in found for m in c.rows.values() if rate(c, m)]
    highest, where = max(rates, default=(0.0, ""))
    lines = max(1, (len(groups) + 1) // 2)
    figure = draw.new_figure(0.6 + 2.4 * lines)
    panels = list(figure.subplots(lines, 2, squeeze=False, sharex=True).flat)
    for axes, group in zip(panels, groups.values(), strict=False):
        draw_layer(axes, group, highest)
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
    if where:
        notes.append(
            "No peak of the tensor cores is recorded: the second roof is the highest rate of a row "
            f"in these panels, {significant(highest, 3)} TFLOP/s ({where}); theirs is no higher."
        )
    draw.add_caption(figure, run["layers"], notes, run.recorded)
    return figure


def rate(cell: Cell, m: Measured) -> float:
    """TFLOP/s; 0 where it has no time."""
    if not m.record.ranked:
        return 0.0
    return operations(cell) / m.record.times.median / 1e6


def operations(cell: Cell) -> int:
    """A multiplication and an addition for every weight and row."""
    return 2 * cell.batch * cell.problem["rows"] * cell.problem["columns"]


def draw_layer(axes: Axes, group: list[Cell], tflops: float) -> None:
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
    if tflops:
        times = [operations(cell) / tflops / 1e6 for cell in group]
        look = {"color": draw.GREY, "linestyle": (0, (4, 2))}
        axes.plot(batches, times, label=f"{ROOF}highest rate seen", gid="rate", **look)
    axes.set_title(group[0].layer)
    draw.logarithmic(axes.xaxis, batches, "")
    draw.logarithmic(axes.yaxis, MARKED_US, "")
    axes.set_ylim(bottom=lowest(curves, reading))


def lowest(curves: dict[str, list[tuple[float, float]]], reading: list[float | None]) -> float:
    """A little below all that is drawn but the second roof, which begins near nothing."""
    times = [us for points in curves.values() for _, us in points]
    return 0.7 * min([*times, *(us for us in reading if us)], default=1.0)
