"""The transpose's figures: the post's matrix beside the post's values, and every size."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import figures as draw
from plots import sample_figures as shared
from plots.bandwidth import measure
from plots.captions import clock_warning
from plots.experiments import Run
from plots.transpose.matrix import (
    posts_matrix,
    published_gb_s,
    random_matrix,
    size_text,
)
from plots.transpose.sizes import ALIGNMENTS, alignment, left_out_note
from records.results import COPY, Record, Results
from records.stats import INTERVAL_NOTE

STRESSED = ("column_walk", "tma_batched")  # the fastest, and the post's
MARKED_SIZES = (256, 2048, 16384)
SHIFTS = (-0.17, 0.17)  # off the row, of the post's values in CUDA and in Mojo


def kernels_figure(run: Run) -> Figure:
    """One bar per kernel, the post's values on the same rows, the copy and the peak as lines."""
    results = run["matrix"]
    problem = random_matrix(results)
    published = {k for values in published_gb_s(run).values() for k in values}
    rows = [
        m.record
        for m in measure(results, problem["name"])
        if not m.record.is_ceiling and (m.gb_s is not None or m.record.kernel in published)
    ]
    rows = beside_counterparts(rows, results)
    figure, (axes,) = draw.panels(1.5 + 0.36 * max(3, len(rows)))
    for row, record in enumerate(rows):
        draw_bar(axes, row, record)
    draw_published(axes, [r.kernel for r in rows], run)
    copy = results.find(problem["name"], COPY)
    draw_limits(axes, copy, results.peak_gb_s)
    if not rows:
        draw.annotate_empty(axes, "no timed row")
    draw.kernel_rows(axes, [label(r) for r in rows])
    axes.set_xlim(left=0)
    axes.set_xlabel(shared.BANDWIDTH_LABEL)
    draw.legend_above(figure, [axes], columns=3, last="post")
    warnings = [w for r in rows if r.timed for w in clock_warning(r, copy)]
    ours, posts = size_text(problem), size_text(posts_matrix(run))
    note = (
        f"Matrix: {ours}; the post's: {posts}. Bars: medians; whiskers: intervals; right of each "
        f"row: its median. {INTERVAL_NOTE}"
    )
    draw.add_caption(figure, results, [note], run.recorded, warnings)
    return figure


def beside_counterparts(rows: list[Record], results: Results) -> list[Record]:
    """Each kernel of another language below the one in CUDA, which keeps its place."""
    there = {r.kernel for r in rows}
    found = [r for r in rows if results.kernel(r).counterpart not in there]
    for r in rows:
        if (counterpart := results.kernel(r).counterpart) in there:
            place = next(i for i, f in enumerate(found) if f.kernel == counterpart)
            found.insert(place + 1, r)
    return found


def label(record: Record) -> str:
    if record.ranked:
        return record.kernel
    remark = "wrong on random data, unranked" if record.timed else "no time: see the table"
    return f"{record.kernel}\n({remark})"


def draw_bar(axes: Axes, row: int, record: Record) -> None:
    found = record.bandwidth
    if found is None:
        return
    edge = draw.colour(record.kernel)
    look = {"color": "white", "hatch": "////", "label": "wrong on random data"}
    if record.ranked:
        look = {"color": edge}
    gid = "measured" if record.ranked else "deviation"
    axes.barh(row, found.value, 0.62, edgecolor=edge, linewidth=1, gid=gid, **look)
    look = {"ecolor": draw.BLACK, "elinewidth": 1, "capsize": 4, "capthick": 0.8}
    draw.whiskers(axes, [row], [found], upright=False, fmt="none", **look)
    draw.write_right(axes, row, f"{found.value:.0f} GB/s")


def draw_published(axes: Axes, kernels: list[str], run: Run) -> None:
    for which, (language, values) in enumerate(published_gb_s(run).items()):
        shift = SHIFTS[which]
        found = [(values[k], row + shift) for row, k in enumerate(kernels) if k in values]
        if found:
            look = {"label": f"post, {language} ({run.source.gpu})", "gid": language}
            look["markerfacecolor"] = "white"  # on a bar
            draw.mark(axes, *zip(*found, strict=True), which, **look)


def draw_limits(axes: Axes, copy: Record | None, peak: float | None) -> None:
    if copy is not None and copy.bandwidth is not None:
        gb_s = copy.bandwidth.value
        text = f"copy (cudaMemcpy): {gb_s:.0f}"
        axes.axvline(gb_s, color=draw.BLACK, linewidth=1.6, label=text, gid=COPY)
    if peak is not None:
        text = f"theoretical peak: {peak:.0f}"
        axes.axvline(peak, color=draw.GREY, linewidth=1.6, linestyle="--", label=text, gid="peak")


def sizes_figure(run: Run) -> Figure:
    """One panel per alignment that was measured; the ceilings are those of a copy alone."""
    results = run["sizes"]
    records = [r for r in results.records if r.kernel != shared.SAME_BYTES]
    panels = {
        name: found
        for divisor, name in ALIGNMENTS.items()
        if (found := [r for r in records if alignment(r.problem["rows"]) == divisor])
    }
    axis = (MARKED_SIZES, "rows of the square matrix")
    figure = shared.bandwidth_figure(panels, STRESSED, lambda r: r.problem["rows"], *axis)
    drawn = [r.problem["rows"] for r in [r for r in records if r.timed] or records]
    for axes in figure.axes:
        axes.set_xlim(min(drawn) / 1.3, max(drawn) * 1.3)
    draw.add_caption(figure, results, left_out_note(results), run.recorded)
    return figure
