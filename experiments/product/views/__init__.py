"""Experiment product: tables, figures and highlights."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.product.views import tables
from experiments.product.views.cells import MODEL, OURS, Cell, cells, of_model, others, peers
from experiments.product.views.generation import gain_sentences, generation_table, steps_table
from experiments.product.views.shared_memory import shared_memory_table
from plots import figures as draw
from plots.bandwidth import Measured, compared
from plots.counter_tables import short_table
from plots.experiments import Run
from reprolab.results import Record
from reprolab.stats import Estimate, span
from reprolab.tables import Table, rounded

HIGHLIGHTED_ROWS = (1, 8)
SUMMARY_ROWS = (1, 8, 64, 512)
FUSED = ("fused", "fused_exact")  # ours under PyTorch
MARKED_US = (1, 3, 10, 30, 100, 300, 1000, 3000)
ROOF = "roof: "
EXACT = "_exact"
NAMES = {OURS: "ours", "ours_exact": "ours, exact"}
STANDS_FOR = {OURS: "few_rows", "ours_exact": "few_rows_exact"}  # whose colours they get


def highlights(run: Run) -> list[str]:
    """Over all layers, at a few numbers of rows; and the cells in which ours is slower."""
    lines = [at_rows(run, batch) for batch in HIGHLIGHTED_ROWS]
    slower = []
    for name in others(run["layers"]):
        gains = [gain for cell in cells(run) if (gain := cell.gain(name, OURS))]
        if count := sum(gain.high < 1 for gain in gains):
            slower.append(f"{name} in {count} of {len(gains)} cells")
    lines += [f"The fastest of ours is slower than {', '.join(slower)}."] * bool(slower)
    lines += [under_torch(run), *gain_sentences(run)]
    return [line for line in lines if line]


def at_rows(run: Run, batch: int) -> str:
    """'8 rows, all layers: the fastest of ours is 3.03 to 4.93 times as fast as ...'"""
    those, parts = [cell for cell in cells(run) if cell.batch == batch], []
    for name in others(run["layers"]):
        if gains := [gain.value for cell in those if (gain := cell.gain(name, OURS))]:
            parts.append(f"{span(gains)} times as fast as {name}")
    if shares := [100 * share for cell in those if (share := cell.of_floor(cell.ours))]:
        parts.append(f"the floor is {span(shares, 2)} % of its time")
    rows = f"{batch} row{'s' * (batch > 1)}"
    return f"{rows}, all layers: the fastest of ours is {'; '.join(parts)}." if parts else ""


def under_torch(run: Run) -> str:
    """'Under PyTorch fused is 2.85 to 9.47 times as fast as bitsandbytes_0.50.2; ...'"""
    gains: dict[str, list[Estimate]] = {}
    for cell in cells(run, "peers") if "peers" in run.passes else ():
        for name, m in cell.rows.items():
            if name not in FUSED and (gain := compared(m, cell.rows.get(FUSED[0]))):
                gains.setdefault(name, []).append(gain)
    parts = []
    for name, ratios in gains.items():
        slower = sum(gain.high < 1 for gain in ratios)
        counted = f", slower in {slower} of {len(ratios)} cells" * bool(slower)
        parts.append(f"{span([g.value for g in ratios])} times as fast as {name}{counted}")
    return f"Under PyTorch {FUSED[0]} is {'; '.join(parts)}." if parts else ""


def summary(run: Run) -> dict[str, list[float]]:
    """The gain over the installed bitsandbytes in each layer, by the number of rows."""
    gains: dict[str, list[float]] = {}
    for cell in cells(run):
        if cell.batch in SUMMARY_ROWS:
            for name in peers(run["layers"].records):
                if gain := cell.gain(name, OURS):
                    rows = f"{cell.batch} row{'s' * (cell.batch > 1)}"
                    gains.setdefault(rows, []).append(gain.value)
    return gains


def brief(run: Run) -> list[Measured]:
    """The rows that read 4-bit weights, on the largest layer with one row."""
    *_, one = [None, *(cell for cell in cells(run) if cell.batch == 1)]
    rows = [one.chosen.get(n) for n in (OURS, *peers(run["layers"].records))] if one else []
    return [m for m in rows if m and m.gb_s]


def counters_table(run: Run) -> Table:
    """The limit of each kernel, at a few numbers of rows."""
    title = "Counters of the products on the largest layer"
    return short_table(run["counters"], run["layers"], "counters", title)


def rows_figure(run: Run) -> Figure:
    """Time over the number of rows, under both roofs: a panel per layer of the largest model."""
    groups = tables.by_layer(of_model(run)).values()
    columns = 1 if draw.width_of_figures() < draw.WIDTHS[2] else 2
    lines = max(1, -(-len(groups) // columns))
    figure = draw.new_figure(0.6 + (2.4 if columns > 1 else 1.75) * lines, draw.width_of_figures())
    panels = list(figure.subplots(lines, columns, squeeze=False, sharex=True).flat)
    for axes, group in zip(panels, groups, strict=False):
        draw_layer(axes, group)
    for axes in panels[-columns:]:
        axes.set_xlabel("rows of activations, logarithmic")
    for axes in panels[::columns] if columns > 1 else panels[1:2]:
        axes.set_ylabel("microseconds, logarithmic")
    for axes in panels[len(groups) :]:
        draw.annotate_empty(axes, "no layer")
    draw.legend_above(figure, panels, columns=3, last=ROOF)
    notes = [
        "Ours: the fastest of our kernels; exact: of those that multiply by the weights that "
        "dequantization writes. bitsandbytes: gemm where it has one, else gemv.",
        f"Layers of {MODEL}, fp16, plain scales. Medians; intervals: the tables. Reading: codes "
        "and scales once, at the bandwidth of read_only on the largest layer.",
    ]
    tflops, where = tables.measured_peak(run)
    if where:
        notes.append(
            f"Tensor cores: at their measured peak, {rounded(tflops)} TFLOP/s, the highest "
            f"rate of any row ({where})."
        )
    draw.add_caption(figure, run["layers"], notes, run.recorded)
    return figure


def shown_of(cell: Cell) -> dict[str, Measured | None]:
    """The fastest of ours, our fastest exact kernel, and the rows that they are compared with."""
    exact = cell.fastest(name for name in cell.rows if name.endswith(EXACT))
    libraries = {name: cell.chosen.get(name) for name in peers(rows_of(cell))}
    others = {name: cell.rows.get(name) for name in (tables.CUBLAS, *tables.DETOURS)}
    return {OURS: cell.ours, "ours_exact": exact, **libraries, **others}


def rows_of(cell: Cell) -> list[Record]:
    return [m.record for m in cell.rows.values()]


def draw_layer(axes: Axes, group: list[Cell]) -> None:
    curves: dict[str, list[tuple[float, float]]] = {}
    for cell in group:
        for name, m in shown_of(cell).items():
            if m is not None and m.record.ranked:
                curves.setdefault(name, []).append((cell.batch, m.record.times.median))
    for name, points in curves.items():
        look = draw.look(STANDS_FOR.get(name, name))
        axes.plot(*zip(*points, strict=True), label=NAMES.get(name, name), gid=name, **look)
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
    # A little below all curves except the second roof, which begins near 0.
    times = [us for points in curves.values() for _, us in points]
    axes.set_ylim(bottom=0.7 * min([*times, *(us for us in reading if us)], default=1.0))


TABLES = (
    tables.layers_table,
    tables.kernels_table,
    tables.peers_table,
    tables.crossover_table,
    tables.formats_table,
    tables.weights_table,
    counters_table,
    shared_memory_table,
    generation_table,
    steps_table,
)
SUMMARY = summary
QUESTION = "How much faster than the installed bitsandbytes is a product with 4-bit weights?"
ON_TERMINAL = ("layers", "peers", "crossover", "formats", "weights")
FIGURES = {
    "rows": (f"Time over the number of rows, layers of {MODEL}", rows_figure),
}
BRIEF = brief
