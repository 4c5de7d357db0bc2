"""The transpose's figures: the post's matrix beside the post's values, and every size."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from plots.bandwidth import COPY, bandwidth, bandwidth_interval, measure
from plots.captions import clock_warning, first_warning
from plots.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    add_caption,
    annotate_empty,
    legend_above,
    new_figure,
)
from plots.published import TransposePost
from plots.results import Record, Results
from plots.sample_figures import (
    BANDWIDTH_LABEL,
    SAME_BYTES,
    Curves,
    bandwidth_curves,
    draw_curves,
    looks,
)
from plots.stats import INTERVAL_NOTE
from plots.transpose_matrix import peak_gb_s, random_matrix
from plots.transpose_sizes import ALIGNMENTS, alignment, left_out_note, sizes_of

STRESSED = ("column_walk", "tma_batched")  # the fastest, and the post's
MARKED_SIZES = tuple(4**k for k in range(4, 9))


def kernels_figure(results: Results, post: TransposePost, recorded: bool) -> Figure:
    """A bar a kernel, the post's values on the same rows, and the copy and the peak as lines."""
    problem = random_matrix(results)
    published = post.cuda_gb_s | post.mojo_gb_s
    rows = [
        m.record
        for m in measure(results, problem["name"], None)
        if m.record.role != "ceiling" and (m.gb_s is not None or m.record.kernel in published)
    ]
    figure = new_figure(8.4, 1.5 + 0.36 * max(3, len(rows)))
    axes = figure.subplots()
    for row, record in enumerate(rows):
        draw_bar(axes, row, record, results.provenance["gpu"]["name"])
    draw_published(axes, [r.kernel for r in rows], post)
    draw_limits(axes, results, problem["name"])
    if not rows:
        annotate_empty(axes, "no timed row")
    axes.set_yticks(range(len(rows)), [label(r) for r in rows])
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(BANDWIDTH_LABEL)
    legend_above(figure, [axes], columns=3, last="post")
    copy = results.find(problem["name"], COPY)
    warnings = [w for r in rows if copy and r.timed for w in clock_warning(r, copy)]
    matrix = f"{problem['rows']} x {problem['columns']} fp32"
    notes = [
        f"Matrix: {matrix}; the post's: {post.rows} x {post.columns} fp32. Bars: medians; "
        f"whiskers: intervals; right of each row: its median. {INTERVAL_NOTE}",
        *first_warning(warnings),
    ]
    add_caption(figure, results, notes, recorded)
    return figure


def label(record: Record) -> str:
    if record.ranked:
        return record.kernel
    remark = "wrong on random data, unranked" if record.timed else "no time: see the table"
    return f"{record.kernel}\n({remark})"


def draw_bar(axes: Axes, row: int, record: Record, gpu: str) -> None:
    gb_s = bandwidth(record)
    if gb_s is None:
        return
    low, high = bandwidth_interval(record)
    look = {"color": BLUE} if record.ranked else {"color": "white", "hatch": "////"}
    axes.barh(
        row,
        gb_s,
        0.62,
        edgecolor=BLUE,
        linewidth=1,
        label=f"measured ({gpu})" if record.ranked else "measured, wrong on random data",
        gid="measured" if record.ranked else "deviation",
        **look,
    )
    axes.errorbar(
        gb_s,
        row,
        xerr=[[gb_s - low], [high - gb_s]],
        fmt="none",
        ecolor=BLACK,
        elinewidth=1,
        capsize=4,
        capthick=0.8,
    )
    axes.annotate(
        f"{gb_s:.0f} GB/s",
        (1.02, row),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=8,
        color="#333333",
    )


def draw_published(axes: Axes, kernels: list[str], post: TransposePost) -> None:
    languages = (
        ("CUDA", post.cuda_gb_s, ORANGE, "D", -0.17),
        ("Mojo", post.mojo_gb_s, GREEN, "^", 0.17),
    )
    for language, values, colour, marker, shift in languages:
        found = [(values[k], row + shift) for row, k in enumerate(kernels) if k in values]
        if found:
            xs, ys = zip(*found, strict=True)
            axes.plot(
                xs,
                ys,
                linestyle="none",
                marker=marker,
                markersize=8,
                markerfacecolor=colour,
                markeredgecolor="white",
                label=f"post, {language} ({post.gpu})",
                gid=language,
                zorder=5,
            )


def draw_limits(axes: Axes, results: Results, problem: str) -> None:
    copy, peak = bandwidth(results.find(problem, COPY)), peak_gb_s(results)
    if copy is not None:
        text = f"copy (cudaMemcpy): {copy:.0f}"
        axes.axvline(copy, color=BLACK, linewidth=1.6, label=text, gid=COPY)
    if peak is not None:
        text = f"theoretical peak: {peak:.0f}"
        axes.axvline(peak, color=GREY, linewidth=1.6, linestyle="--", label=text, gid="peak")


def rows_of(record: Record) -> int:
    return record.problem["rows"]


def curves(records: Iterable[Record]) -> Curves:
    """Without the ceiling `same_bytes`: a transpose moves what a copy moves."""
    return bandwidth_curves((r for r in records if r.kernel != SAME_BYTES), rows_of)


def sizes_figure(results: Results, recorded: bool) -> Figure:
    """A panel for each alignment that was measured: GB/s of every bit-exact kernel by size."""
    series = {}
    for divisor, name in ALIGNMENTS.items():
        records = [r for r in results.records if alignment(rows_of(r)) == divisor]
        if records:
            series[name] = curves(records)
    together = curves(results.records)
    figure = new_figure(3.2 + 2.6 * len(series), 4.1)
    panels = figure.subplots(1, len(series), squeeze=False, sharex=True, sharey=True)[0]
    draw_curves(list(zip(panels, series.values(), strict=True)), looks(together, STRESSED))
    drawn = [size for curve in together.values() for size, _ in curve] or sizes_of(results)
    for axes, name in zip(panels, series, strict=True):
        axes.set_title(name)
        axes.set_xscale("log", base=2)
        axes.set_xlim(min(drawn) / 1.3, max(drawn) * 1.3)
        axes.xaxis.set_major_locator(FixedLocator(MARKED_SIZES))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0f}")
        axes.set_xlabel("rows of the square matrix")
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel(BANDWIDTH_LABEL)
    add_caption(figure, results, left_out_note(results), recorded)
    return figure
