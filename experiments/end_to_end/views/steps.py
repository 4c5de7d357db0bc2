"""Tables of decoding steps: with every kernel, and against the installed bitsandbytes."""

from collections.abc import Sequence

from experiments.end_to_end.protocol import EAGER, GRAPH, STEP_TIME, WALL_TIME
from experiments.end_to_end.rules import generated_tokens
from experiments.end_to_end.views.rows import (
    BUSY_TIME,
    FUSED,
    OURS,
    STEP,
    Setting,
    settings,
    settings_in,
)
from experiments.end_to_end.views.tables import (
    MODES_NOTE,
    WHOLE,
    absent_kernels,
    by_mode,
    by_mode_columns,
    provenance,
    rows_and_data,
)
from plots.bandwidth import estimate_values, with_interval
from plots.experiments import Run
from reprolab.captions import outcome_words
from reprolab.results import Outcome, Record
from reprolab.stats import INTERVAL_NOTE, Estimate
from reprolab.tables import (
    KERNEL,
    WORDS,
    Column,
    Noted,
    Table,
    Values,
    columns_of,
    rounded,
    side_by_side,
)

INSTALLED_ROW = "bitsandbytes as it is installed"  # where no row names its version


def steps(run: Run) -> Table:
    """Every kernel, eager and in the graph."""
    baseline, _ = run.compared
    rows, data = [], []
    for modes in settings(run):
        under = f"{modes[0].model}, batch {modes[0].batch}"
        for kernel in modes[0].timing:
            values_by_mode = {p.mode: step_values(p, kernel, baseline) for p in modes}
            row = {"_under": under, "kernel": kernel, "_tokens": tokens_of(modes, kernel)}
            rows.append(row | side_by_side(values_by_mode))
            data += values_by_mode.values()
    mode_columns = columns_of(
        (EAGER, GRAPH),
        Column("{} tok/s", "tokens_per_s", rounded, wrap=1),
        Column("step ms", "step_ms", rounded, wrap=1),
        Column("x", "_speedup", times, wrap=1),
        Column("idle %", "idle_percent", WHOLE, wrap=1),
    )
    columns = [KERNEL, *mode_columns, Column("tokens", "_tokens", **WORDS)]
    # In graphs, recording alone makes the busy time longer than the step.
    busy = [e for p in settings_in(run, GRAPH) for k in p.timing if (e := p.busy_percent(k))]
    most = max((e.value - 100 for e in busy), default=0.0)
    longer = f", which makes it up to {most:.1f} % longer: so much more may be idle" * (most > 0)
    notes = [
        f"{MODES_NOTE} tok/s: of a generation with its prompt. x: speed-up of a decoding step over "
        f"{baseline}; no diff.: the intervals overlap. idle: of a decoding step, in which the GPU "
        f"runs nothing; eager, it waits for the host. Busy time is measured in a separate pass"
        f"{longer}. tokens: compared with {baseline}'s.",
        "bitsandbytes' own row is as it is installed; in fused rows each product takes the way "
        "that is the fastest by measured times; under every other, all products dequantize. "
        f"{INTERVAL_NOTE}",
    ]
    notes += slow_host_note(run)
    title = "A decoding step with each kernel, eager and in one CUDA graph"
    return Table("steps", title, columns, rows, notes, provenance(run), data)


def step_values(setting: Setting, kernel: str, baseline: str) -> Values:
    gain = setting.gain(baseline, kernel, STEP_TIME)
    values = setting.at | {"kernel": kernel, "way": setting.mode}
    values |= estimate_values("tokens_per_s", setting.tokens_per_s(kernel))
    values |= {"step_ms": setting.scaled(kernel, STEP_TIME, 1e3)}
    marks = setting.older(kernel)
    values |= {name: Noted(values[name], marks) for name in ("tokens_per_s", "step_ms") if marks}
    values |= estimate_values("speedup", gain)
    values |= {"_speedup": None if kernel == baseline else Noted(gain, marks if gain else ())}
    return values | estimate_values("idle_percent", setting.idle_percent(kernel))


