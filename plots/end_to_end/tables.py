"""Tables of generated text with the paper's numbers: Table I, Figure 4, and what follows."""

from collections.abc import Callable, Iterable

from claims.end_to_end import EAGER, GRAPH, KERNEL_SPEEDUP, WALL_TIME, amdahl, implied
from claims.ledger import Verdict
from claims.published import look_up
from plots import bandwidth, ledger
from plots.bandwidth import estimate_values
from plots.captions import machine_notes
from plots.end_to_end.rows import STEP, Setting, both, models, of_model, scaled, settings
from plots.experiments import Run
from plots.tables import WORDS, Column, Noted, Origin, Table, Values, side_by_side
from records.results import KERNEL_TIME, PRODUCT_TIME
from records.stats import INTERVAL_NOTE, Estimate, difference_percent, significant

TABLE1 = "table1_qwen3_32b"
OVERHEAD, FIGURE4 = "dequantization-overhead", "end-to-end"  # claims
QMATMUL, AGREE = "qmatmul-72", "tables-agree"
MODES_NOTE = "Eager: transformers' generate. Graph: the decoding step in one CUDA graph."
BATCH = Column("batch", "batch")
WHOLE, TENTHS, HUNDREDTHS = "{:.0f}".format, "{:.1f}".format, "{:.2f}".format


def provenance(run: Run) -> list[Origin]:
    return machine_notes(*(run[name] for name in ("timing", "profile")))


def number(found: float) -> str:
    return significant(found, 3)


def with_interval(digits: int) -> Callable[[Estimate], str]:
    """'1.25 (1.24-1.26)'"""
    return lambda e: bandwidth.with_interval(e, f"{{:.{digits}f}}")


def per_model(run: Run, row_of: Callable[[Setting], Values]) -> dict[str, list[Values]]:
    """A group for each model, with a row for each of its settings."""
    return {model: [row_of(setting) for setting in of_model(run, model)] for model in models(run)}


def shown_together(groups: dict[str, list[Values]]) -> tuple[dict[str, list[Values]], list[Values]]:
    """Places with several rows each: one row per setting to be shown, and all rows."""
    shown = {name: [side_by_side(rows) for rows in settings] for name, settings in groups.items()}
    return shown, [
        row for settings in groups.values() for rows in settings for row in rows.values()
    ]


def verdict_at(run: Run, claim: str, setting: Setting) -> Verdict | None:
    verdicts = run.decision(claim).verdicts
    return next((v for v in verdicts if v.cell.at == setting.at), None)


def beside_papers(v: Verdict | None, ours: Estimate | None, why_not: Iterable[str]) -> Values:
    """Ours or why there is none, the difference from the paper's, and the verdict."""
    found: Values = {"_ours": Noted(ours, () if ours else tuple(why_not))}
    if v is None or v.cell.value is None:
        return found
    notes = (v.why if v.elsewhere else v.reason,) if v.verdict == "not_testable" else ()
    change = ours and difference_percent(ours.value, v.cell.value)
    return found | {"_difference": change, "_verdict": Noted(v.verdict, notes)}


def papers_columns(unit: str, paper: str, digits: int) -> list[Column]:
    """What `beside_papers` has, behind the paper's value, which has the name `paper`."""
    return [
        Column(f"paper {unit}", paper, f"{{:.{digits}f}}".format),
        Column(f"ours {unit} (interval)", "_ours", with_interval(digits)),
        Column("difference", "_difference", "{:+.1f} %".format),
        Column("verdict", "_verdict", ledger.spell, **WORDS),
    ]


