"""Experiment counters: what there is to see of it."""

from plots.counters_divergence import divergence_figure, divergence_reading, divergence_table
from plots.counters_latency import latency_figure, latency_table, ratios_table
from plots.experiments import Run


def highlights(run: Run) -> list[str]:
    return divergence_reading(run)


PASSES = {"latency": "latency", "divergence": "nf4"}
TABLES = (latency_table, divergence_table)
ON_TERMINAL = ("latency", "divergence", "claims")
SHORT_TABLE = ratios_table
FIGURES = {
    "latency": ("Cycles of one dependent access, ours and the paper's", latency_figure),
    "divergence": ("Time by kernel and by how its codes are ordered", divergence_figure),
}
