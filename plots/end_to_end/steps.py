"""Tables of decoding steps: every kernel, eager and in a graph, and bitsandbytes' newest way."""

from collections.abc import Sequence

from claims.end_to_end import EAGER, GRAPH, WALL_TIME, generated
from plots.bandwidth import estimate_values
from plots.captions import outcome_words
from plots.end_to_end.rows import BUSY_TIME, OURS, STEP, Setting, both, scaled, settings
from plots.end_to_end.tables import (
    MODES_NOTE,
    WHOLE,
    number,
    per_model,
    provenance,
    shown_together,
    with_interval,
)
from plots.experiments import Run
from plots.tables import KERNEL, WORDS, Column, Noted, Table, Values, side_by_side
from records.results import Record
from records.stats import INTERVAL_NOTE, Estimate


def steps(run: Run) -> Table:
    """Every kernel, eager and in the graph."""
    baseline, _ = run.compared
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for eager in settings(run):
        group = groups.setdefault(f"{eager.model}, batch {eager.batch}", [])
        modes = both(run, eager)
        for kernel in eager.kernels:
            rows = {setting.mode: step_values(setting, kernel, baseline) for setting in modes}
            tokens = tokens_of([setting for setting in modes if kernel in setting.timing], kernel)
            group.append({"kernel": kernel, "_tokens": tokens} | side_by_side(rows))
            data += rows.values()
    columns: list[Column] = [KERNEL]
    for mode in (EAGER, GRAPH):
        columns += [
            Column(f"{mode} tok/s", f"{mode} tokens_per_s", number, wrap=1),
            Column("step ms", f"{mode} step_ms", number, wrap=1),
            Column("x", f"{mode} _speedup", times, wrap=1),
            Column("idle %", f"{mode} idle_percent", WHOLE, wrap=1),
        ]
    columns.append(Column("tokens", "_tokens", **WORDS))
    notes = [
        f"{MODES_NOTE} tok/s: of a generation with its prompt. x: speed-up of a decoding step over "
        f"{baseline}; no diff.: the intervals overlap. idle: of a decoding step, in which the GPU "
        f"runs nothing; eager, it waits for the host. What runs is timed in a pass of its own"
        f"{longer(run)}. tokens: compared with {baseline}'s.",
        "bitsandbytes' own row is as it is installed; in fused rows each product takes the way "
        "that is the fastest by measured times; under every other, all products dequantize. "
        f"{INTERVAL_NOTE}",
        *slow_host(run),
    ]
    title = "A decoding step with each kernel, eager and in one CUDA graph"
    return Table("steps", title, columns, groups, notes, provenance(run), data)


def step_values(setting: Setting, kernel: str, baseline: str) -> Values:
    gain = setting.gain(baseline, kernel, WALL_TIME + STEP)
    found = setting.at | {"kernel": kernel, "way": setting.mode}
    found |= estimate_values("tokens_per_s", setting.tokens_per_s(kernel))
    found |= {"step_ms": scaled(setting.time(kernel, WALL_TIME + STEP), 1e3)}
    found |= estimate_values("speedup", gain)
    found |= {"_speedup": None if kernel == baseline else gain}
    return found | estimate_values("idle_percent", setting.idle_percent(kernel))


def times(gain: Estimate) -> str:
    """A speed-up; where the intervals overlap, that no difference was seen."""
    if not gain.differs_from_one:
        return "no diff."
    text = f"{gain.value:.2f}"
    return f"{gain.value:.4f}" if text == "1.00" else text


def longer(run: Run) -> str:
    """By how much recording makes what runs longer, where nothing else can: in graphs."""
    graphs = [(p, k) for p in settings(run, GRAPH) for k in p.kernels]
    most = max((e.value - 100 for p, k in graphs if (e := p.busy_percent(k))), default=0.0)
    return f", which makes it up to {most:.1f} % longer: so much more may be idle" * (most > 0)


def tokens_of(modes: Sequence[Setting], kernel: str) -> Noted:
    """What became of the kernel's tokens, in both modes where they differ, and why they have no
    time or may differ.
    """
    said = {setting.mode: said_of(setting.timing[kernel]) for setting in modes}
    if len(set(said.values())) == 1:
        text = next(iter(said.values()))
    else:
        text = ", ".join(f"{mode}: {words}" for mode, words in said.items())
    declared = [r.deviation for r in (p.timing[kernel] for p in modes) if r.deviates]
    notes = [f"{kernel}: {deviation}" for deviation in declared]
    notes += [why for setting in modes for why in setting.why_not(kernel, WALL_TIME, BUSY_TIME)]
    return Noted(None, tuple(dict.fromkeys(notes)), text=text)


def said_of(record: Record) -> str:
    """What is said of exactness: of outputs, tokens alone were compared."""
    if record.deviates and record.mismatches is not None:
        tokens = record.problem["batch"] * generated(record)
        return f"{record.mismatches} of {tokens} differ"
    return "the same" if record.outcome == "bit_exact" else outcome_words(record)


def slow_host(run: Run) -> list[str]:
    """A note, where times were kept that a slow host made longer."""
    kept = [record for record in run["timing"].records if record.disturbed]
    if not kept:
        return []
    count = sum(record.disturbed for record in kept)
    return [f"{count} samples of {len(kept)} rows were taken while the host was seen to be slow."]


def newest(run: Run) -> Table:
    """Our fastest kernel against bitsandbytes as it is installed."""

    def row(setting: Setting) -> Values:
        gain = setting.gain(setting.installed, OURS, WALL_TIME + STEP)
        share = setting.dequantizing_percent(setting.installed)
        found = setting.at | {"way": setting.mode, "own_dequantizing_percent": share}
        found |= estimate_values("step_speedup", gain) | {"_gain": gain}
        for name, kernel in (("_own_ms", setting.installed), ("_our_ms", OURS)):
            found[name] = scaled(setting.time(kernel, WALL_TIME + STEP), 1e3)
        whole = setting.gain(setting.installed, OURS, WALL_TIME)
        return found | estimate_values("generation_speedup", whole)

    rows = per_model(run, lambda eager: {p.mode: row(p) for p in both(run, eager)})
    groups, data = shown_together(rows)
    columns = [Column("batch", f"{EAGER} batch")]
    for mode in (EAGER, GRAPH):
        columns += [
            Column(f"{mode}: own ms", f"{mode} _own_ms", number),
            Column("deq. %", f"{mode} own_dequantizing_percent", WHOLE),
            Column(f"{OURS} ms", f"{mode} _our_ms", number),
            Column("x (interval)", f"{mode} _gain", with_interval(2)),
        ]
    own = next((p.installed for p in settings(run)), None) or "bitsandbytes"
    notes = [
        f"A decoding step of {own}, as it is installed, over that with {OURS} under it and all "
        "products dequantizing (install(products='dequantize')): below 1, bitsandbytes' "
        "own way is the faster. deq.: the part of its own step in which it dequantizes, of which "
        f"install() alone can save some. {INTERVAL_NOTE}"
    ]
    title = f"{OURS} against {own}"
    return Table("newest", title, columns, groups, notes, provenance(run), data)
