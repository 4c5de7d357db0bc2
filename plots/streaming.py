"""Experiment streaming: what there is to see of it."""

from plots import streaming_findings as findings
from plots.experiments import Run
from plots.streaming_figures import layers_figure
from plots.streaming_formats import formats_table, places_table
from plots.streaming_layers import nested_table, plain_table
from plots.streaming_rows import SCALES
from plots.streaming_shapes import shapes_table


def highlights(run: Run) -> list[str]:
    """The least and the most of what the tables show; where there is no time, and why."""
    lines = [findings.large_layers(run), findings.smaller_layers(run)]
    lines += [findings.large_nested_layers(run)]
    lines += [findings.small_matrix(run), findings.block_sizes(run), findings.types(run)]
    lines += [findings.wherever(run), findings.choices(run), findings.missing(run)]
    return [line for line in lines if line]


PASSES = {f"layers{end}": ("nf4",) for end in SCALES}
PASSES |= {"formats": ("nf4",)}
PASSES |= {f"{what}{end}": ("nf4",) for what in ("places", "shapes") for end in SCALES}
TABLES = (plain_table, nested_table, formats_table, places_table, shapes_table)
ON_TERMINAL = ("layers", "layers_nested", "formats", "places", "shapes")
SHORT_TABLE = HEADLINE = None
FIGURES = {"layers": ("Bandwidth of every layer, plain and nested scales", layers_figure)}
