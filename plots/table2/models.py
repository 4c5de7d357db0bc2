"""Per model: every kernel of the replay, and dequantization's share of the work."""

from typing import Any

from claims.published import Cell as PublishedCell
from plots.bandwidth import Measured, measure, values_of
from plots.captions import machine_notes, outcome_notes, span
from plots.experiments import Run
from plots.neighbours import neighbour_notes
from plots.table2.speedup import in_ms
from plots.tables import KERNEL, WORDS, Column, Noted, Table, Values
from records.results import KERNEL_TIME, PRODUCT_TIME, Record
from records.stats import INTERVAL_NOTE, Summary, share_percent, significant

SHARE_CLAIM = "qmatmul-72"

ByModel = dict[str, dict[str, Measured]]  # by model, and by kernel


def replay_problems(run: Run) -> list[dict[str, Any]]:
    """The replayed forward passes; each names a model and a batch."""
    return [p for p in run["replay"].problems() if "model" in p]


def measure_pass(run: Run, problem: dict[str, Any]) -> list[Measured]:
    return measure(run["replay"], problem["name"], run.compared[0])


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
    passes, rows = shown_passes(run), []
    for kernel in ranking(passes):
        found = {model: m for model, by in passes.items() if (m := by.get(kernel))}
        outcomes = [m.outcome for m in found.values()]
        notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
        texts = ", ".join(dict.fromkeys(outcome.text for outcome in outcomes))
        cycles = [c for m in found.values() if (c := m.record.bytes_per_cycle) is not None]
        row = {"kernel": kernel, "per_cycle": span(cycles) if cycles else None}
        row |= {f"of {model}": time_and_speedup(m) for model, m in found.items()}
        rows.append(row | {"outcome": Noted(texts, notes)})
    data = [
        {"model": p["model"], "batch": p["batch"], **values_of(m)}
        | {"product_median_us": s.median if (s := product(m.record)) else None}
        for p in replay_problems(run)
        for m in measure_pass(run, p)
    ]
    notes = [
        "Milliseconds of dequantization in one forward pass (median), and the speed-up over "
        f"{run.compared[0]}. Only bit-exact rows are ranked and compared; no diff.: the "
        "two intervals overlap, so no difference was seen. Spread, minimum, number of samples, "
        "GB/s and the other batches: kernels.csv. " + INTERVAL_NOTE,
        "B/cycle: bytes read and written, once each, in one cycle of the SM clock that was seen "
        "beside the passes; the range over the models.",
    ]
    for p in [p for p in replay_problems(run) if p["batch"] == shown_batch(run)]:
        layers, resident = p["layers"], p.get("layers_resident", p["layers"])
        said = f"{p['model']}: {resident} of {layers} layers resident, reused cyclically."
        notes += [said] * (resident < layers)
    columns = [KERNEL]
    columns += [Column(m, f"of {m}", wrap=len("99.99 (9.99x)")) for m in passes]
    columns += [Column("B/cycle", "per_cycle"), Column("outcome", "outcome", **WORDS)]
    title = f"All kernels: dequantization per forward pass at batch {shown_batch(run)}, ms"
    notes += neighbour_notes(run["replay"])
    provenance = machine_notes(run["replay"])
    return Table("kernels", title, columns, {"": rows}, notes, provenance, data)


def time_and_speedup(m: Measured) -> Noted:
    if m.record.summary is None:
        return Noted(None, text=m.outcome.text)
    text = significant(m.record.summary.median / 1e3)
    if m.ratio is not None:
        text += f" ({m.ratio.value:.2f}x)" if m.ratio.differs_from_one else " (no diff.)"
    return Noted(None, m.marks, text=text)


def product(record: Record | None) -> Summary | None:
    """Time of the matrix products of the same passes; None where no time may be shown."""
    found = record.metric(PRODUCT_TIME) if record is not None and record.timed else None
    return found.summary if found else None


def share(record: Record | None) -> Summary | None:
    """Dequantization's part, in percent, of dequantization and products, pass by pass."""
    if record is None or product(record) is None:
        return None
    return share_percent(*(record.metrics[name].samples for name in (KERNEL_TIME, PRODUCT_TIME)))


def share_values(record: Record | None) -> Values:
    """Both times and the share, empty where there is none."""
    names = ("dequantize_median_us", "products_median_us", "share_percent")
    names += ("share_low_percent", "share_high_percent", "n")
    s, products = share(record), product(record)
    if record is None or s is None or products is None:
        return dict.fromkeys(names)
    values = (record.times.median, products.median, s.median, *s.estimate.interval, s.n)
    return dict(zip(names, values, strict=True))


def share_table(run: Run) -> Table:
    """Dequantization's share per model and batch, for the baseline and the paper's kernel."""
    replay, kernels, cell = run["replay"], run.compared, papers_share(run)
    columns = [Column("batch", "batch"), Column("paper", "paper", lambda p: f"{p:.1f} %")]
    for k in kernels:
        columns += [Column(f"{k} ms", f"{k} us", in_ms), Column("products ms", f"{k} p", in_ms)]
        columns += [Column("share", f"{k} %", lambda p: f"{p:.1f} %")]
        columns += [Column("interval", (f"{k} low", f"{k} high"), "{:.1f}-{:.1f}".format)]
    columns += [Column("n", "n")]
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for p in replay_problems(run):
        paper = cell.value if cell.at.items() <= p.items() else None
        head = {"model": p["model"], "batch": p["batch"], "paper_percent": paper}
        row: Values = {"batch": p["batch"], "paper": paper, "n": None}
        for k in kernels:
            record = replay.find(p["name"], k)
            values = share_values(record)
            data.append(head | {"kernel": k} | values)
            names = (f"{k} us", f"{k} p", f"{k} %", f"{k} low", f"{k} high", "n")
            n = row["n"]
            row |= dict(zip(names, values.values(), strict=True))
            row["n"] = n or row["n"]
            if row[f"{k} us"] is None:
                row[f"{k} us"] = Noted(None, outcome_notes(replay, record))
        groups.setdefault(p["model"], []).append(row)
    notes = [
        "Share: dequantization over dequantization and matrix products of the same forward pass, "
        "median over the passes. Paper: section "
        f"{run.decision(SHARE_CLAIM).claim.section}, on {run.source.gpu}. {INTERVAL_NOTE}"
    ]
    title = "Dequantization's share of dequantize and multiply"
    return Table("share", title, columns, groups, notes, machine_notes(replay), data)
