"""The figure of the experiment streaming: bandwidth of every layer, plain and nested."""

from matplotlib.figure import Figure

from plots import figures as draw
from plots import sample_figures as shared
from plots.experiments import Run
from plots.streaming.rows import OURS
from plots.streaming.tables import BASES
from records.results import Record


def layers_figure(run: Run) -> Figure:
    """GB/s against the size of the layer, under the ceilings."""
    panels = {
        "plain scales": list(run["layers"].records),
        "nested scales": list(run["layers_nested"].records),
    }
    figure = shared.bandwidth_figure(panels, million_weights, (OURS, BASES["layers"][0]))
    for axes in figure.axes:
        draw.logarithmic(axes.xaxis, shared.MILLION_WEIGHTS, "weights (millions)")
    notes = ["Each layer of the paper's models once. Medians; intervals: the tables."]
    draw.add_caption(figure, run["layers"], notes, run.recorded)
    return figure


def million_weights(record: Record) -> float:
    return record.problem["n"] / 1e6
