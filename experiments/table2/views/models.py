"""Per model: every kernel of the replay, and dequantization's share of the work."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reprolab.claims.published import Cell as PublishedCell
from experiments.table2.views.speedup import cells_by_model, in_ms
from plots import figures as draw
from plots.bandwidth import Measured, Rows, measure, values_of
from plots.experiments import Run
from plots.neighbours import neighbour_notes
from reprolab.captions import machine_notes, outcome_notes, span
from reprolab.results import KERNEL_TIME, PRODUCT_TIME, Record
from reprolab.stats import INTERVAL_NOTE, Estimate, Summary, ratio, share_percent, significant
from reprolab.tables import KERNEL, WORDS, Column, Noted, Table, Values, columns_of, side_by_side

INTERVAL_BARS = f"Bars: intervals. {INTERVAL_NOTE}"
SHARE_CLAIM = "qmatmul-72"

ByModel = dict[str, Rows]


def replay_problems(run: Run) -> list[dict[str, Any]]:
    """The replayed forward passes; each names a model and a batch."""
    return [p for p in run["replay"].problems() if "model" in p]


def measure_pass(run: Run, problem: dict[str, Any]) -> Rows:
    return measure(run["replay"], problem["name"], run.compared[0])


def papers_share(run: Run) -> PublishedCell:
    """The paper's own breakdown: a share in percent, with its model and batch."""
    return run.decision(SHARE_CLAIM).claim.cells[0]


def shown_batch(run: Run) -> int:
    """The batch of the paper's own breakdown if it was run, else the smallest batch."""
    papers = papers_share(run).at["batch"]
    batches = {p["batch"] for p in replay_problems(run)}
    return papers if papers in batches or not batches else min(batches)


def shown_passes(run: Run) -> ByModel:
    """The forward passes at one batch."""
    shown = [p for p in replay_problems(run) if p["batch"] == shown_batch(run)]
    return {p["model"]: measure_pass(run, p) for p in shown}


def ranking(passes: ByModel) -> list[str]:
    """Kernels by mean time relative to the baseline; then those left out, in groups."""

    def place(kernel: str) -> tuple[int, float, str]:
        rows = [by_kernel[kernel] for by_kernel in passes.values() if kernel in by_kernel]
        if not all(m.record.ranked for m in rows):
            return (1 if all(m.record.timed for m in rows) else 2), 0.0, kernel
        base = [m.base.times.median if m.base else 1.0 for m in rows]
        times = [m.record.times.median for m in rows]
        return 0, sum(t / b for t, b in zip(times, base, strict=True)) / len(rows), kernel

    return sorted({kernel for by_kernel in passes.values() for kernel in by_kernel}, key=place)


def kernels_table(run: Run) -> Table:
    """Time per forward pass and speed-up at one batch; the CSV has every batch."""
    passes, rows = shown_passes(run), []
    for kernel in ranking(passes):
        by_model = {model: m for model, by in passes.items() if (m := by.get(kernel))}
        outcomes = [m.outcome for m in by_model.values()]
        notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
        texts = ", ".join(dict.fromkeys(outcome.text for outcome in outcomes))
        cycles = [c for m in by_model.values() if (c := m.record.bytes_per_cycle) is not None]
        row = {"kernel": kernel, "per_cycle": span(cycles) if cycles else None}
        row |= {f"of {model}": time_and_speedup(m) for model, m in by_model.items()}
        rows.append(row | {"outcome": Noted(texts, notes)})
    data = [
        {"model": p["model"], "batch": p["batch"], **values_of(m)}
        | {"product_median_us": s.median if (s := product(m.record)) else None}
        for p in replay_problems(run)
        for m in measure_pass(run, p).values()
    ]
    notes = [
        "Milliseconds of dequantization in one forward pass (median), and the speed-up over "
        f"{run.compared[0]}. Only bit-exact rows are ranked and compared; no diff.: the "
        "two intervals overlap, so no difference was seen. Spread, minimum, number of samples, "
        "GB/s and the other batches: kernels.csv. " + INTERVAL_NOTE,
        "B/cycle: bytes read and written, once each, per cycle of the SM clock measured next to "
        "the passes; the range over the models.",
    ]
    for p in [p for p in replay_problems(run) if p["batch"] == shown_batch(run)]:
        layers, resident = p["layers"], p.get("layers_resident", p["layers"])
        remark = f"{p['model']}: {resident} of {layers} layers resident, reused cyclically."
        notes += [remark] * (resident < layers)
    columns = [KERNEL]
    columns += [Column(m, f"of {m}", wrap=len("99.99 (9.99x)")) for m in passes]
    columns += [Column("B/cycle", "per_cycle"), Column("outcome", "outcome", **WORDS)]
    title = f"All kernels: dequantization per forward pass at batch {shown_batch(run)}, ms"
    notes += neighbour_notes(run["replay"])
    return Table("kernels", title, columns, rows, notes, machine_notes(run["replay"]), data)


