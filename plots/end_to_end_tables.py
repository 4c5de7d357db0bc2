"""Tables of generated text with the paper's numbers: Table I, Figure 4, and what follows."""

from collections.abc import Callable, Iterable
from typing import Any

from claims.end_to_end import EAGER, GRAPH, KERNEL_SPEEDUP, WALL_TIME, amdahl, implied
from claims.ledger import Verdict
from claims.published import look_up
from claims.results import KERNEL_TIME, PRODUCT_TIME
from claims.stats import INTERVAL_NOTE, Estimate, Summary, difference_percent, significant
from plots import ledger
from plots.captions import machine_notes
from plots.end_to_end_rows import (
    STEP,
    Place,
    compared,
    models,
    of_model,
    places,
)
from plots.experiments import Run
from plots.tables import NONE, Cell, Group, Row, Table, numbers, words

TABLE1 = "table1_qwen3_32b"
OVERHEAD, FIGURE4 = "dequantization-overhead", "end-to-end"  # claims
QMATMUL, AGREE = "qmatmul-72", "tables-agree"
WAYS_NOTE = "Eager: transformers' generate. Graph: the decoding step in one CUDA graph."


def provenance(run: Run) -> list[str]:
    notes = [note for name in ("timing", "profile") for note in machine_notes(run[name])]
    return list(dict.fromkeys(notes))


def number(found: float | None, digits: int = 3) -> str:
    return NONE if found is None else significant(found, digits)


def median(found: Summary | None, scale: float) -> str:
    return NONE if found is None else significant(found.median / scale, 3)


def with_interval(found: Estimate | None, digits: int, unit: str = "") -> str:
    if found is None:
        return NONE
    ends = [f"{end:.{digits}f}" for end in (found.value, *found.interval)]
    return f"{ends[0]}{unit} ({ends[1]}-{ends[2]})"


def times(found: Estimate | None) -> str:
    """A speed-up; where the intervals overlap, that no difference was seen."""
    if found is None:
        return NONE
    if not found.differs_from_one:
        return "no diff."
    text = f"{found.value:.2f}"
    return f"{found.value:.4f}" if text == "1.00" else text


def verdict_at(run: Run, claim: str, place: Place) -> Verdict | None:
    verdicts = run.decision(claim).verdicts
    return next((v for v in verdicts if v.cell.at == place.at), None)


def beside_papers(
    v: Verdict | None, ours: Estimate | None, digits: int, why_not: tuple[str, ...]
) -> list[Cell | str]:
    """The paper's value, ours or why there is none, the difference and the verdict."""
    value = v.cell.value if v else None
    shown = Cell(with_interval(ours, digits), () if ours else why_not)
    if v is None or value is None:
        return [NONE, shown, NONE, NONE]
    change = NONE if ours is None else f"{difference_percent(ours.value, value):+.1f} %"
    notes = (v.why if v.elsewhere else v.reason,) if v.verdict == "not_testable" else ()
    return [f"{value:.{digits}f}", shown, change, Cell(ledger.spell(v.verdict), notes)]


def estimate_columns(name: str, found: Estimate | None) -> dict[str, float | None]:
    keys = (name, f"{name}_low", f"{name}_high")
    values = (found.value, *found.interval) if found else (None, None, None)
    return dict(zip(keys, values, strict=True))


def per_model(run: Run, row_of: Callable[[Place], Row]) -> list[Row | Group]:
    """A group for each model, with a row for each of its places."""
    found: list[Row | Group] = []
    for model in models(run):
        found.append(Group(model))
        found += [row_of(place) for place in of_model(run, model)]
    return found


