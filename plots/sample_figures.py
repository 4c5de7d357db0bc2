"""Figures of measurements for any family: bandwidth per problem, and the raw samples."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import figures as draw
from reprolab.results import COPY, KERNEL_TIME, Record, Results
from reprolab.stats import INTERVAL_NOTE, significant

SAME_BYTES = "same_bytes"  # the ceiling that moves a kernel's bytes and does nothing else
MILLION_WEIGHTS = (4, 8, 16, 32, 64, 128, 256)  # ticks of axes
BANDWIDTH_LABEL = "bandwidth, read and written (GB/s, 1 GB = 1e9 bytes)"

# Samples that are further from their median than this multiple of the widest interval, and than
# this percentage, are drawn at the edge, because they would leave the others no room.
FAR = 10
MIN_EDGE = 2

Curves = dict[str, list[tuple[float, float]]]  # by kernel


def million_weights(record: Record) -> float:
    return record.problem["n"] / 1e6


def bandwidth_figure(
    panels: dict[str, list[Record]],
    stressed: tuple[str, ...],
    size: Callable[[Record], float] = million_weights,
    marked: Sequence[float] = MILLION_WEIGHTS,
    label: str = "weights (millions)",
    text: Callable[[float], str] = "{:g}".format,
) -> Figure:
    """GB/s of a few bit-exact kernels against the size, with the measured copy, by title."""
    every = bandwidth_curves([r for records in panels.values() for r in records], size)
    shown = drawn_kernels(every)
    every = {name: points for name, points in every.items() if name in shown}
    series = [
        {name: points for name, points in bandwidth_curves(records, size).items() if name in shown}
        for records in panels.values()
    ]
    figure, all_axes = draw.panels(4.2, len(panels), sharex=True, sharey=True)
    draw_curves(list(zip(all_axes, series, strict=True)), looks(every, stressed))
    for axes, title in zip(all_axes, panels, strict=True):
        axes.set_title(title)
        draw.logarithmic(axes.xaxis, marked, label, text)
    all_axes[0].set_ylim(bottom=0)
    all_axes[0].set_ylabel(BANDWIDTH_LABEL)
    return figure


def drawn_kernels(kernels: Iterable[str]) -> list[str]:
    """The copy and as many kernels as a panel shows, and the other ceiling if there is room."""
    names = list(kernels)
    ceilings = [name for name in (COPY, SAME_BYTES) if name in names]
    others = [name for name in names if name not in ceilings]
    room = max(1, draw.MOST_SERIES - len(others))
    kept = ceilings[:room]
    return kept + draw.chosen(others, draw.MOST_SERIES - len(kept))


def bandwidth_curves(records: Iterable[Record], size: Callable[[Record], float]) -> Curves:
    """(size, GB/s) of each bit-exact kernel, and of the ceilings that move as many bytes."""
    series: Curves = {}
    for r in records:
        is_drawn = r.ranked or (r.is_ceiling and r.kernel in (COPY, SAME_BYTES))
        if r.bandwidth is not None and is_drawn:
            series.setdefault(r.kernel, []).append((size(r), r.bandwidth.value))
    return series


def looks(series: Curves, stressed: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Each curve's look, from top to bottom at the right edge; `stressed` ones are thick."""
    last = {name: max(points) for name, points in series.items()}  # at the largest size
    names = sorted(series, key=lambda n: (n != COPY, n != SAME_BYTES, -last[n][1], -last[n][0]))
    widths = {name: {"linewidth": 1.2, "zorder": 3, "label": name} for name in names}
    for name in stressed:
        widths[name] = {"linewidth": 2, "zorder": 4, "label": name}
    widths[COPY] = {"linewidth": 2.2, "label": "copy (cudaMemcpy)"}
    widths[SAME_BYTES] = {"linewidth": 1.6, "linestyle": (0, (4, 2))}
    widths[SAME_BYTES] |= {"label": "same bytes, nothing else"}
    return {name: draw.look(name) | widths[name] for name in names}


def draw_curves(panels: list[tuple[Axes, Curves]], styles: dict[str, dict[str, Any]]) -> None:
    """Every panel's curves, and one legend: at the right, or above many panels."""
    handles = {}
    for axes, series in panels:
        for name, style in styles.items():
            if name in series:
                xs, ys = zip(*sorted(series[name]), strict=True)
                (handles[name],) = axes.plot(xs, ys, gid=name, **style)
        if not series:
            draw.annotate_empty(axes, "no timed row")
    if handles:
        ordered = [handles[name] for name in styles if name in handles]
        figure = panels[0][0].figure
        if len(panels) > 2 or draw.is_narrow(figure):
            draw.legend(figure, ordered, [handle.get_label() for handle in ordered], 4)
        else:
            figure.legend(handles=ordered, loc="outside right center")


