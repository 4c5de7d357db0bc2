"""Tables of generated text with the paper's numbers: Table I, Figure 4, and their consequences."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from reprolab.claims.ledger import Verdict
from experiments.end_to_end.protocol import EAGER, GRAPH, WALL_TIME
from experiments.end_to_end.rules import KERNEL_SPEEDUP, amdahl
from experiments.end_to_end.rules import papers_predictions as predictions
from experiments.end_to_end.views.rows import (
    FUSED,
    OURS,
    STEP,
    Setting,
    settings,
    settings_in,
)
from plots import sentences
from plots.bandwidth import estimate_values, with_interval
from plots.experiments import Run
from reprolab.captions import machine_notes
from reprolab.results import KERNEL_TIME, PRODUCT_TIME
from reprolab.stats import INTERVAL_NOTE, Estimate, difference_percent
from reprolab.tables import (
    WORDS,
    Column,
    Noted,
    Origin,
    Table,
    Values,
    columns_of,
    rounded,
    side_by_side,
)

TABLE1 = "table1_qwen3_32b"
OVERHEAD = "dequantization-overhead"  # a claim
FIGURE4 = ("end-to-end-llama", "end-to-end")  # claims, by model
QMATMUL, AGREE = "qmatmul-72", "tables-agree"
MODES_NOTE = "Eager: transformers' generate. Graph: the decoding step in one CUDA graph."
BATCH = Column("batch", "batch")
WHOLE, TENTHS, HUNDREDTHS = "{:.0f}".format, "{:.1f}".format, "{:.2f}".format
PAPERS_FIELDS = ("baseline_s", "optimized_s", "baseline_tokens_per_s", "optimized_tokens_per_s")


def provenance(run: Run) -> list[Origin]:
    return machine_notes(run["timing"], run["profile"])


def by_mode_columns(*columns: Column) -> list[Column]:
    return [Column("batch", f"{EAGER} batch"), *columns_of((EAGER, GRAPH), *columns)]


def verdict_at(run: Run, claims: Sequence[str], setting: Setting) -> Verdict | None:
    return next((v for v in verdicts_of(run, claims) if v.cell.at == setting.at), None)


def verdicts_of(run: Run, claims: Sequence[str]) -> list[Verdict]:
    return [v for claim in claims for v in run.decision(claim).verdicts]


def comparison(
    v: Verdict | None, ours: Estimate | None, why_not: Iterable[str], older: tuple[str, ...]
) -> Values:
    """Our value or why it is missing, the difference from the paper's, and the verdict."""
    values: Values = {"_ours": Noted(ours, older if ours else tuple(why_not))}
    if v is None or v.cell.value is None:
        return values
    notes = (v.why if v.elsewhere else v.reason,) if v.verdict == "not_testable" else ()
    change = ours and difference_percent(ours.value, v.cell.value)
    return values | {"_difference": change, "_verdict": Noted(v.verdict, notes)}


def papers_columns(unit: str, paper: str, show: Callable[[float], str]) -> list[Column]:
    """The columns of `comparison`, after the paper's value, which has the name `paper`."""
    return [
        Column(f"paper {unit}", paper, show),
        Column(f"ours {unit} (interval)", "_ours", partial(with_interval, show=show)),
        Column("difference", "_difference", "{:+.1f} %".format),
        Column("verdict", "_verdict", sentences.spell, **WORDS),
    ]