def table1(run: Run) -> Table:
    """Dequantization's share of a generation, and its time; the paper has Qwen3-32B alone."""
    baseline, _ = compared(run)
    papers = run.source.table(TABLE1)
    data: list[dict[str, object]] = []

    def row(place: Place) -> Row:
        v, share = verdict_at(run, OVERHEAD, place), place.share(baseline)
        why_not = place.why_not(baseline, WALL_TIME, KERNEL_TIME)
        theirs = papers[str(place.batch)]["kernel_latency_ms"] if v else None
        us, of_step = place.time(baseline, KERNEL_TIME), place.share(baseline, STEP)
        per_pass = None if us is None else us.median / place.tokens / 1e3
        data.append(
            place.at
            | {"tokens": place.tokens, "paper_percent": v.cell.value if v else None}
            | estimate_columns("percent", share)
            | {"paper_dequantization_ms": theirs, "dequantization_ms": us and us.median / 1e3}
            | {"per_forward_pass_ms": per_pass}
            | estimate_columns("step_percent", of_step)
        )
        total = median(us, 1e6)
        return [
            *(str(place.batch), *beside_papers(v, share, 1, why_not)),
            *(NONE if theirs is None else f"{theirs / 1e3:.2f}", total, number(per_pass)),
            NONE if of_step is None else f"{of_step.value:.1f}",
        ]

    columns = [*numbers("batch", "paper %", "ours % (interval)", "difference"), *words("verdict")]
    columns += numbers("paper s", "ours s", "ours ms per pass", "% of a step")
    decision = run.decision(OVERHEAD)
    notes = [
        f"Reproduced if {decision.verdicts[0].criterion}.",
        f"Share: {baseline}'s kernels, as CUPTI recorded them, of the time of a generation "
        f"without the profiler. ours s: of all dequantizations of one generation of "
        f"{tokens_text(run)} tokens per prompt. A step: a forward pass after the prompt's. "
        f"{INTERVAL_NOTE}",
        f"The paper does not say of how many passes its seconds are. {papers_pass(run)}",
    ]
    title = f"Table I: dequantization's share of generating text ({baseline}), eager"
    return Table("table1", title, columns, per_model(run, row), data, notes, provenance(run))


def papers_pass(run: Run) -> str:
    """What its Figure 4 adds to its Table I, where the text gives both."""
    claim = run.decision(AGREE).claim
    (cell,), given = claim.cells, claim.arguments
    batch = cell.at["batch"]
    passes, ms = implied(run.source, cell, given["shares"], given["tokens_per_s"])
    return (
        f"At batch {batch}, its tokens/s make them {passes:.0f} passes of {ms:.1f} ms each, if new "
        "tokens alone were counted and both are of the same runs."
    )


def tokens_text(run: Run) -> str:
    return ", ".join(str(n) for n in dict.fromkeys(place.tokens for place in places(run)))


def figure4(run: Run) -> Table:
    """Latency and throughput of the baseline and the paper's kernel."""
    baseline, subject = compared(run)
    data: list[dict[str, object]] = []

    def row(place: Place) -> Row:
        v = verdict_at(run, FIGURE4, place)
        gain = place.gain(baseline, subject, WALL_TIME)
        seconds = [place.time(kernel, WALL_TIME) for kernel in (baseline, subject)]
        speeds = [place.tokens_per_s(kernel) for kernel in (baseline, subject)]
        data.append(
            place.at
            | {"paper": v.cell.value if v else None}
            | {f"paper_{field}": papers_value(run, place, field) for field in PAPERS_FIELDS}
            | estimate_columns("speedup", gain)
            | {
                f"{k}_s": s and s.median / 1e6
                for k, s in zip((baseline, subject), seconds, strict=True)
            }
            | {
                f"{k}_tokens_per_s": e and e.value
                for k, e in zip((baseline, subject), speeds, strict=True)
            }
        )
        idle = place.idle_percent(subject)
        data[-1] |= estimate_columns(f"{subject}_idle_percent", idle)
        cells = [median(s, 1e6) for s in seconds]
        cells += [number(e.value if e else None) for e in speeds]
        cells += [NONE if idle is None else f"{idle.value:.0f}"]
        why_not = [w for kernel in (baseline, subject) for w in place.why_not(kernel, WALL_TIME)]
        return [str(place.batch), *beside_papers(v, gain, 2, tuple(why_not)), *cells]

    columns = [*numbers("batch", "paper x", "ours x (interval)", "difference"), *words("verdict")]
    columns += numbers("before s", "after s", "before tok/s", "after tok/s", "after idle %")
    averages = [v for v in run.decision(FIGURE4).verdicts if v.cell.at["batch"] == "average"]
    notes = [
        f"Reproduced if {run.decision(FIGURE4).verdicts[0].criterion}.",
        f"Speed-up of {subject} (after) over {baseline} (before) in the time of a generation of "
        f"{tokens_text(run)} tokens per prompt, the prompt included. Idle: of a decoding step, in "
        f"which the GPU waits for the host, so that a faster kernel gains less. {INTERVAL_NOTE} "
        "Intervals are of one process for each model and batch: two may differ by more.",
        f"Average over all batches: {'; '.join(map(average_text, averages))}.",
        f"The paper's own, on its {run.source.gpu}: {'; '.join(papers_figure4(run))}.",
    ]
    title = f"Figure 4: latency and throughput with {subject} in the place of {baseline}, eager"
    return Table("figure4", title, columns, per_model(run, row), data, notes, provenance(run))