def samples_figure(panels: list[tuple[Results, str, str]], recorded: bool) -> Figure:
    """All samples. A panel is (results, problem name, title); at least one is needed."""
    timed = [[r for r in p[0].rows_on(p[1]) if r.timed] for p in panels]
    every = list(dict.fromkeys(r.kernel for records in timed for r in records))
    shown = drawn_kernels([name for name in every if name in timed_kernels(timed)])
    timed = [[r for r in records if r.kernel in shown] for records in timed]
    rows = [sorted(records, key=lambda r: r.times.median) for records in timed]
    # All panels have the first one's order, so that the names are written once.
    names = list(dict.fromkeys(r.kernel for records in rows for r in records))
    figure, all_axes = draw.panels(1.0 + 0.27 * max(4, len(names)), len(panels), sharey=True)
    for axes, records, (_, _, title) in zip(all_axes, rows, panels, strict=True):
        strips(axes, records, names)
        axes.set_title(title, fontsize=7.5)
    deviating = {r.kernel for records in rows for r in records if r.deviates}
    for axes in all_axes:
        draw.kernel_rows(axes, [name + draw.DEVIATES * (name in deviating) for name in names])
    notes = [
        "Each dot is one sample; within a row they are in the order taken, downwards. "
        "Bar: median; box: interval. Right of each row: its median. " + INTERVAL_NOTE
    ]
    if any(line.get_gid() == "far" for axes in all_axes for line in axes.lines):
        notes.append("Triangle: a sample further away, with its distance.")
    notes += [draw.DEVIATES_NOTE] * bool(deviating)
    notes += draw.left_out_note(every, names)
    draw.add_caption(figure, panels[0][0], notes, recorded)
    return figure


def timed_kernels(timed: list[list[Record]]) -> set[str]:
    """Names of kernels and of the copy, without the other ceilings."""
    return {r.kernel for records in timed for r in records if not r.is_ceiling or r.kernel == COPY}


def strips(axes: Axes, records: list[Record], names: list[str]) -> None:
    """One row per kernel: the distances of its samples from their median, in percent."""
    axes.use_sticky_edges = False  # a box may end at the outermost sample, which needs its margin
    distances = {}
    for r in records:
        values = (r.times.low, r.times.high, *r.metrics[KERNEL_TIME].samples)
        distances[r.kernel] = [100 * (us / r.times.median - 1) for us in values]
    ends = [abs(end) for percents in distances.values() for end in percents[:2]]
    edge = max([MIN_EDGE, *(FAR * end for end in ends)])
    for r in records:
        left, right, *distance = distances[r.kernel]
        row, us = names.index(r.kernel), r.times.median
        step = 0.56 / max(1, len(distance) - 1)
        ys = [row - 0.28 * (len(distance) > 1) + step * i for i in range(len(distance))]
        look = {"color": draw.colour(r.kernel), "markersize": 4.5, "markeredgewidth": 0}
        axes.barh(row, right - left, 0.74, left, color=look["color"], alpha=0.22, linewidth=0)
        axes.plot([0, 0], [row - 0.37, row + 0.37], color=draw.BLACK, linewidth=1.2)
        points = list(zip(distance, ys, strict=True))
        near = [(x, y) for x, y in points if abs(x) <= edge]
        axes.plot(*zip(*near, strict=True), ".", zorder=3, **look)
        for x, y in [point for point in points if point not in near]:
            # A sample that is too far away: a triangle that points outwards, the distance on its
            # inner side.
            mark, inner, side = (">", -5, "right") if x > 0 else ("<", 5, "left")
            at = (math.copysign(edge, x), y)
            axes.plot(*at, mark, gid="far", zorder=3, **look)
            place = {"xytext": (inner, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(f"{x:+.0f} %", at, ha=side, size=7, **place)
        text = f"{significant(us / 1e3)} ms" if us >= 1e4 else f"{significant(us)} µs"
        draw.write_right(axes, row, text)
    if not records:
        draw.annotate_empty(axes, "no timed row")
    axes.set_xlabel("distance from the row's median (%)")
