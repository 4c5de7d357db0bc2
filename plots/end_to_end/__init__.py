"""Experiment end_to_end: what there is to see of it."""

from claims.end_to_end import GRAPH, WALL_TIME
from plots.end_to_end import figures, tables
from plots.end_to_end.rows import OURS, STEP, settings
from plots.end_to_end.steps import newest, steps
from plots.experiments import Run


def highlights(run: Run) -> list[str]:
    """For each model, what our fastest kernel and bitsandbytes' own way make of a step."""
    baseline, _ = run.compared
    lines = []
    for setting in settings(run, GRAPH):
        gain = setting.gain(baseline, OURS, WALL_TIME + STEP)
        own = setting.gain(baseline, setting.installed, WALL_TIME + STEP)
        if gain and setting.batch == min(
            p.batch for p in settings(run) if p.model == setting.model
        ):
            beside = f"; {setting.installed}, its own way: {own.value:.2f}x" if own else ""
            where = f"{setting.model} at batch {setting.batch}, in a graph"
            lines.append(f"A step of {where}: {OURS} {gain.value:.2f}x {baseline}{beside}.")
    return lines


TABLES = (
    tables.table1,
    tables.figure4,
    steps,
    newest,
    tables.amdahl_table,
    tables.qmatmul,
)
ON_TERMINAL = ("table1", "figure4", "newest")
FIGURES = {
    "figure4": ("Latency and throughput, ours and the paper's points", figures.figure4),
    "share": ("Dequantization's share of a generation", figures.share_figure),
    "graph": ("A decoding step, eager and in one CUDA graph", figures.graph_figure),
    "newest": ("Against bitsandbytes as it is installed", figures.newest_figure),
    "amdahl": ("Speed-ups predicted by Amdahl's law, and measured", figures.amdahl_figure),
}