def table1(run: Run) -> Table:
    """Dequantization's share of a generation, and its time; the paper has Qwen3-32B alone."""
    baseline, _ = run.compared
    papers = run.source.table(TABLE1)
    rows = []
    for setting in settings_in(run, EAGER):
        v, share = verdict_at(run, [OVERHEAD], setting), setting.share(baseline)
        theirs = papers[str(setting.batch)]["kernel_latency_ms"] if v else None
        row = {"_under": setting.model} | setting.at | {"tokens": setting.tokens}
        row |= {"paper_percent": v.cell.value if v else None} | estimate_values("percent", share)
        ms, per_pass = (setting.scaled(baseline, KERNEL_TIME, 1e3 * n) for n in (1, setting.tokens))
        row |= {"paper_dequantization_ms": theirs, "dequantization_ms": ms}
        row |= {"per_forward_pass_ms": per_pass}
        row |= estimate_values("step_percent", setting.share(baseline, STEP))
        why_not = setting.why_not(baseline, WALL_TIME, KERNEL_TIME)
        rows.append(row | comparison(v, share, why_not, setting.older(baseline)))
    columns = [BATCH, *papers_columns("%", "paper_percent", TENTHS)]
    columns += [
        Column("paper s", "paper_dequantization_ms", lambda ms: f"{ms / 1e3:.2f}"),
        Column("ours s", "dequantization_ms", lambda ms: rounded(ms / 1e3)),
        Column("ours ms per pass", "per_forward_pass_ms", rounded),
        Column("% of a step", "step_percent", TENTHS),
    ]
    notes = [
        f"Reproduced if {run.decision(OVERHEAD).verdicts[0].criterion}.",
        f"Share: {baseline}'s kernels, as CUPTI recorded them, of the time of a generation "
        f"without the profiler. ours s: of all dequantizations of one generation of "
        f"{tokens_text(run)} tokens per prompt. A step: a forward pass after the prompt's. "
        f"{INTERVAL_NOTE}",
        "The paper does not report how many passes its seconds cover.",
    ]
    title = f"Dequantization's share of generating text ({baseline}), eager: the paper's Table I"
    return Table("table1", title, columns, rows, notes, provenance(run))


def tokens_text(run: Run) -> str:
    return ", ".join(str(n) for n in dict.fromkeys(s.tokens for s in settings_in(run, EAGER)))


def figure4(run: Run) -> Table:
    """Latency and throughput of the baseline and the paper's kernel."""
    kernels = baseline, subject = run.compared
    rows = []
    for setting in settings_in(run, EAGER):
        v, gain = verdict_at(run, FIGURE4, setting), setting.gain(baseline, subject, WALL_TIME)
        row = {"_under": setting.model} | setting.at | {"paper": v.cell.value if v else None}
        row |= {f"paper_{field}": papers_value(run, setting, field) for field in PAPERS_FIELDS}
        row |= estimate_values("speedup", gain)
        row |= {f"{kernel}_s": setting.scaled(kernel, WALL_TIME, 1e6) for kernel in kernels}
        speeds = {kernel: setting.tokens_per_s(kernel) for kernel in kernels}
        row |= {f"{kernel}_tokens_per_s": e and e.value for kernel, e in speeds.items()}
        row |= estimate_values(f"{subject}_idle_percent", setting.idle_percent(subject))
        why_not = [why for kernel in kernels for why in setting.why_not(kernel, WALL_TIME)]
        rows.append(row | comparison(v, gain, why_not, setting.older(*kernels)))
    columns = [BATCH, *papers_columns("x", "paper", HUNDREDTHS)]
    for head, end in (("s", "s"), ("tok/s", "tokens_per_s")):
        columns.append(Column(f"before {head}", f"{baseline}_{end}", rounded))
        columns.append(Column(f"after {head}", f"{subject}_{end}", rounded))
    columns.append(Column("after idle %", f"{subject}_idle_percent", WHOLE))
    averages = []
    for v in verdicts_of(run, FIGURE4):
        if v.cell.at["batch"] == "average":
            ours = f" {rounded(v.ours)}" if v.ours else ""
            paper = f"(paper {v.cell.value:g}: {sentences.spell(v.verdict)})"
            averages.append(f"{v.cell.at['model']}{ours} {paper}")
    notes = [
        f"Reproduced if {verdicts_of(run, FIGURE4)[0].criterion}.",
        f"Speed-up of {subject} (after) over {baseline} (before) in the time of a generation of "
        f"{tokens_text(run)} tokens per prompt, the prompt included. Idle: of a decoding step, in "
        f"which the GPU waits for the host, so that a faster kernel gains less. {INTERVAL_NOTE} "
        "Intervals are of one process for each model and batch: two may differ by more.",
        f"Average over all batches: {'; '.join(averages)}.",
        f"The paper's own, on its {run.source.gpu}: {'; '.join(papers_figure4(run))}.",
        *absent_kernels(run, *kernels),
    ]
    measured = f"Latency and throughput with {subject} in the place of {baseline}, eager"
    title = f"{measured}: the paper's Figure 4"
    return Table("figure4", title, columns, rows, notes, provenance(run))


