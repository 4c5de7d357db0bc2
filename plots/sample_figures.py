"""Figures of measurements for any family: bandwidth per problem, and the raw samples."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from plots.bandwidth import COPY, bandwidth
from plots.figures import BLACK, BLUE, GREY, SERIES, add_caption, annotate_empty, new_figure
from plots.results import Record, Results
from plots.stats import INTERVAL_NOTE, significant

SAME_BYTES = "same_bytes"  # the ceiling that moves a kernel's bytes and decodes nothing


def size_of(record: Record) -> float:
    """A problem's size in millions of elements where the family says it, else in MB moved."""
    return record.problem.get("n", record.bytes_moved) / 1e6


def bandwidth_figure(
    results: Results, size_label: str, recorded: bool, stressed: tuple[str, ...] = ()
) -> Figure:
    """GB/s of every bit-exact kernel against the size, under the measured ceilings.

    The `stressed` kernels get the first colours and the thick lines.
    """
    series: dict[str, list[tuple[float, float]]] = {}
    for r in results.records:
        gb_s = bandwidth(r)
        is_drawn = r.ranked or (r.role == "ceiling" and r.kernel in (COPY, SAME_BYTES))
        if gb_s is not None and is_drawn:
            series.setdefault(r.kernel, []).append((size_of(r), gb_s))
    # The legend lists the kernels as the eye meets them at the right edge, from the top.
    names = sorted(series, key=lambda name: max(series[name]), reverse=True)
    names.sort(key=lambda name: (name != COPY, name != SAME_BYTES, -max(series[name])[1]))
    figure = new_figure(8.4, 4.2)
    axes = figure.subplots()
    others = [name for name in names if name not in (COPY, SAME_BYTES, *stressed)]
    places = {name: k for k, name in enumerate([*stressed, *others])}
    for name in names:
        xs, ys = zip(*sorted(series[name]), strict=True)
        if name == COPY:
            axes.plot(xs, ys, color=BLACK, linewidth=2.2, label="copy (cudaMemcpy)", gid=name)
        elif name == SAME_BYTES:
            label = "same bytes, no decoding"
            axes.plot(xs, ys, color=GREY, linewidth=1.6, linestyle=(0, (4, 2)), label=label)
        else:
            # Past the seventh kernel colours come again, with hollow markers.
            colour, marker, line = SERIES[places[name] % len(SERIES)]
            axes.plot(
                xs,
                ys,
                color=colour,
                marker=marker,
                linestyle=line,
                linewidth=2 if name in stressed else 1.2,
                markerfacecolor="white" if places[name] >= len(SERIES) else colour,
                zorder=4 if name in stressed else 3,
                label=name,
            )
    if not series:
        annotate_empty(axes, "no timed row")
    else:
        figure.legend(loc="outside right center")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(size_label)
    axes.set_ylabel("bandwidth, read and written (GB/s, 1 GB = 1e9 bytes)")
    add_caption(figure, results, recorded=recorded)
    return figure


def samples_figure(panels: list[tuple[Results, str, str]], recorded: bool) -> Figure:
    """Every raw sample. A panel is (results, problem name, title); at least one is needed."""
    rows = [timed_rows(results, problem) for results, problem, _ in panels]
    # One order for all panels, the first one's, so that the names stand once.
    names = list(dict.fromkeys(record.kernel for records in rows for record in records))
    figure = new_figure(1.6 + 2.9 * len(panels), 1.0 + 0.27 * max(4, len(names)))
    all_axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, records, (_, _, title) in zip(all_axes, rows, panels, strict=True):
        strips(axes, records, names)
        axes.set_title(title)
    all_axes[0].set_yticks(range(len(names)), names)
    all_axes[0].set_ylim(max(len(names), 1) - 0.4, -0.6)
    notes = [
        "Each dot is one sample; within a row they run downwards in the order taken. "
        "Bar: median; box: interval. Right of each row: its median. " + INTERVAL_NOTE
    ]
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