def time_and_speedup(m: Measured) -> Noted:
    if m.record.summary is None:
        return Noted(None, text=m.outcome.text)
    text = significant(m.record.summary.median / 1e3)
    if m.ratio is not None:
        text += f" ({m.ratio.value:.2f}x)" if m.ratio.differs_from_one else " (no diff.)"
    return Noted(None, m.marks, text=text)


def product(record: Record | None) -> Summary | None:
    """Time of the matrix products of the same passes; None if no time may be shown."""
    return record.shown(PRODUCT_TIME) if record and record.timed else None


def share(record: Record | None) -> Summary | None:
    """Dequantization's part, in percent, of dequantization and products, pass by pass."""
    if record is None or product(record) is None:
        return None
    return share_percent(*(record.metrics[name].samples for name in (KERNEL_TIME, PRODUCT_TIME)))


def share_table(run: Run) -> Table:
    """Dequantization's share per model and batch, for the baseline and the paper's kernel."""
    replay, kernels, cell = run["replay"], run.compared, papers_share(run)
    columns = [Column("batch", "batch"), Column("paper", "paper", "{:.1f} %".format)]
    columns += columns_of(
        kernels,
        Column("{} ms", "dequantize_median_us", in_ms),
        Column("products ms", "products_median_us", in_ms),
        Column("share", "share_percent", "{:.1f} %".format),
        Column("interval", "_share", lambda e: f"{e.low:.1f}-{e.high:.1f}"),
    )
    columns += [Column("n", "n")]
    rows, data = [], []
    for p in replay_problems(run):
        paper = cell.value if cell.at.items() <= p.items() else None
        head = {"model": p["model"], "batch": p["batch"], "paper_percent": paper}
        cells = {}
        for k in kernels:
            record = replay.find(p["name"], k)
            cells[k] = share_values(record)
            data.append(head | {"kernel": k} | cells[k])
            if cells[k]["n"] is None:
                why = Noted(None, outcome_notes(replay, record))
                cells[k] = cells[k] | {"dequantize_median_us": why}
        counts = [n for values in cells.values() if (n := values["n"])]
        row = {"_under": p["model"], "batch": p["batch"], "paper": paper}
        rows.append(row | side_by_side(cells) | {"n": counts[0] if counts else None})
    notes = [
        "Share: dequantization over dequantization and matrix products of the same forward pass, "
        "median over the passes. Paper: section "
        f"{run.decision(SHARE_CLAIM).claim.section}, on {run.source.gpu}. {INTERVAL_NOTE}"
    ]
    title = "Dequantization's share of dequantize and multiply"
    return Table("share", title, columns, rows, notes, machine_notes(replay), data)


def share_values(record: Record | None) -> Values:
    """Both times and the share; empty without a time."""
    names = ("dequantize_median_us", "products_median_us", "share_percent")
    names += ("share_low_percent", "share_high_percent", "n", "_share")
    s, products = share(record), product(record)
    if record is None or s is None or products is None:
        return dict.fromkeys(names)
    values = (record.times.median, products.median, s.median, *s.estimate.interval, s.n)
    return dict(zip(names, (*values, s.estimate), strict=True))