def average_text(v: Verdict) -> str:
    """'qwen3-32b 1.43 (paper 1.18: not reproduced)'"""
    ours = f" {number(v.ours)}" if v.ours else ""
    return f"{v.cell.at['model']}{ours} (paper {v.cell.value:g}: {ledger.spell(v.verdict)})"


PAPERS_FIELDS = ("baseline_s", "optimized_s", "baseline_tokens_per_s", "optimized_tokens_per_s")


def papers_name(run: Run, model: str) -> str:
    """Of the model, in the paper's tables; empty where it has none."""
    return next((name for name, ours in run.source.models.items() if model in ours), "")


def papers_value(run: Run, place: Place, field: str) -> float | None:
    rows = run.source.table("figure4").get(papers_name(run, place.model), {})
    return rows.get(str(place.batch), {}).get(field)


def papers_figure4(run: Run) -> Iterable[str]:
    """'qwen3-32b at batch 32: 283 to 368 tokens/s', as far as the text gives both ends."""
    for model, rows in run.source.table("figure4").items():
        for batch, found in rows.items():
            ends = [
                f"{found[f'baseline_{unit}']:g} to {found[f'optimized_{unit}']:g} {word}"
                for unit, word in (("s", "s"), ("tokens_per_s", "tokens/s"))
                if f"baseline_{unit}" in found
            ]
            if ends:
                yield f"{model} at batch {batch}: {', '.join(ends)}"


def amdahl_table(run: Run) -> Table:
    """What share and kernel speed-up predict, and what was measured; of the paper, too."""
    baseline, subject = compared(run)
    data: list[dict[str, object]] = []
    rows: list[Row | Group] = [Group(f"The paper ({run.source.gpu}), qwen3-32b")]
    for point in papers_predictions(run):
        measured = point[-1]
        reported = f"{measured.value:.2f}" if measured else NONE
        rows.append([*point_cells(*point)[:-1], reported, *[NONE] * 4])
        data.append(point_data("paper", "qwen3-32b", *point))
    graphs = {(p.model, p.batch): p for p in places(run, GRAPH)}

    def row(eager: Place) -> Row:
        found: list[Cell | str] = []
        for place, part in ((eager, ""), (graphs.get((eager.model, eager.batch)), STEP)):
            if place is None:
                continue
            point = our_point(place, baseline, subject, part)
            data.append(point_data(place.way, place.model, *point))
            found += point_cells(*point)[bool(found) :]
        return found + [NONE] * (9 - len(found))

    rows += per_model(run, row)
    columns = numbers("batch")
    for way in (EAGER, GRAPH):
        columns += numbers(f"{way}: share %", "kernel x", "predicted x", "measured x (interval)")
    notes = [
        "Predicted by Amdahl's law: 1 / (1 - share + share / kernel speed-up). Eager: of a "
        "generation. Graph: of a decoding step. Where the host keeps the GPU waiting, less is "
        f"measured than predicted. {WAYS_NOTE}"
    ]
    title = f"What Amdahl's law makes of {subject} over {baseline}, and what was measured"
    return Table("amdahl", title, columns, rows, data, notes, provenance(run))


