"""Per model: every kernel of the replay, and dequantization's share of the work."""

from collections.abc import Sequence
from typing import Any

from plots.bandwidth import NONE
from plots.captions import clock_warning, machine_notes, outcome_notes, outcome_words
from plots.published import Paper
from plots.results import Record, Results
from plots.stats import INTERVAL_NOTE, Summary, significant, speed_up, summarize
from plots.table2_claim import BASELINE, SUBJECT
from plots.tables import Cell, Column, Group, Row, Table

SHOWN_BATCH = 8  # the batch of the paper's own breakdown (section III-C)
SHARE_CLAIM = "qmatmul-72"


def replay_problems(results: Results) -> list[dict[str, Any]]:
    """The replayed forward passes; each names a model and a batch."""
    return [p for p in results.problems() if "model" in p and "batch" in p]


def shown_batch(results: Results) -> int:
    """The paper's batch where it was run, else the smallest that was."""
    batches = {p["batch"] for p in replay_problems(results)}
    return SHOWN_BATCH if SHOWN_BATCH in batches or not batches else min(batches)


def baseline_of(results: Results, problem: str) -> Record | None:
    record = results.find(problem, BASELINE)
    return record if record is not None and record.ranked else None


def ranking(results: Results, problems: list[dict[str, Any]]) -> list[str]:
    """Kernels by mean time relative to the baseline; then those left out, in groups."""

    def place(kernel: str) -> tuple[int, float, str]:
        records = [r for p in problems if (r := results.find(p["name"], kernel))]
        if not all(r.ranked for r in records):
            return (1 if all(r.timed for r in records) else 2), 0.0, kernel
        relative = []
        for r in records:
            base = baseline_of(results, r.problem["name"])
            relative.append(r.times.median / (base.times.median if base else 1.0))
        return 0, sum(relative) / len(relative), kernel

    names = {p["name"] for p in problems}
    kernels = {r.kernel for r in results.records if r.problem["name"] in names}
    return sorted(kernels, key=place)


def kernels_table(results: Results) -> Table:
    """Time per forward pass and speed-up at one batch; the CSV has every batch."""
    batch = shown_batch(results)
    shown = [p for p in replay_problems(results) if p["batch"] == batch]
    columns = [Column("kernel", "l", wrap=True, code=True)]
    columns += [Column(p["model"], wrap=True) for p in shown]
    columns.append(Column("outcome", "l", wrap=True))
    rows: list[Row | Group] = []
    for kernel in ranking(results, shown):
        records = [results.find(p["name"], kernel) for p in shown]
        outcomes = dict.fromkeys(outcome_words(r) for r in records if r)
        remarks = dict.fromkeys(note for r in records if r for note in outcome_notes(r))
        cell = Cell(", ".join(outcomes), tuple(remarks))
        rows.append([kernel, *(time_and_speedup(results, r) for r in records), cell])
    data: list[Sequence[object]] = [KERNELS_HEADER]
    for problem in replay_problems(results):
        for kernel in ranking(results, [problem]):
            record = results.find(problem["name"], kernel)
            data += [kernel_csv(results, record)] if record else []
    notes = [
        "Milliseconds of dequantization in one forward pass (median), and the speed-up over "
        f"{BASELINE}. Bit-exact rows alone are ranked and compared; no diff.: the two intervals "
        "overlap, so no difference was seen. Spread, minimum, number of samples and the other "
        "batches: kernels.csv. " + INTERVAL_NOTE,
    ]
    notes += residency(shown)
    title = f"All kernels: dequantization per forward pass at batch {batch}, ms"
    return Table("kernels", title, columns, rows, data, notes, machine_notes(results))


def residency(problems: list[dict[str, Any]]) -> list[str]:
    """Says so where a model's layers did not all fit."""
    parts = []
    for p in problems:
        resident, layers = p.get("layers_resident"), p.get("layers")
        if resident is not None and layers is not None and resident < layers:
            parts.append(f"{p['model']}: {resident} of {layers} layers resident, replayed in turn")
    return [". ".join(parts) + "."] if parts else []


