"""A forest plot: every claim with a number, ours over the source's value, a marker for each GPU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reprolab.claims import rules
from reprolab.claims.ledger import Decision, Verdict
from plots import figures as draw

COLOURS = {
    rules.REPRODUCED: draw.GREEN,
    rules.NOT_REPRODUCED: draw.ORANGE,
    rules.PREMISE_FALSE: draw.WINE,
    rules.UNDECIDED: draw.AMBER,
}
LOW, HIGH = 0.1, 4.0  # ends of the axis; values beyond are drawn there, with an arrow
TICKS = (0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 4)
ROW_INCHES = 0.19
BAND = "#e6f2ec"  # colour of the tolerance


@dataclass(frozen=True)
class Point:
    """One cell of a claim on one GPU: ours over the source's value."""

    value: float
    low: float
    high: float
    verdict: str


def points(d: Decision) -> list[Point]:
    """The primary reading's cells with two numbers that this GPU can show; none where no such cell
    has the claim's verdict: a cell alone does not decide a claim that is not tested.
    """
    ratios = []
    for v in d.primary:
        if is_number(v):
            ends = [end / v.cell.value for end in v.interval or (v.ours, v.ours)]
            ratios.append(Point(v.ours / v.cell.value, *ends, v.verdict))
    return ratios if any(p.verdict == d.verdict for p in ratios) else []


def is_number(v: Verdict) -> bool:
    """Whether this GPU can show a number with a unit next to the source's."""
    numbers = v.ours and v.cell.value and v.comparison.unit
    shown = not v.elsewhere and v.verdict != rules.NOT_TESTABLE
    return bool(numbers) and shown and v.comparison.direction != "statement"


def deciding(ratios: Sequence[Point], verdict: str) -> Point:
    """The cell farthest from the source among those with the claim's verdict."""
    decisive = [p for p in ratios if p.verdict == verdict]
    return max(decisive, key=lambda p: abs(math.log(p.value)))


def band(v: Verdict) -> tuple[float, float]:
    """The range that the tolerance allows, over the source's value."""
    off = (v.comparison.tolerance_percent or 0) / 100
    direction = v.comparison.direction
    low = 0.0 if direction == rules.AT_MOST else 1 - off
    high = math.inf if direction in (rules.GAIN, rules.AT_LEAST) else 1 + off
    if direction == rules.GAIN:  # and more than 1 in any case
        low = max(low, 1 / v.cell.value)
    return low, high


def png(gpus: Sequence[str], ledgers: Sequence[Sequence[Decision]]) -> bytes:
    with draw.figure_style():
        return draw.encode(figure(gpus, ledgers), "png")


def figure(gpus: Sequence[str], ledgers: Sequence[Sequence[Decision]]) -> Figure:
    """The claims by source, in its order."""
    rows = [ds for ds in zip(*ledgers, strict=True) if any(map(points, ds))]
    labels: list[tuple[str, str]] = []  # a claim's name, or a source's heading
    for source, group in groupby(rows, lambda ds: ds[0].source):
        labels += [("", f"{source.author}, {source.reference}")]
        labels += [(ds[0].claim.id, "") for ds in group]
    drawn = draw.new_figure(0.9 + ROW_INCHES * max(1, len(labels)))
    axes = drawn.subplots()
    by_name = {ds[0].claim.id: ds for ds in rows}
    for y, (name, _) in enumerate(labels):
        if name:
            draw_claim(axes, y, by_name[name])
    dress(axes, labels)
    shown = {p.verdict for ds in rows for d in ds for p in points(d)}
    legend(drawn, axes, gpus, [v for v in COLOURS if v in shown])
    return drawn


def draw_claim(axes: Axes, y: float, decisions: Sequence[Decision]) -> None:
    """One row: the tolerance, the range of all cells, and the deciding cell with its interval."""
    first = next(v for d in decisions for v in d.primary if is_number(v))
    low, high = (min(max(end, LOW), HIGH) for end in band(first))
    axes.fill_betweenx([y - 0.42, y + 0.42], low, high, color=BAND, linewidth=0, zorder=0)
    every = [(i, d, points(d)) for i, d in enumerate(decisions)]
    shown = [(i, d, ratios) for i, d, ratios in every if ratios]
    for k, (i, d, ratios) in enumerate(shown):
        at = y + 0.22 * (k - (len(shown) - 1) / 2) * 2
        one = deciding(ratios, d.verdict)
        colour = COLOURS[one.verdict]
        ends = [min(p.value for p in ratios), max(p.value for p in ratios)]
        axes.plot(clipped(ends), [at, at], color=draw.GREY, linewidth=0.8, zorder=1)
        axes.plot(clipped([one.low, one.high]), [at, at], color=colour, linewidth=2.2, zorder=2)
        inside = LOW <= one.value <= HIGH
        marker = draw.MARKERS[i % len(draw.MARKERS)] if inside else (">" if one.value > 1 else "<")
        axes.plot(clipped([one.value]), [at], marker, color=colour, markersize=4.5, zorder=3)
        if not inside:
            side = {"ha": "right", "xytext": (-6, 0)}
            side = side if one.value > 1 else {"ha": "left", "xytext": (6, 0)}
            style = {"textcoords": "offset points", "va": "center", "fontsize": 6}
            axes.annotate(f"{one.value:.2g}", (*clipped([one.value]), at), **style, **side)


def clipped(values: Sequence[float]) -> list[float]:
    return [min(max(value, LOW), HIGH) for value in values]


def dress(axes: Axes, labels: Sequence[tuple[str, str]]) -> None:
    axes.axvline(1, color=draw.BLACK, linewidth=0.8, zorder=1)
    axes.set_xscale("log")
    axes.set_xlim(LOW * 0.95, HIGH * 1.05)
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.set_xlabel("ours over the source's value")
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_yticks(range(len(labels)), [name for name, _ in labels], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    for y, (_, heading) in enumerate(labels):
        if heading:
            style = {"fontsize": 7, "weight": "bold", "va": "center", "zorder": 4}
            axes.text(LOW, y, heading, **style)


def legend(drawn: Figure, axes: Axes, gpus: Sequence[str], verdicts: Sequence[str]) -> None:
    """Colours are verdicts, markers GPUs."""
    kind = {"linestyle": "none", "markersize": 5}
    handles = [
        Line2D([], [], marker="s", color=COLOURS[v], label=v.replace("_", " "), **kind)
        for v in verdicts
    ]
    handles += [
        Line2D([], [], marker=draw.MARKERS[i], color=draw.BLACK, label=gpu, **kind)
        for i, gpu in enumerate(gpus)
    ]
    handles.append(Patch(color=BAND, label="allowed"))
    drawn.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=7)