POINT = ("way", "model", "batch", "share_percent", "kernel_speedup", "predicted")
Point = tuple[int, float | None, float | None, float | None, Estimate | None]


def our_point(place: Place, baseline: str, subject: str, part: str) -> Point:
    share = place.share(baseline, part)
    kernel = place.gain(baseline, subject, KERNEL_TIME + part)
    values = [e.value if e else None for e in (share, kernel)]
    measured = place.gain(baseline, subject, WALL_TIME + part)
    return place.batch, *values, place.predicted(baseline, subject, part), measured


def point_cells(
    batch: int,
    share: float | None,
    kernel: float | None,
    predicted: float | None,
    measured: Estimate | None,
) -> list[Cell | str]:
    cells = [NONE if share is None else f"{share:.1f}"]
    cells += [NONE if r is None else f"{r:.2f}" for r in (kernel, predicted)]
    return [str(batch), *cells, with_interval(measured, 2)]


def point_data(way: str, model: str, *point: Any) -> dict[str, object]:
    *values, measured = point
    found = dict(zip(POINT, (way, model, *values), strict=True))
    return found | estimate_columns("measured", measured)


def papers_predictions(run: Run) -> Iterable[Point]:
    """Of Tables I and II, with what Figure 4 reports where the text says it."""
    reported = {v.cell.at["batch"]: v.cell.value for v in run.decision("amdahl").verdicts}
    for text, row in run.source.table(TABLE1).items():
        batch, share = int(text), row["overhead_percent"]
        path = f"{KERNEL_SPEEDUP}/qwen3-32b/{batch}"
        kernel = look_up(run.source.tables, path, str(run.source.file))
        predicted = amdahl(share / 100, kernel)
        value = reported.get(batch)
        yield batch, share, kernel, predicted, Estimate(*[value] * 3) if value else None


def qmatmul(run: Run) -> Table:
    """Dequantization's share of quantized products, in everything that a generation holds."""
    baseline, subject = compared(run)
    data: list[dict[str, object]] = []
    (verdict,) = run.decision(QMATMUL).of("end_to_end")
    papers, said = verdict.cell, ledger.spell(verdict.verdict)

    def row(place: Place) -> Row:
        theirs = papers.value if place.at == papers.at else None
        cells: list[Cell | str] = [str(place.batch), NONE if theirs is None else f"{theirs:.1f}"]
        for kernel in (baseline, subject):
            share = place.matmul_share(kernel)
            products = place.time(kernel, PRODUCT_TIME)
            dequantize = place.time(kernel, KERNEL_TIME)
            per_pass = 1e3 * place.tokens
            cells += [median(dequantize, per_pass), median(products, per_pass)]
            why_not = place.why_not(kernel, KERNEL_TIME) if share is None else ()
            cells += [Cell(with_interval(share.estimate if share else None, 1), why_not)]
            found = place.at | {"kernel": kernel, "paper_percent": theirs}
            found |= {"dequantize_ms": dequantize and dequantize.median / per_pass}
            found |= {"products_ms": products and products.median / per_pass}
            data.append(found | estimate_columns("percent", share.estimate if share else None))
        return cells

    columns = numbers("batch", "paper %")
    for kernel in (baseline, subject):
        columns += numbers(f"{kernel} ms", "products ms", "% (interval)")
    notes = [
        f"{papers.text} against the paper's {papers.value:g} %: {said} ({verdict.reason}).",
        "ms: in one forward pass, the mean over a generation, prompt included. products: the "
        "kernels right behind a dequantization that are of its product. The replay of make "
        "reproduce-table2 has products alone; here attention and the rest run in between. "
        f"{INTERVAL_NOTE}",
    ]
    title = "Dequantization's share of quantized matrix products, eager"
    return Table("qmatmul", title, columns, per_model(run, row), data, notes, provenance(run))
