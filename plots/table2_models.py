"""Per model: every kernel of the replay, and dequantization's share of the work."""

from itertools import groupby
from typing import Any

from claims.published import Cell as PublishedCell
from claims.results import KERNEL_TIME, PRODUCT_TIME, Record
from claims.stats import INTERVAL_NOTE, Summary, share_percent, significant
from plots.bandwidth import Measured, csv_row, measure
from plots.captions import machine_notes, outcome_notes, span
from plots.experiments import Run
from plots.neighbours import neighbour_notes
from plots.table2_speedup import compared_kernels
from plots.tables import KERNEL, NONE, Cell, Group, Row, Table, numbers, words

SHARE_CLAIM = "qmatmul-72"

ByModel = dict[str, dict[str, Measured]]  # by model, and by kernel


def replay_problems(run: Run) -> list[dict[str, Any]]:
    """The replayed forward passes; each names a model and a batch."""
    return [p for p in run["replay"].problems() if "model" in p]


def measure_pass(run: Run, problem: dict[str, Any]) -> list[Measured]:
    return measure(run["replay"], problem["name"], compared_kernels(run)[0])


def papers_share(run: Run) -> PublishedCell:
    """The paper's own breakdown: a share in percent, and the model and batch that it is of."""
    return run.decision(SHARE_CLAIM).claim.cells[0]


def shown_batch(run: Run) -> int:
    """The batch of the paper's own breakdown where it was run, else the smallest that was."""
    papers = papers_share(run).at["batch"]
    batches = {p["batch"] for p in replay_problems(run)}
    return papers if papers in batches or not batches else min(batches)


def shown_passes(run: Run) -> ByModel:
    """The forward passes at one batch."""
    shown = [p for p in replay_problems(run) if p["batch"] == shown_batch(run)]
    return {p["model"]: {m.record.kernel: m for m in measure_pass(run, p)} for p in shown}


def ranking(passes: ByModel) -> list[str]:
    """Kernels by mean time relative to the baseline; then those left out, in groups."""

    def place(kernel: str) -> tuple[int, float, str]:
        found = [by_kernel[kernel] for by_kernel in passes.values() if kernel in by_kernel]
        if not all(m.record.ranked for m in found):
            return (1 if all(m.record.timed for m in found) else 2), 0.0, kernel
        base = [m.base.times.median if m.base else 1.0 for m in found]
        times = [m.record.times.median for m in found]
        return 0, sum(t / b for t, b in zip(times, base, strict=True)) / len(found), kernel

    return sorted({kernel for by_kernel in passes.values() for kernel in by_kernel}, key=place)


def kernels_table(run: Run) -> Table:
    """Time per forward pass and speed-up at one batch; the CSV has every batch."""
    passes = shown_passes(run)
    rows: list[Row | Group] = []
    for kernel in ranking(passes):
        found = [by_kernel.get(kernel) for by_kernel in passes.values()]
        outcomes = [m.outcome for m in found if m]
        texts = dict.fromkeys(outcome.text for outcome in outcomes)
        remarks = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
        cells = [time_and_speedup(m) if m else NONE for m in found]
        cycles = [c for m in found if m and (c := m.record.bytes_per_cycle) is not None]
        per_cycle = span(cycles) if cycles else NONE
        rows.append([kernel, *cells, per_cycle, Cell(", ".join(texts), tuple(remarks))])
    data = [
        {"model": p["model"], "batch": p["batch"], **csv_row(m)}
        | {"product_median_us": s.median if (s := product(m.record)) else None}
        for p in replay_problems(run)
        for m in measure_pass(run, p)
    ]
    notes = [
        "Milliseconds of dequantization in one forward pass (median), and the speed-up over "
        f"{compared_kernels(run)[0]}. Only bit-exact rows are ranked and compared; no diff.: the "
        "two intervals overlap, so no difference was seen. Spread, minimum, number of samples, "
        "GB/s and the other batches: kernels.csv. " + INTERVAL_NOTE,
        "B/cycle: bytes read and written, once each, in one cycle of the SM clock that was seen "
        "beside the passes; the range over the models.",
    ]
    for p in [p for p in replay_problems(run) if p["batch"] == shown_batch(run)]:
        layers, resident = p["layers"], p.get("layers_resident", p["layers"])
        said = f"{p['model']}: {resident} of {layers} layers resident, reused cyclically."
        notes += [said] * (resident < layers)
    columns = [
        KERNEL,
        *numbers(*passes, wrap=len("99.99 (9.99x)")),
        *numbers("B/cycle"),
        *words("outcome"),
    ]
    title = f"All kernels: dequantization per forward pass at batch {shown_batch(run)}, ms"
    notes += neighbour_notes(run["replay"])
    return Table("kernels", title, columns, rows, data, notes, machine_notes(run["replay"]))


