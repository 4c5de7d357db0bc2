"""The paper's Table II with ours beside it, and the other claims that the experiment decides."""

from collections.abc import Sequence

from plots.bandwidth import NONE
from plots.captions import check_notes, clock_warning, machine_notes, outcome_notes
from plots.published import MODELS, PAPER_NAME, Published, check_source_value
from plots.results import Results, Verdict
from plots.stats import INTERVAL_NOTE, significant
from plots.tables import Cell, Column, Group, Row, Table

CLAIM = "kernel-speedup"
BASELINE = "branch_tree"
SUBJECT = "shared_lut"
AVERAGE = "average"

VERDICT_WORDS = {
    "reproduced": "reproduced",
    "not_reproduced": "not reproduced",
    "premise_false": "premise false",
    "not_testable": "not testable",
}
GEMMA_NOTE = "The paper says Gemma 27B without saying which; both are compared with its column."
CLAIMS_NOTE = f"{INTERVAL_NOTE} Over several cells: median of the cells, widest of their intervals."


def problem_name(model: str, batch: int) -> str:
    return f"{model}/batch{batch}"


def speedup_verdicts(results: Results, published: Published) -> dict[tuple[str, object], Verdict]:
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


def table2(results: Results, published: Published) -> Table:
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


def claims_table(passes: list[Results]) -> Table:
    """Every other verdict of the experiment's passes."""
    columns = [
        Column("source", "l"),
        Column("its value"),
        Column("ours (interval)"),
        Column("difference"),
        Column("verdict", "l", wrap=True),
        Column("what decided it", "l", wrap=True),
    ]
    rows: list[Row | Group] = []
    data: list[Sequence[object]] = [CLAIMS_HEADER]
    provenance: list[str] = []
    for results in passes:
        others = [v for v in results.verdicts if v.claim != CLAIM]
        if others:
            provenance += machine_notes(results)
        for v in others:
            cell = ", ".join(f"{key} {value}" for key, value in v.cell.items())
            rows.append(Group(f"{v.claim}: {v.text}" + (f" ({cell})" if cell else "")))
            ours = with_unit(v.our_value, v.unit)
            if v.our_interval:
                ours += " ({}-{})".format(*(significant(x, 3) for x in v.our_interval))
            rows.append(
                [
                    v.source,
                    with_unit(v.source_value, v.unit),
                    ours,
                    NONE if v.difference_percent is None else f"{v.difference_percent:+.1f} %",
                    VERDICT_WORDS[v.verdict],
                    v.reason,
                ]
            )
            low, high = v.our_interval or (None, None)
            numbers = [v.source_value, v.our_value, low, high, v.difference_percent]
            keys = " ".join(v.decided_by)
            data.append(
                [v.claim, v.source, cell, v.text, v.unit, *numbers]
                + [v.tolerance, v.verdict, v.reason, keys]
            )
    if not rows:
        provenance = machine_notes(passes[0])
    return Table(
        "claims",
        "Verdicts on other claims of the source",
        columns,
        rows,
        data,
        [CLAIMS_NOTE],
        provenance,
    )


def with_unit(value: float | None, unit: str) -> str:
    return NONE if value is None else f"{significant(value, 3)} {unit}".rstrip()


CLAIMS_HEADER = (
    "claim,source,cell,text,unit,source_value,our_value,our_low,our_high,difference_percent,"
    "tolerance,verdict,reason,decided_by"
).split(",")