def table1(run: Run) -> Table:
    """Dequantization's share of a generation, and its time; the paper has Qwen3-32B alone."""
    baseline, _ = run.compared
    papers = run.source.table(TABLE1)

    def row(setting: Setting) -> Values:
        v, share = verdict_at(run, OVERHEAD, setting), setting.share(baseline)
        theirs = papers[str(setting.batch)]["kernel_latency_ms"] if v else None
        us = setting.time(baseline, KERNEL_TIME)
        found = setting.at | {
            "tokens": setting.tokens,
            "paper_percent": v.cell.value if v else None,
        }
        found |= estimate_values("percent", share)
        found |= {"paper_dequantization_ms": theirs, "dequantization_ms": scaled(us, 1e3)}
        found |= {"per_forward_pass_ms": scaled(us, 1e3 * setting.tokens)}
        found |= estimate_values("step_percent", setting.share(baseline, STEP))
        why_not = setting.why_not(baseline, WALL_TIME, KERNEL_TIME)
        return found | beside_papers(v, share, why_not)

    columns = [BATCH, *papers_columns("%", "paper_percent", 1)]
    columns += [
        Column("paper s", "paper_dequantization_ms", lambda ms: f"{ms / 1e3:.2f}"),
        Column("ours s", "dequantization_ms", lambda ms: number(ms / 1e3)),
        Column("ours ms per pass", "per_forward_pass_ms", number),
        Column("% of a step", "step_percent", TENTHS),
    ]
    notes = [
        f"Reproduced if {run.decision(OVERHEAD).verdicts[0].criterion}.",
        f"Share: {baseline}'s kernels, as CUPTI recorded them, of the time of a generation "
        f"without the profiler. ours s: of all dequantizations of one generation of "
        f"{tokens_text(run)} tokens per prompt. A step: a forward pass after the prompt's. "
        f"{INTERVAL_NOTE}",
        f"The paper does not say of how many passes its seconds are. {papers_pass(run)}",
    ]
    title = f"Table I: dequantization's share of generating text ({baseline}), eager"
    return Table("table1", title, columns, per_model(run, row), notes, provenance(run))


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
    return ", ".join(str(n) for n in dict.fromkeys(setting.tokens for setting in settings(run)))


def figure4(run: Run) -> Table:
    """Latency and throughput of the baseline and the paper's kernel."""
    kernels = baseline, subject = run.compared

    def row(setting: Setting) -> Values:
        v, gain = verdict_at(run, FIGURE4, setting), setting.gain(baseline, subject, WALL_TIME)
        found = setting.at | {"paper": v.cell.value if v else None}
        found |= {f"paper_{field}": papers_value(run, setting, field) for field in PAPERS_FIELDS}
        found |= estimate_values("speedup", gain)
        found |= {f"{kernel}_s": scaled(setting.time(kernel, WALL_TIME), 1e6) for kernel in kernels}
        speeds = {kernel: setting.tokens_per_s(kernel) for kernel in kernels}
        found |= {f"{kernel}_tokens_per_s": e and e.value for kernel, e in speeds.items()}
        found |= estimate_values(f"{subject}_idle_percent", setting.idle_percent(subject))
        why_not = [why for kernel in kernels for why in setting.why_not(kernel, WALL_TIME)]
        return found | beside_papers(v, gain, why_not)

    columns = [BATCH, *papers_columns("x", "paper", 2)]
    whens = {baseline: "before", subject: "after"}
    columns += [Column(f"{when} s", f"{kernel}_s", number) for kernel, when in whens.items()]
    columns += [
        Column(f"{when} tok/s", f"{kernel}_tokens_per_s", number) for kernel, when in whens.items()
    ]
    columns.append(Column("after idle %", f"{subject}_idle_percent", WHOLE))
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
    return Table("figure4", title, columns, per_model(run, row), notes, provenance(run))


def average_text(v: Verdict) -> str:
    """'qwen3-32b 1.43 (paper 1.18: not reproduced)'"""
    ours = f" {number(v.ours)}" if v.ours else ""
    return f"{v.cell.at['model']}{ours} (paper {v.cell.value:g}: {ledger.spell(v.verdict)})"


PAPERS_FIELDS = ("baseline_s", "optimized_s", "baseline_tokens_per_s", "optimized_tokens_per_s")


def papers_name(run: Run, model: str) -> str:
    """The model's name in the paper's tables; empty where it has none."""
    return next((name for name, ours in run.source.models.items() if model in ours), "")