def times(gain: Estimate) -> str:
    """A speed-up; where the intervals overlap, that no difference was seen."""
    if not gain.differs_from_one:
        return "no diff."
    text = f"{gain.value:.2f}"
    return f"{gain.value:.4f}" if text == "1.00" else text


def tokens_of(modes: Sequence[Setting], kernel: str) -> Noted:
    """The outcome of a kernel's tokens, by mode where it differs, and the reasons."""
    ran = [p for p in modes if kernel in p.timing]
    words_of = {p.mode: outcome_text(p.timing[kernel]) for p in ran}
    text = ", ".join(f"{mode}: {words}" for mode, words in words_of.items())
    if len(set(words_of.values())) == 1:
        text = words_of[ran[0].mode]
    rows = [p.timing[kernel] for p in ran]
    notes = [f"{kernel}: {r.deviation}" for r in rows if r.deviates]
    notes += [why for p in ran for why in p.why_not(kernel, WALL_TIME, BUSY_TIME)]
    return Noted(None, tuple(dict.fromkeys(notes)), text=text)


def outcome_text(record: Record) -> str:
    """The outcome of comparing the tokens, which are the only outputs that were compared."""
    if record.deviates and record.mismatches is not None:
        tokens = record.problem["batch"] * generated_tokens(record)
        return f"{record.mismatches} of {tokens} differ"
    return "the same" if record.outcome == Outcome.BIT_EXACT else outcome_words(record)


def newest(run: Run) -> Table:
    """Our fastest kernel, and products right from the codes, against bitsandbytes as installed."""

    def row_of(p: Setting) -> Values:
        share = p.dequantizing_percent(p.installed, p.installed, STEP)
        row = p.at | {"way": p.mode, "own_dequantizing_percent": share}
        row["own_step_ms"] = p.scaled(p.installed, STEP_TIME, 1e3)
        for kernel in (OURS, FUSED):
            gain = p.gain(p.installed, kernel, STEP_TIME)
            both = (p.installed or "", kernel)
            why_not = [] if gain else [why for k in both for why in p.why_not(k, STEP_TIME)]
            marks = tuple(why_not) + (p.older(*both) if gain else ())
            row |= {f"_{kernel}": Noted(gain, marks)}
            row |= {f"{kernel}_step_ms": p.scaled(kernel, STEP_TIME, 1e3)}
            row |= estimate_values(f"{kernel}_step_speedup", gain)
            whole = p.gain(p.installed, kernel, WALL_TIME)
            row |= estimate_values(f"{kernel}_generation_speedup", whole)
        return row

    rows, data = rows_and_data(by_mode(run, row_of))
    columns = by_mode_columns(
        Column("{} own deq. %", "own_dequantizing_percent", WHOLE),
        *(Column(f"{k} x (interval)", f"_{k}", with_interval) for k in (OURS, FUSED)),
    )
    own = installed_name(run)
    notes = [
        f"x: how many times as long a decoding step takes with {own}, as it is installed, as in "
        f"our way; below 1, ours is the slower. {OURS}: all products dequantize, with it under "
        f"them (install(products='dequantize')). {FUSED}: each product in the fastest way by "
        "measured times (install()). deq.: the part of its own step in which it dequantizes, of "
        f"which install(products='bitsandbytes') saves some. {INTERVAL_NOTE}",
        *absent_kernels(run, own, OURS, FUSED),
        *slow_host_note(run),
    ]
    title = f"{OURS} and {FUSED} against {own}"
    return Table("newest", title, columns, rows, notes, provenance(run), data)


def installed_name(run: Run) -> str:
    """The name of bitsandbytes as it is installed, with its version where a row has it."""
    return next((p.installed for p in settings_in(run, EAGER) if p.installed), INSTALLED_ROW)


def slow_host_note(run: Run) -> list[str]:
    kept = [record.disturbed for record in run["timing"].records if record.disturbed]
    seen = f"{sum(kept)} eager samples of {len(kept)} rows"
    return [f"{seen} were taken while the host was seen to be slow."] if kept else []