def kernels_figure(run: Run) -> Figure:
    """Every timed kernel's speed-up per model at one batch; deviating kernels hollow and last."""
    passes, baseline = shown_passes(run), run.compared[0]
    speed_ups = {
        kernel: {model: e for model, rows in passes.items() if (e := compared(rows.get(kernel)))}
        for kernel in ranking(passes)
    }
    speed_ups = {kernel: by_model for kernel, by_model in speed_ups.items() if by_model}
    figure, (axes,) = draw.panels(1.4 + 0.4 * max(3, len(speed_ups)))
    shade_papers(axes, run)
    axes.axvline(1, color=draw.BLACK, linewidth=1)
    labels: list[str] = []
    for row, (kernel, by_model) in enumerate(speed_ups.items()):
        deviates = any(passes[model][kernel].record.deviates for model in by_model)
        labels.append(kernel + "\n(declared deviation, unranked)" * deviates)
        for k, model in enumerate(passes):
            if model not in by_model:
                continue
            e = by_model[model]
            colour = draw.colour(kernel)
            look = {"markerfacecolor": "white" if deviates else colour, "markersize": 4.4}
            look |= {"fmt": marker_of(k), "color": colour, "capsize": 2}
            y = row + (k - (len(passes) - 1) / 2) * 0.19
            draw.whiskers(axes, [(y, e)], upright=False, **look)
    if not speed_ups:
        draw.annotate_empty(axes, f"nothing to compare with {baseline}")
    for k, model in enumerate(passes):
        draw.explain(axes, model, marker=marker_of(k))
    draw.kernel_rows(axes, labels)
    axes.set_xlim(left=0)
    label = f"speed-up over {baseline} in dequantization per forward pass"
    axes.set_xlabel(f"{label}, batch {shown_batch(run)} (x)")
    draw.legend_above(figure, [axes])
    draw.add_caption(figure, run["replay"], [INTERVAL_BARS], run.recorded)
    return figure


def marker_of(k: int) -> str:
    """The marker of the k-th model, in the kernels' colours."""
    return draw.MARKERS[k % len(draw.MARKERS)]


def compared(m: Measured | None) -> Estimate | None:
    """Speed-up over the baseline of any timed kernel, including deviating ones, which are
    hollow."""
    if m is None or m.base in (None, m.record) or not m.record.timed or m.record.is_ceiling:
        return None
    return ratio(m.base.times, m.record.times)


def shade_papers(axes: Axes, run: Run) -> None:
    """The range of the paper's speed-ups, over all models and batches."""
    values = [v.cell.value for readings in cells_by_model(run) for v in readings[0]]
    low, high = min(values), max(values)
    axes.axvspan(low, high, color=draw.GREY, alpha=0.25, linewidth=0, gid="paper")
    text = f"paper's {run.compared[1]}: {low:.2f}-{high:.2f}"
    look = {"transform": axes.get_xaxis_transform(), "fontsize": 7, "color": draw.GREY}
    axes.text((low + high) / 2, 1.01, text, ha="center", va="bottom", **look)


def share_lines(run: Run) -> list[str]:
    """Dequantization's share with each of the two kernels, over all models and batches."""
    parts, paper = [], papers_share(run)
    for kernel in run.compared:
        rows = [run["replay"].find(p["name"], kernel) for p in replay_problems(run)]
        if medians := [s.median for row in rows if (s := share(row))]:
            parts.append(f"{span(medians)} % with {kernel}")
    remark = f"the paper's, {paper.model} at batch {paper.at['batch']}: {paper.value:g} %"
    title = "Dequantization's share of dequantize and multiply, all models and batches"
    return [f"{title}: {', '.join(parts)} ({remark})."] * bool(parts)