def time_and_speedup(results: Results, record: Record | None) -> Cell | str:
    if record is None:
        return NONE
    if record.summary is None:
        return outcome_words(record)
    text = significant(record.summary.median / 1e3)
    base = baseline_of(results, record.problem["name"])
    if base is None or base is record or not record.ranked:
        return text
    ratio = speed_up(base.times, record.times)
    text += f" ({ratio.value:.2f}x)" if ratio.seen else " (no diff.)"
    return Cell(text, clock_warning(base, record))


KERNELS_HEADER = (
    "model,batch,kernel,role,outcome,reason,median_us,low_us,high_us,min_us,n,speedup,speedup_low,"
    "speedup_high,difference_seen,product_median_us,sm_mhz,source_file"
).split(",")


def kernel_csv(results: Results, r: Record) -> list[object]:
    base, s = baseline_of(results, r.problem["name"]), r.summary
    ratio = speed_up(base.times, r.times) if base and r.ranked and r is not base else None
    product = summarize(r.product_samples_us).median if s and r.product_samples_us else None
    return [
        r.problem["model"],
        r.problem["batch"],
        r.kernel,
        r.role,
        r.outcome,
        r.reason or r.deviation,
        *((s.median, s.low, s.high, s.min, s.n) if s else (None,) * 5),
        *((ratio.value, ratio.low, ratio.high, int(ratio.seen)) if ratio else (None,) * 4),
        product,
        r.sm_mhz,
        r.source_file,
    ]


def share(record: Record | None) -> Summary | None:
    """Dequantization's part, in percent, of dequantization and products, pass by pass."""
    if record is None or record.summary is None or not record.product_samples_us:
        return None
    passes = zip(record.samples_us, record.product_samples_us, strict=True)
    return summarize([100 * d / (d + p) for d, p in passes])


def share_table(results: Results, published: Paper) -> Table:
    """Dequantization's share per model and batch, for the baseline and the paper's kernel."""
    columns = [Column("batch"), Column("paper")]
    for kernel in (BASELINE, SUBJECT):
        columns += [
            Column(f"{kernel} ms"),
            Column("products ms"),
            Column("share"),
            Column("interval"),
        ]
    columns.append(Column("n"))
    rows: list[Row | Group] = []
    data: list[Sequence[object]] = [SHARE_HEADER]
    model = None
    for p in replay_problems(results):
        if p["model"] != model:
            model = p["model"]
            rows.append(Group(model))
        is_papers = (p["model"], p["batch"]) == published.cell(SHARE_CLAIM)
        paper = published.value(SHARE_CLAIM) if is_papers else None
        row: list[Cell | str] = [str(p["batch"]), NONE if paper is None else f"{paper:.1f} %"]
        n = NONE
        for kernel in (BASELINE, SUBJECT):
            record = results.find(p["name"], kernel)
            s = share(record)
            numbers: list[float | None] = [None] * 5
            if record is None or s is None:
                row += [Cell(NONE, outcome_notes(record) if record else ()), *[NONE] * 3]
            else:
                product = summarize(record.product_samples_us).median
                n = str(s.n)
                row += [significant(record.times.median / 1e3), significant(product / 1e3)]
                row += [f"{s.median:.1f} %", f"{s.low:.1f}-{s.high:.1f}"]
                numbers = [record.times.median, product, s.median, s.low, s.high]
            data.append([p["model"], p["batch"], kernel, paper, *numbers, s.n if s else None])
        rows.append([*row, n])
    notes = [
        "Share: dequantization over dequantization and matrix products of the same forward pass, "
        "median over the passes. Paper: section III-C, on " + published.gpu + ".",
        INTERVAL_NOTE,
    ]
    title = "Dequantization's share of dequantize and multiply"
    return Table("share", title, columns, rows, data, notes, machine_notes(results))


SHARE_HEADER = (
    "model,batch,kernel,paper_percent,dequantize_median_us,products_median_us,share_percent,"
    "share_low_percent,share_high_percent,n"
).split(",")
