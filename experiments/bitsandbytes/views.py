"""Experiment bitsandbytes: the time of one layer by release of the library."""

from matplotlib.figure import Figure

from experiments.bitsandbytes.rules import VERSION, as_numbers
from plots import default_view
from plots import figures as draw
from plots.bandwidth import Rows, measure, over
from plots.experiments import Run
from reprolab.captions import machine_notes
from reprolab.results import Record
from reprolab.tables import KERNEL, Column, Table, rounded

LAYERS = "layers"  # a pass
BESIDE = ("shared_lut", "streaming")  # the paper's kernel, and ours
NAMES = {"shared_lut": "the paper's kernel", "streaming": "ours"}


def shown_layer(run: Run) -> str:
    """The largest layer that ran."""
    return max(run[LAYERS].problems(), key=lambda p: p["n"])["name"]


def releases(rows: Rows) -> list[Record]:
    """The libraries with a time, the oldest first."""
    found = {
        as_numbers(version[1]): m.record
        for m in rows.values()
        if m.record.ranked and m.record.origin == "peer"
        if (version := VERSION.match(m.record.maker))
    }
    return [found[version] for version in sorted(found)]


def history_table(run: Run) -> Table:
    layer = shown_layer(run)
    rows = measure(run[LAYERS], layer)
    listed = [*releases(rows), *(rows[k].record for k in BESIDE if k in rows)]
    first = rows[listed[0].kernel] if listed else None
    found = [
        {"kernel": r.kernel, "us": r.times.median, "gain": over(first, rows[r.kernel])}
        for r in listed
        if r.ranked
    ]
    columns = [KERNEL, Column("us", "us", rounded), Column("over the first", "gain", wrap=1)]
    title = f"Time of {layer} by release, and of the paper's kernel and ours"
    return Table("history", title, columns, found, [], machine_notes(run[LAYERS]))


def history_figure(run: Run) -> Figure:
    layer = shown_layer(run)
    rows = measure(run[LAYERS], layer)
    figure, (axes,) = draw.panels(3.2)
    libraries = releases(rows)
    times = [(i, r.times.estimate) for i, r in enumerate(libraries)]
    draw.whiskers(axes, times, color=draw.BLACK, marker="o", label="bitsandbytes")
    for kernel in BESIDE:
        if kernel in rows and rows[kernel].record.ranked:
            us, look = rows[kernel].record.times.median, draw.look(kernel) | {"marker": ""}
            axes.axhline(us, label=f"{kernel}, {NAMES[kernel]}", **look)
    axes.set_xticks(range(len(libraries)), [r.maker.split()[1] for r in libraries])
    axes.set_xlim(-0.5, max(len(libraries), 1) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("release of bitsandbytes")
    axes.set_ylabel(f"time of {layer} (us)")
    draw.legend_above(figure, [axes], columns=3)
    draw.add_caption(figure, run[LAYERS], ["Medians, with their intervals."], run.recorded)
    return figure


TABLES = (default_view.tables, history_table)
ON_TERMINAL = ("history",)
FIGURES = {"history": ("Time of one layer by release of bitsandbytes", history_figure)}
