"""The figures of the report's first screen: ranges of values on one axis, one below the other."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from reprolab.claims.ledger import Decision, Verdict
from plots import figures as draw
from plots.sentences import counted_in
from reprolab.tables import rounded

TIMES = "x"  # the unit of ratios, which are compared with 1
AXES = {TIMES: "times as fast", "%": "percent"}
ROW_INCHES = 0.3


def deciding(d: Decision) -> list[Verdict]:
    """The cells of the primary reading, which decides."""
    return counted_in(d.primary)


def claim_figure(by_gpu: Mapping[str, Decision]) -> Figure | None:
    """The source's values, and ours on each GPU, in the first reading with both; None without one.

    A statement has no number in its primary reading, but may have one in another.
    """
    for place, name in enumerate(next(iter(by_gpu.values())).readings):
        verdicts_by_gpu = {gpu: counted_in(d.readings[name]) for gpu, d in by_gpu.items()}
        cells = [v for verdicts in verdicts_by_gpu.values() for v in verdicts]
        unit = next((v.comparison.unit for v in cells if v.comparison.unit), "")
        ours = {gpu: values_of(verdicts, unit, "ours") for gpu, verdicts in verdicts_by_gpu.items()}
        if (claimed := values_of(cells, unit, "theirs")) and any(ours.values()):
            rows = {"claimed": claimed}
            rows |= {f"ours ({gpu.removeprefix('NVIDIA ')})": ours[gpu] for gpu in verdicts_by_gpu}
            return ranges_figure(rows, unit, name if place else "", marked=1)
    return None


def values_of(cells: Sequence[Verdict], unit: str, whose: str) -> list[float]:
    of_unit = [v for v in cells if v.comparison.unit == unit]
    numbers = [v.ours if whose == "ours" else v.cell.value for v in of_unit]
    return [value for value in numbers if value is not None]


def ranges_figure(
    rows: Mapping[str, Sequence[float]], unit: str, read_as: str = "", marked: int = 0
) -> Figure:
    """`read_as`: a reading that does not decide. `marked`: how many of the first rows are published
    values.
    """
    figure = draw.new_figure(0.55 + ROW_INCHES * len(rows), draw.WIDTHS[1])
    axes = figure.subplots()
    for row, values in enumerate(rows.values()):
        if not values:
            draw.write_right(axes, row, "no value")
            continue
        low, high = min(values), max(values)
        colour = draw.BLACK if row < marked else draw.BLUE
        look = {"color": colour, "solid_capstyle": "butt"}
        axes.plot([low, high], [row, row], linewidth=5, alpha=0.35, **look)
        axes.plot(values, [row] * len(values), "|", markersize=9, color=colour)
        draw.write_right(axes, row, "-".join(dict.fromkeys(map(rounded, (low, high)))))
    if unit == TIMES:
        axes.axvline(1, color=draw.GREY, linewidth=1, linestyle="--")
    draw.kernel_rows(axes, list(rows))
    axes.set_xlim(left=0)
    axes.set_xlabel(AXES.get(unit, unit) + f"\n(read as {read_as})" * bool(read_as))
    return figure
