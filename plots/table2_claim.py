"""The paper's Table II with ours beside it."""

from collections.abc import Sequence

from plots.bandwidth import NONE
from plots.captions import check_notes, clock_warning, machine_notes, outcome_notes
from plots.claims import VERDICT_WORDS
from plots.published import MODELS, PAPER_NAME, Paper, check_source_value
from plots.results import Results, Verdict
from plots.stats import INTERVAL_NOTE, significant
from plots.tables import Cell, Column, Group, Row, Table

CLAIM = "kernel-speedup"
BASELINE = "branch_tree"
SUBJECT = "shared_lut"
AVERAGE = "average"

GEMMA_NOTE = "The paper says Gemma 27B without saying which; both are compared with its column."


def speedup_verdicts(results: Results, published: Paper) -> dict[tuple[str, object], Verdict]:
    """The claim's verdicts by (model, batch), checked against the published values."""
    found = {}
    for verdict in results.verdicts:
        model, batch = verdict.cell.get("model"), verdict.cell.get("batch")
        if verdict.claim != CLAIM or model not in PAPER_NAME:
            continue
        if batch == AVERAGE:
            value = published.average(model)
        elif batch in published.batches:
            value = published.speedup(model, batch)
        else:
            continue
        check_source_value(verdict.source_value, value, f"{results.file}: {CLAIM} {model} {batch}")
        found[model, batch] = verdict
    return found


def table2(results: Results, published: Paper) -> Table:
    """Per model and batch: the paper's value, ours, their difference and the verdict."""
    verdicts = speedup_verdicts(results, published)
    columns = [
        Column("batch"),
        Column("paper"),
        Column("ours (interval)"),
        Column("difference"),
        Column("verdict", "l", wrap=True),
        Column(f"{BASELINE} ms"),
        Column(f"{SUBJECT} ms"),
        Column("n"),
    ]
    rows: list[Row | Group] = []
    data: list[Sequence[object]] = [CSV_HEADER]
    for model in MODELS:
        paper_name = PAPER_NAME[model]
        rows.append(Group(model + (f" (paper: {paper_name})" if paper_name != model else "")))
        for batch in published.batches:
            value, verdict = published.speedup(model, batch), verdicts.get((model, batch))
            rows.append(display(results, model, batch, value, verdict))
            data.append(csv_row(results, model, batch, value, verdict))
        value, verdict = published.average(model), verdicts.get((model, AVERAGE))
        rows.append(display(results, model, AVERAGE, value, verdict))
        data.append(csv_row(results, model, AVERAGE, value, verdict))
    tolerances = dict.fromkeys(v.tolerance for v in verdicts.values())
    notes = [f"Tolerance, declared beforehand: {tolerance}." for tolerance in tolerances]
    notes.append(
        "ms: median time of all dequantizations of one forward pass, over n passes; "
        "intervals and minima are in table2.csv. average: mean of a model's rows and of their "
        "interval ends. " + INTERVAL_NOTE
    )
    return Table(
        "table2",
        f"Table II: speed-up of {SUBJECT} over {BASELINE} in dequantization, per forward pass",
        columns,
        rows,
        data,
        [
            *notes,
            f"Paper: {published.gpu} at {published.clock_mhz:.0f} MHz. {GEMMA_NOTE}",
            *check_notes(results),
        ],
        machine_notes(results),
    )


def display(
    results: Results, model: str, batch: int | str, value: float, verdict: Verdict | None
) -> list[Cell | str]:
    paper = f"{value:.2f}"
    if verdict is None:
        return [str(batch), paper, NONE, NONE, "not run", *[NONE] * 3]
    base, subject = pair(results, model, batch)
    ours = NONE if verdict.our_value is None else f"{verdict.our_value:.2f}"
    if verdict.our_interval:
        ours += " ({:.2f}-{:.2f})".format(*verdict.our_interval)
    warning = clock_warning(base, subject) if base and subject else ()
    change = verdict.difference_percent
    notes: tuple[str, ...] = ()
    if verdict.verdict != "reproduced" and verdict.reason:
        notes = (verdict.reason,)
    times: list[Cell | str] = []
    for record in (base, subject):
        if record is None or record.summary is None:
            times.append(Cell(NONE, outcome_notes(record) if record else ()))
        else:
            times.append(significant(record.summary.median / 1e3))
    return [
        str(batch),
        paper,
        Cell(ours, warning),
        NONE if change is None else f"{change:+.1f} %",
        Cell(VERDICT_WORDS[verdict.verdict], notes),
        *times,
        str(subject.summary.n) if subject and subject.summary else NONE,
    ]


def pair(results: Results, model: str, batch: int | str):
    """The two records that a cell compares, as far as the file has them."""
    name = f"{model}/batch{batch}"
    return results.find(name, BASELINE), results.find(name, SUBJECT)


CSV_HEADER = (
    "model,batch,paper,ours,ours_low,ours_high,difference_percent,verdict,reason,"
    "branch_tree_median_us,branch_tree_low_us,branch_tree_high_us,branch_tree_min_us,"
    "shared_lut_median_us,shared_lut_low_us,shared_lut_high_us,shared_lut_min_us,n,tolerance"
).split(",")


def csv_row(
    results: Results, model: str, batch: int | str, value: float, v: Verdict | None
) -> list[object]:
    if v is None:
        return [model, batch, value, *[None] * 4, "not_run", *[None] * 11]
    times: list[object] = []
    n = None
    for record in pair(results, model, batch):
        s = record.summary if record else None
        times += [s.median, s.low, s.high, s.min] if s else [None] * 4
        n = s.n if s else None
    low, high = v.our_interval or (None, None)
    return [
        model,
        batch,
        value,
        v.our_value,
        low,
        high,
        v.difference_percent,
        v.verdict,
        v.reason,
        *times,
        n,
        v.tolerance,
    ]