def time_and_speedup(m: Measured) -> Cell | str:
    if m.record.summary is None:
        return m.outcome.text
    text = significant(m.record.summary.median / 1e3)
    if m.ratio is not None:
        text += f" ({m.ratio.value:.2f}x)" if m.ratio.differs_from_one else " (no diff.)"
    return Cell(text, m.marks)


def product(record: Record | None) -> Summary | None:
    """Of the matrix products of the same passes; None where no time may be shown."""
    found = record.metric(PRODUCT_TIME) if record is not None and record.timed else None
    return found.summary if found else None


def share(record: Record | None) -> Summary | None:
    """Dequantization's part, in percent, of dequantization and products, pass by pass."""
    if record is None or product(record) is None:
        return None
    return share_percent(*(record.metrics[name].samples for name in (KERNEL_TIME, PRODUCT_TIME)))


def share_columns(record: Record | None) -> dict[str, float | None]:
    """For a CSV: both times and the share, empty where there is none."""
    names = ("dequantize_median_us", "products_median_us", "share_percent")
    names += ("share_low_percent", "share_high_percent", "n")
    s, products = share(record), product(record)
    if record is None or s is None or products is None:
        return dict.fromkeys(names)
    values = (record.times.median, products.median, s.median, *s.estimate.interval, s.n)
    return dict(zip(names, values, strict=True))


def share_table(run: Run) -> Table:
    """Dequantization's share per model and batch, for the baseline and the paper's kernel."""
    replay, kernels, cell = run["replay"], compared_kernels(run), papers_share(run)
    columns = numbers("batch", "paper")
    for kernel in kernels:
        columns += numbers(f"{kernel} ms", "products ms", "share", "interval")
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    for model, problems in groupby(replay_problems(run), lambda p: p["model"]):
        rows.append(Group(model))
        for p in problems:
            paper = cell.value if cell.at.items() <= p.items() else None
            records = [replay.find(p["name"], kernel) for kernel in kernels]
            found = next((s for r in records if (s := share(r))), None)
            row: list[Cell | str] = [str(p["batch"]), NONE if paper is None else f"{paper:.1f} %"]
            row += [cell for r in records for cell in share_cells(run, r)]
            rows.append([*row, str(found.n) if found else NONE])
            head = {"model": model, "batch": p["batch"], "paper_percent": paper}
            for kernel, record in zip(kernels, records, strict=True):
                data.append(head | {"kernel": kernel} | share_columns(record))
    notes = [
        "Share: dequantization over dequantization and matrix products of the same forward pass, "
        "median over the passes. Paper: section "
        f"{run.decision(SHARE_CLAIM).claim.section}, on {run.source.gpu}. {INTERVAL_NOTE}"
    ]
    title = "Dequantization's share of dequantize and multiply"
    columns += numbers("n")
    return Table("share", title, columns, rows, data, notes, machine_notes(replay))


def share_cells(run: Run, record: Record | None) -> list[Cell | str]:
    dequantize, products, value, low, high, n = share_columns(record).values()
    if n is None:
        return [Cell(NONE, outcome_notes(run["replay"], record)), *[NONE] * 3]
    times = [significant(time / 1e3) for time in (dequantize, products)]
    return [*times, f"{value:.1f} %", f"{low:.1f}-{high:.1f}"]