def papers_value(run: Run, setting: Setting, field: str) -> float | None:
    rows = run.source.table("figure4").get(papers_name(run, setting.model), {})
    return rows.get(str(setting.batch), {}).get(field)


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
    baseline, subject = run.compared
    paper = f"The paper ({run.source.gpu}), qwen3-32b"
    rows = {paper: [{EAGER: found} for found in papers_predictions(run)]}
    rows |= per_model(run, lambda eager: {p.mode: our_prediction(run, p) for p in both(run, eager)})
    groups, data = shown_together(rows)
    columns = [Column("batch", f"{EAGER} batch")]
    for mode in (EAGER, GRAPH):
        columns += [
            Column(f"{mode}: share %", f"{mode} share_percent", TENTHS),
            Column("kernel x", f"{mode} kernel_speedup", HUNDREDTHS),
            Column("predicted x", f"{mode} predicted", HUNDREDTHS),
            Column("measured x (interval)", f"{mode} _measured", with_interval(2)),
        ]
    notes = [
        "Predicted by Amdahl's law: 1 / (1 - share + share / kernel speed-up). Eager: of a "
        "generation. Graph: of a decoding step. Where the host keeps the GPU waiting, less is "
        f"measured than predicted. {MODES_NOTE}"
    ]
    title = f"What Amdahl's law makes of {subject} over {baseline}, and what was measured"
    return Table("amdahl", title, columns, groups, notes, provenance(run), data)


def our_prediction(run: Run, setting: Setting) -> Values:
    """Eager, of a generation; in a graph, of a decoding step."""
    (baseline, subject), part = run.compared, STEP * (setting.mode == GRAPH)
    share = setting.share(baseline, part)
    kernel = setting.gain(baseline, subject, KERNEL_TIME + part)
    found = {"way": setting.mode} | setting.at | {"share_percent": share and share.value}
    found |= {"kernel_speedup": kernel and kernel.value}
    found |= {"predicted": setting.predicted(baseline, subject, part)}
    measured = setting.gain(baseline, subject, WALL_TIME + part)
    return found | estimate_values("measured", measured) | {"_measured": measured}


def papers_predictions(run: Run) -> Iterable[Values]:
    """Tables I and II side by side, with what Figure 4 reports where the text says it."""
    reported = {v.cell.at["batch"]: v.cell.value for v in run.decision("amdahl").verdicts}
    for text, row in run.source.table(TABLE1).items():
        batch, share = int(text), row["overhead_percent"]
        path = f"{KERNEL_SPEEDUP}/qwen3-32b/{batch}"
        kernel = look_up(run.source.tables, path, str(run.source.file))
        found = {"way": "paper", "model": "qwen3-32b", "batch": batch, "share_percent": share}
        found |= {"kernel_speedup": kernel, "predicted": amdahl(share / 100, kernel)}
        value = reported.get(batch)
        measured = Estimate(*[value] * 3) if value else None
        shown = Noted(measured, text=HUNDREDTHS(value) if value else "")
        yield found | estimate_values("measured", measured) | {"_measured": shown}


def qmatmul(run: Run) -> Table:
    """Dequantization's share of quantized products, in everything that a generation holds."""
    kernels = run.compared
    (verdict,) = run.decision(QMATMUL).of("end_to_end")
    papers, said = verdict.cell, ledger.spell(verdict.verdict)

    def row(setting: Setting, kernel: str) -> Values:
        found = setting.at | {"kernel": kernel}
        found |= {"paper_percent": papers.value if setting.at == papers.at else None}
        for name, metric in (("dequantize_ms", KERNEL_TIME), ("products_ms", PRODUCT_TIME)):
            found[name] = scaled(setting.time(kernel, metric), 1e3 * setting.tokens)
        share = setting.matmul_share(kernel)
        percent = share.estimate if share else None
        why_not = setting.why_not(kernel, KERNEL_TIME) if share is None else ()
        return found | estimate_values("percent", percent) | {"_percent": Noted(percent, why_not)}

    groups, data = shown_together(per_model(run, lambda p: {k: row(p, k) for k in kernels}))
    baseline = kernels[0]
    columns = [
        Column("batch", f"{baseline} batch"),
        Column("paper %", f"{baseline} paper_percent", TENTHS),
    ]
    for kernel in kernels:
        columns += [
            Column(f"{kernel} ms", f"{kernel} dequantize_ms", number),
            Column("products ms", f"{kernel} products_ms", number),
            Column("% (interval)", f"{kernel} _percent", with_interval(1)),
        ]
    notes = [
        f"{papers.text} against the paper's {papers.value:g} %: {said} ({verdict.reason}).",
        "ms: in one forward pass, the mean over a generation, prompt included. products: the "
        "kernels right behind a dequantization that are of its product. The replay of make "
        "reproduce-table2 has products alone; here attention and the rest run in between. "
        f"{INTERVAL_NOTE}",
    ]
    title = "Dequantization's share of quantized matrix products, eager"
    return Table("qmatmul", title, columns, groups, notes, provenance(run), data)
