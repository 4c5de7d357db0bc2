"""Experiment counters: what there is to see of it."""

from matplotlib.figure import Figure

from plots.counter_tables import facts_table, full_table, on_largest, short_table
from plots.counters.divergence import (
    compared_kernels,
    divergence_figure,
    divergence_reading,
    divergence_table,
)
from plots.counters.figures import instructions_figure, roofline_figure, stalls_figure
from plots.counters.latency import latency_figure, latency_table
from plots.experiments import Run
from plots.neighbours import rows_of_both
from plots.tables import Table
from records.code import differing

NF4 = "Why NF4 kernels differ: counters on the largest layer"
TRANSPOSE = "Why transposes differ: counters"


def sass_table(run: Run) -> Table:
    table, counted = facts_table(run["sass"]), run["nf4_counters"]
    kernels = {r.kernel for r in run["sass"].records}
    if why := differing(rows_of_both(kernels, counted, run["transpose_counters"], run["sass"])):
        table.notes.append(f"Not of the code that ran: {why}.")
    return table


def highlights(run: Run) -> list[str]:
    return divergence_reading(run)


def nf4_short(run: Run) -> Table:
    counters = on_largest(run["nf4_counters"])
    return short_table(counters, run["nf4_launches"], "nf4_counters", NF4)


def nf4_full(run: Run) -> Table:
    title = "Every counter of the NF4 kernels, on one layer of each model"
    passes = run["nf4_counters"], run["nf4_launches"]
    return full_table(*passes, "nf4_all_counters", title, compared_kernels(run))


def transpose_short(run: Run) -> Table:
    counters = on_largest(run["transpose_counters"])
    return short_table(counters, run["transpose_launches"], "transpose_counters", TRANSPOSE)


def transpose_full(run: Run) -> Table:
    passes = run["transpose_counters"], run["transpose_launches"]
    return full_table(*passes, "transpose_all_counters", "Every counter of the transposes")


def families(run: Run) -> dict[str, tuple]:
    """By the title of a figure's panel: counters, times, and what else may have the copy."""
    return {
        "NF4 dequantization": (run["nf4_counters"], run["nf4_launches"], run["divergence"]),
        "transpose": (run["transpose_counters"], run["transpose_launches"]),
    }


def instructions(run: Run) -> Figure:
    return instructions_figure(families(run), run.recorded)


def stalls(run: Run) -> Figure:
    return stalls_figure(families(run), run.recorded)


def roofline(run: Run) -> Figure:
    return roofline_figure(families(run), run.recorded)


TABLES = (
    nf4_short,
    transpose_short,
    latency_table,
    divergence_table,
    sass_table,
    nf4_full,
    transpose_full,
)
ON_TERMINAL = ("nf4_counters", "transpose_counters", "latency", "divergence", "claims")
FIGURES = {
    "instructions": ("Instructions per weight and element, by pipe", instructions),
    "stalls": ("What warps wait for", stalls),
    "roofline": ("Bandwidth over instructions per byte, under both limits", roofline),
    "latency": ("Cycles of one dependent access, ours and the paper's", latency_figure),
    "divergence": ("Time by kernel and by how its codes are ordered", divergence_figure),
}
