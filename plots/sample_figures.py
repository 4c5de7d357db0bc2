"""Figures of measurements for any family: bandwidth per problem, and the raw samples."""

from collections.abc import Callable, Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from plots.bandwidth import COPY, bandwidth
from plots.figures import BLACK, BLUE, GREY, SERIES, add_caption, annotate_empty, new_figure
from plots.results import Record, Results
from plots.stats import INTERVAL_NOTE, significant

SAME_BYTES = "same_bytes"  # the ceiling that moves a kernel's bytes and does nothing else
BANDWIDTH_LABEL = "bandwidth, read and written (GB/s, 1 GB = 1e9 bytes)"

Curves = dict[str, list[tuple[float, float]]]  # by kernel


def size_of(record: Record) -> float:
    """A problem's size in millions of elements where the family says it, else in MB moved."""
    return record.problem.get("n", record.bytes_moved) / 1e6


def bandwidth_figure(
    results: Results, size_label: str, recorded: bool, stressed: tuple[str, ...] = ()
) -> Figure:
    """GB/s of every bit-exact kernel against the size, under the measured ceilings."""
    series = bandwidth_curves(results.records, size_of)
    figure = new_figure(8.4, 4.2)
    axes = figure.subplots()
    draw_curves([(axes, series)], looks(series, stressed))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(size_label)
    axes.set_ylabel(BANDWIDTH_LABEL)
    add_caption(figure, results, recorded=recorded)
    return figure


def bandwidth_curves(records: Iterable[Record], size: Callable[[Record], float]) -> Curves:
    """(size, GB/s) of each bit-exact kernel, and of the ceilings that move as many bytes."""
    series: Curves = {}
    for r in records:
        gb_s = bandwidth(r)
        is_drawn = r.ranked or (r.role == "ceiling" and r.kernel in (COPY, SAME_BYTES))
        if gb_s is not None and is_drawn:
            series.setdefault(r.kernel, []).append((size(r), gb_s))
    return series


def looks(series: Curves, stressed: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Each curve's look, in the legend's order: as the eye meets them at the right edge.

    The `stressed` kernels get the first colours and the thick lines.
    """
    names = sorted(series, key=lambda name: max(series[name]), reverse=True)
    names.sort(key=lambda name: (name != COPY, name != SAME_BYTES, -max(series[name])[1]))
    others = [name for name in names if name not in (COPY, SAME_BYTES, *stressed)]
    places = {name: k for k, name in enumerate([*stressed, *others])}
    found: dict[str, dict[str, Any]] = {
        COPY: {"color": BLACK, "linewidth": 2.2, "label": "copy (cudaMemcpy)"},
        SAME_BYTES: {
            "color": GREY,
            "linewidth": 1.6,
            "linestyle": (0, (4, 2)),
            "label": "same bytes, nothing else",
        },
    }
    for name, place in places.items():
        # Past the seventh kernel colours come again, with hollow markers.
        colour, marker, line = SERIES[place % len(SERIES)]
        found[name] = {
            "color": colour,
            "marker": marker,
            "linestyle": line,
            "linewidth": 2 if name in stressed else 1.2,
            "markerfacecolor": "white" if place >= len(SERIES) else colour,
            "zorder": 4 if name in stressed else 3,
            "label": name,
        }
    return {name: found[name] for name in names}


def draw_curves(panels: list[tuple[Axes, Curves]], styles: dict[str, dict[str, Any]]) -> None:
    """Every panel's curves, and one legend for all of them at the right."""
    handles = {}
    for axes, series in panels:
        for name, style in styles.items():
            if name in series:
                xs, ys = zip(*sorted(series[name]), strict=True)
                (handles[name],) = axes.plot(xs, ys, gid=name, **style)
        if not series:
            annotate_empty(axes, "no timed row")
    if handles:
        ordered = [handles[name] for name in styles if name in handles]
        panels[0][0].figure.legend(handles=ordered, loc="outside right center")


def samples_figure(panels: list[tuple[Results, str, str]], recorded: bool) -> Figure:
    """Every raw sample. A panel is (results, problem name, title); at least one is needed."""
    rows = [timed_rows(results, problem) for results, problem, _ in panels]
    # One order for all panels, the first one's, so that the names stand once.
    names = list(dict.fromkeys(record.kernel for records in rows for record in records))
    figure = new_figure(max(6.5, 1.6 + 2.9 * len(panels)), 1.0 + 0.27 * max(4, len(names)))
    all_axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, records, (_, _, title) in zip(all_axes, rows, panels, strict=True):
        strips(axes, records, names)
        axes.set_title(title)
    deviating = {record.kernel for records in rows for record in records if record.deviation}
    labels = [name + " *" * (name in deviating) for name in names]
    all_axes[0].set_yticks(range(len(names)), labels)
    all_axes[0].set_ylim(max(len(names), 1) - 0.4, -0.6)
    notes = [
        "Each dot is one sample; within a row they run downwards in the order taken. "
        "Bar: median; box: interval. Right of each row: its median. " + INTERVAL_NOTE
    ]
    notes += ["*: its output deviates as declared; left out of rankings."] * bool(deviating)
    results = panels[0][0]
    add_caption(figure, results, notes, recorded)
    return figure


def timed_rows(results: Results, problem: str) -> list[Record]:
    records = [r for r in results.records if r.problem["name"] == problem and r.timed]
    return sorted(records, key=lambda r: r.times.median)


def strips(axes: Axes, records: list[Record], names: list[str]) -> None:
    """One row a kernel: its samples' distance from their own median, in percent."""
    axes.use_sticky_edges = False  # a box may end at the outermost sample, which needs its margin
    for r in records:
        row, s = names.index(r.kernel), r.times
        distance = [100 * (v / s.median - 1) for v in r.samples_us]
        step = 0.56 / max(1, s.n - 1)
        ys = [row - 0.28 * (s.n > 1) + step * i for i in range(s.n)]
        colour = GREY if r.role == "ceiling" else BLUE
        left, right = 100 * (s.low / s.median - 1), 100 * (s.high / s.median - 1)
        axes.barh(row, right - left, 0.74, left, color=colour, alpha=0.22, linewidth=0)
        axes.plot([0, 0], [row - 0.37, row + 0.37], color=BLACK, linewidth=1.2)
        axes.plot(distance, ys, ".", color=colour, markersize=4.5, markeredgewidth=0, zorder=3)
        axes.annotate(
            median_text(s.median),
            (1.02, row),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            color="#333333",
        )
    if not records:
        annotate_empty(axes, "no timed row")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("distance from the row's median (%)")


def median_text(median_us: float) -> str:
    """'138.7 us' or, from 10 ms on, '72.71 ms'."""
    if median_us >= 1e4:
        return f"{significant(median_us / 1e3)} ms"
    return f"{significant(median_us)} us"