def papers_value(run: Run, setting: Setting, field: str) -> float | None:
    names = (name for name, ours in run.source.models.items() if setting.model in ours)
    rows = run.source.table("figure4").get(next(names, ""), {})
    return rows.get(str(setting.batch), {}).get(field)


def papers_figure4(run: Run) -> Iterable[str]:
    """'qwen3-32b at batch 32: 283 to 368 tokens/s', as far as the text gives both ends."""
    for model, rows in run.source.table("figure4").items():
        for batch, fields in rows.items():
            ends = [
                f"{fields[f'baseline_{unit}']:g} to {fields[f'optimized_{unit}']:g} {word}"
                for unit, word in (("s", "s"), ("tokens_per_s", "tokens/s"))
                if f"baseline_{unit}" in fields
            ]
            if ends:
                yield f"{model} at batch {batch}: {', '.join(ends)}"


Headed = list[tuple[str, dict[str, Values]]]  # (heading, its rows by name)


def by_mode(run: Run, row_of: Callable[[Setting], Values]) -> Headed:
    """For each model and batch a row of each decode mode."""
    return [(modes[0].model, {p.mode: row_of(p) for p in modes}) for modes in settings(run)]


def rows_and_data(rows_by_heading: Headed) -> tuple[list[Values], list[Values]]:
    """One shown row for each heading, and all rows."""
    shown = [{"_under": under} | side_by_side(rows) for under, rows in rows_by_heading]
    return shown, [row for _, rows in rows_by_heading for row in rows.values()]


def amdahl_table(run: Run) -> Table:
    """The prediction by share and kernel speed-up, and the measurement; the paper's, too."""
    baseline, subject = run.compared
    paper = f"The paper ({run.source.gpu}), qwen3-32b"
    theirs = [(paper, {EAGER: row}) for row in papers_predictions(run)]
    rows, data = rows_and_data(theirs + by_mode(run, partial(our_prediction, run)))
    columns = by_mode_columns(
        Column("{}: share %", "share_percent", TENTHS),
        Column("kernel x", "kernel_speedup", HUNDREDTHS),
        Column("predicted x", "predicted", HUNDREDTHS),
        Column("measured x (interval)", "_measured", with_interval),
    )
    notes = [
        "Predicted by Amdahl's law: 1 / (1 - share + share / kernel speed-up). Eager: of a "
        "generation. Graph: of a decoding step. Where the host keeps the GPU waiting, less is "
        f"measured than predicted. {MODES_NOTE}",
        *absent_kernels(run, baseline, subject),
    ]
    title = f"Speed-up of {subject} over {baseline}: predicted by Amdahl's law, and measured"
    return Table("amdahl", title, columns, rows, notes, provenance(run), data)


def our_prediction(run: Run, setting: Setting) -> Values:
    """Eager, of a generation; in a graph, of a decoding step."""
    (baseline, subject), part = run.compared, STEP * (setting.mode == GRAPH)
    share = setting.share(baseline, part)
    kernel = setting.gain(baseline, subject, KERNEL_TIME + part)
    row = {"way": setting.mode} | setting.at | {"share_percent": share and share.value}
    row |= {"kernel_speedup": kernel and kernel.value}
    predicted = amdahl(share.value / 100, kernel.value) if share and kernel else None
    row |= {"predicted": predicted}
    measured = setting.gain(baseline, subject, WALL_TIME + part)
    shown = Noted(measured, setting.older(baseline, subject) if measured else ())
    return row | estimate_values("measured", measured) | {"_measured": shown}


def papers_predictions(run: Run) -> Iterable[Values]:
    """Tables I and II side by side, with Figure 4's speed-up where the text gives it."""
    agree = run.decision(AGREE)
    reported = {v.cell.at["batch"]: v.cell.value for v in agree.verdicts}
    shares, model = run.source.table(TABLE1), "qwen3-32b"
    for batch, predicted in predictions(run.source, TABLE1, model).items():
        kernel = run.source.number(f"{KERNEL_SPEEDUP}/{model}/{batch}")
        row = {"way": "paper", "model": model, "batch": batch, "predicted": predicted}
        row |= {"share_percent": shares[str(batch)]["overhead_percent"]}
        row |= {"kernel_speedup": kernel}
        value = reported.get(batch)
        measured = Estimate(*[value] * 3) if value else None
        shown = Noted(measured, text=HUNDREDTHS(value) if value else "")
        yield row | estimate_values("measured", measured) | {"_measured": shown}


