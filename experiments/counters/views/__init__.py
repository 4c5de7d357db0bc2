"""The views of experiment counters."""

from experiments.counters.views.divergence import (
    divergence_figure,
    divergence_reading,
    divergence_table,
)
from experiments.counters.views.figures import (
    counted_and_timed,
    instructions_figure,
    roofline_figure,
    stalls_figure,
)
from experiments.counters.views.latency import latency_figure, latency_table
from plots.counter_tables import facts_table, full_table, on_largest, short_table
from plots.experiments import Run
from plots.neighbours import rows_of_both
from reprolab.code import differing
from reprolab.tables import Table

TITLES = {
    "nf4": "Why NF4 kernels differ: counters on the largest layer",
    "transpose": "Why transposes differ: counters",
}
FULL_TITLES = {
    "nf4": "Every counter of the NF4 kernels, on one layer of each model",
    "transpose": "Every counter of the transposes",
}


def sass_table(run: Run) -> Table:
    table, counted = facts_table(run["sass"]), run["nf4_counters"]
    kernels = {r.kernel for r in run["sass"].records}
    if why := differing(rows_of_both(kernels, counted, run["transpose_counters"], run["sass"])):
        table.notes.append(f"Not of the code that ran: {why}.")
    return table


def short_tables(run: Run) -> list[Table]:
    """On the largest problem only."""
    made = []
    for family, title in TITLES.items():
        counters, launches = counted_and_timed(run, family)
        made.append(short_table(on_largest(counters), launches, counters.pass_name, title))
    return made


def full_tables(run: Run) -> list[Table]:
    return [
        full_table(*counted_and_timed(run, family), f"{family}_all_counters", title, run.compared)
        for family, title in FULL_TITLES.items()
    ]


highlights = divergence_reading
TABLES = (short_tables, latency_table, divergence_table, sass_table, full_tables)
ON_TERMINAL = ("nf4_counters", "transpose_counters", "latency", "divergence", "claims")
FIGURES = {
    "instructions": ("Instructions per weight and element, by pipe", instructions_figure),
    "stalls": ("Stall reasons of warps", stalls_figure),
    "roofline": ("Bandwidth over instructions per byte, under both limits", roofline_figure),
    "latency": ("Cycles of one dependent access, ours and the paper's", latency_figure),
    "divergence": ("Time by kernel and by how its codes are ordered", divergence_figure),
}
