"""Experiment streaming: what there is to see of it."""

from collections.abc import Callable, Iterator

from matplotlib.figure import Figure

from plots import figures as draw
from plots import sample_figures as shared
from plots.bandwidth import Rows, compared
from plots.experiments import Run
from plots.streaming.tables import (
    BASES,
    LARGE,
    LARGE_NESTED,
    OURS,
    SCALES,
    aligned,
    alignment_text,
    alignments,
    alignments_table,
    change,
    compared_with,
    formats_table,
    is_large,
    layers,
    nested_table,
    plain_table,
    shape_text,
    shapes_table,
    untimed,
)


def highlights(run: Run) -> list[str]:
    """The least that the large layers reach, the worst alignment, and what has no time."""
    lines = [large_layers(run), nested_layers(run), worst_alignment(run), missing(run)]
    return [line for line in lines if line]


def large(run: Run, name: str) -> dict[str, Rows]:
    """The large layers on which our kernel has a time."""
    found = {shape_text(key): r for key, r in layers(run, name).items() if is_large(key, name)}
    return {text: r for text, r in found.items() if OURS in r and r[OURS].record.ranked}


def least(rows: dict[str, Rows], of: Callable[[Rows], float | None], what: str) -> Iterator[str]:
    """'3.51 times as fast as branch_tree (36864x4608)', of what is there."""
    found = {place: value for place, r in rows.items() if (value := of(r)) is not None}
    if found:
        where = min(found, key=found.__getitem__)
        yield f"{what.format(found[where])} ({where})"


def least_over(rows: dict[str, Rows], kernels: list[str]) -> Iterator[str]:
    def over(kernel: str) -> Callable[[Rows], float | None]:
        def value(r: Rows) -> float | None:
            found = compared(r.get(kernel), r[OURS])
            return found.value if found else None

        return value

    for kernel in kernels:
        yield from least(rows, over(kernel), f"{{:.2f}} times as fast as {kernel}")


def in_percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def large_layers(run: Run) -> str:
    rows = large(run, "layers")
    parts = [
        *least(rows, lambda r: in_percent(r[OURS].of_copy), "{:.1f} % of cudaMemcpy"),
        *least(rows, lambda r: in_percent(r[OURS].of_ceiling), "{:.1f} % of the fastest ceiling"),
        *least_over(rows, compared_with(run, "layers")),
    ]
    limit = f"{LARGE / 1e6:.0f} million weights"
    return f"Layers of {limit} and more, at least: {', '.join(parts)}." if parts else ""


def nested_layers(run: Run) -> str:
    parts = [*least_over(large(run, "layers_nested"), compared_with(run, "layers_nested"))]
    limit = f"{LARGE_NESTED / 1e6:.0f} million weights"
    said = f"Nested scales, layers of {limit} and more, at least: {', '.join(parts)}."
    return said if parts else ""


def worst_alignment(run: Run) -> str:
    apart = {}
    for end, scales in SCALES.items():
        found = alignments(run, f"places{end}")
        for key, m in found.items():
            percent = change(m, found.get(aligned(key[:3])))
            if key != aligned(key[:3]) and percent is not None:
                apart[f"{alignment_text(key)}, {scales}"] = percent
    if not apart:
        return ""
    where = min(apart, key=apart.__getitem__)
    return (
        f"Offsets and odd sizes, GB/s against the aligned matrix: at worst {apart[where]:+.1f} % "
        f"({where}), of {len(apart)}."
    )


def missing(run: Run) -> str:
    """Where there is nothing to say anything from."""
    found = list(untimed(run))
    more = f" ({len(found) - 1} more such rows.)" if len(found) > 1 else ""
    return f"NO TIME of {OURS}: {found[0]}.{more}" if found else ""


def layers_figure(run: Run) -> Figure:
    """GB/s against the size of the layer, under the ceilings."""
    panels = {
        "plain scales": list(run["layers"].records),
        "nested scales": list(run["layers_nested"].records),
    }
    figure = shared.bandwidth_figure(panels, shared.million_weights, (OURS, BASES["layers"][0]))
    for axes in figure.axes:
        draw.logarithmic(axes.xaxis, shared.MILLION_WEIGHTS, "weights (millions)")
    notes = ["Each layer of the paper's models once. Medians; intervals: the tables."]
    draw.add_caption(figure, run["layers"], notes, run.recorded)
    return figure


TABLES = (plain_table, nested_table, formats_table, alignments_table, shapes_table)
ON_TERMINAL = ("layers", "layers_nested", "formats", "places", "shapes")
FIGURES = {"layers": ("Bandwidth of every layer, plain and nested scales", layers_figure)}