def left(run: Run) -> Table:
    """Dequantization's share of the time with faster kernels, and the gain without dequantizing."""
    baseline, subject = run.compared
    kernels = (baseline, subject, OURS, FUSED)

    def row_of(p: Setting) -> Values:
        part = STEP * (p.mode == GRAPH)
        row = p.at | {"way": p.mode}
        row |= {f"{k}_percent": p.dequantizing_percent(k, baseline, part) for k in kernels}
        gain = p.gain(baseline, FUSED, WALL_TIME + part)
        gained = estimate_values(f"{FUSED}_speedup", gain)
        return row | gained | {"_gain": Noted(gain, p.older(baseline, FUSED) if gain else ())}

    rows, data = rows_and_data(by_mode(run, row_of))
    columns = by_mode_columns(
        Column(f"{{}}: {baseline} %", f"{baseline}_percent", TENTHS),
        *(Column(f"with {k} %", f"{k}_percent", TENTHS) for k in kernels[1:]),
        Column(f"{FUSED} x (interval)", "_gain", with_interval),
    )
    notes = [
        f"%: the time of a kernel's dequantizations, in percent of {baseline}'s whole time. With "
        f"{FUSED}, products multiply right from the codes where that is faster; only the prompt's "
        f"dequantizations are left. x: speed-up over {baseline}. Eager: of a generation. Graph: "
        f"of a decoding step. {INTERVAL_NOTE}",
        *absent_kernels(run, *kernels),
    ]
    title = f"Dequantization's share of {baseline}'s time, by kernel"
    return Table("left", title, columns, rows, notes, provenance(run), data)


def qmatmul(run: Run) -> Table:
    """Dequantization's share of the quantized products of a generation."""
    kernels = baseline, _ = run.compared
    (verdict,) = run.decision(QMATMUL).of("end_to_end")
    papers, spelt = verdict.cell, sentences.spell(verdict.verdict)
    headed: Headed = []
    for setting in settings_in(run, EAGER):
        headed.append((setting.model, by_kernel := {}))
        for kernel in kernels:
            row = setting.at | {"kernel": kernel}
            row |= {"paper_percent": papers.value if setting.at == papers.at else None}
            for name, metric in (("dequantize_ms", KERNEL_TIME), ("products_ms", PRODUCT_TIME)):
                row[name] = setting.scaled(kernel, metric, 1e3 * setting.tokens)
            share = setting.matmul_share(kernel)
            why_not = setting.why_not(kernel, KERNEL_TIME) if share is None else ()
            shown = {"_percent": Noted(share, why_not or setting.older(kernel))}
            by_kernel[kernel] = row | estimate_values("percent", share) | shown
    rows, data = rows_and_data(headed)
    columns = [Column("batch", f"{baseline} batch")]
    columns.append(Column("paper %", f"{baseline} paper_percent", TENTHS))
    columns += columns_of(
        kernels,
        Column("{} ms", "dequantize_ms", rounded),
        Column("products ms", "products_ms", rounded),
        Column("% (interval)", "_percent", partial(with_interval, show=TENTHS)),
    )
    notes = [
        f"{papers.text} against the paper's {papers.value:g} %: {spelt} ({verdict.reason}).",
        "ms: in one forward pass, the mean over a generation, prompt included. products: the "
        "kernels right after a dequantization that are of its product. The replay of make "
        "reproduce-table2 has products alone; here attention and the rest run in between. "
        f"{INTERVAL_NOTE}",
        *absent_kernels(run, *kernels),
    ]
    title = "Dequantization's share of quantized matrix products, eager"
    return Table("qmatmul", title, columns, rows, notes, provenance(run), data)


def absent_kernels(run: Run, *kernels: str) -> list[str]:
    """A note on the kernels without rows in this run."""
    ran = {kernel for modes in settings(run) for p in modes for kernel in p.timing}
    lost = [kernel for kernel in kernels if kernel not in ran]
    have = "has" if len(lost) == 1 else "have"
    return [f"{' and '.join(lost)} {have} no row in this run."] if lost else []
