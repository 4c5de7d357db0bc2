"""Tables of decoding steps: every kernel, eager and in a graph, and bitsandbytes' newest way."""

from collections.abc import Sequence

from claims.end_to_end import EAGER, GRAPH, WALL_TIME
from claims.results import Record
from claims.stats import INTERVAL_NOTE, Estimate
from plots.bandwidth import estimate_values
from plots.captions import outcome_words
from plots.end_to_end.rows import BUSY_TIME, OURS, STEP, Place, both, compared, places, scaled
from plots.end_to_end.tables import (
    WAYS_NOTE,
    WHOLE,
    number,
    per_model,
    provenance,
    shown_together,
    side_by_side,
    with_interval,
)
from plots.experiments import Run
from plots.tables import KERNEL, WORDS, Column, Noted, Table, Values


def steps(run: Run) -> Table:
    """Every kernel, eager and in the graph."""
    baseline, _ = compared(run)
    groups: dict[str, list[Values]] = {}
    data: list[Values] = []
    for eager in places(run):
        group = groups.setdefault(f"{eager.model}, batch {eager.batch}", [])
        ways = both(run, eager)
        for kernel in eager.kernels:
            rows = {place.way: step_values(place, kernel, baseline) for place in ways}
            tokens = tokens_of([place for place in ways if kernel in place.timing], kernel)
            group.append({"kernel": kernel, "_tokens": tokens} | side_by_side(rows))
            data += rows.values()
    columns: list[Column] = [KERNEL]
    for way in (EAGER, GRAPH):
        columns += [
            Column(f"{way} tok/s", f"{way} tokens_per_s", number, wrap=1),
            Column("step ms", f"{way} step_ms", number, wrap=1),
            Column("x", f"{way} _speedup", times, wrap=1),
            Column("idle %", f"{way} idle_percent", WHOLE, wrap=1),
        ]
    columns.append(Column("tokens", "_tokens", **WORDS))
    notes = [
        f"{WAYS_NOTE} tok/s: of a generation with its prompt. x: speed-up of a decoding step over "
        f"{baseline}; no diff.: the intervals overlap. idle: of a decoding step, in which the GPU "
        f"runs nothing; eager, it waits for the host. What runs is timed in a pass of its own"
        f"{longer(run)}. tokens: compared with {baseline}'s.",
        f"bitsandbytes' own row is as it is installed; under every other, all products dequantize. "
        f"{INTERVAL_NOTE}",
    ]
    title = "A decoding step with each kernel, eager and in one CUDA graph"
    return Table.of("steps", title, columns, groups, notes, provenance(run), data)


def step_values(place: Place, kernel: str, baseline: str) -> Values:
    gain = place.gain(baseline, kernel, WALL_TIME + STEP)
    found = place.at | {"kernel": kernel, "way": place.way}
    found |= estimate_values("tokens_per_s", place.tokens_per_s(kernel))
    found |= {"step_ms": scaled(place.time(kernel, WALL_TIME + STEP), 1e3)}
    found |= estimate_values("speedup", gain)
    found |= {"_speedup": None if kernel == baseline else gain}
    return found | estimate_values("idle_percent", place.idle_percent(kernel))


def times(gain: Estimate) -> str:
    """A speed-up; where the intervals overlap, that no difference was seen."""
    if not gain.differs_from_one:
        return "no diff."
    text = f"{gain.value:.2f}"
    return f"{gain.value:.4f}" if text == "1.00" else text


def longer(run: Run) -> str:
    """By how much recording makes what runs longer, where nothing else can: in graphs."""
    graphs = [(p, k) for p in places(run, GRAPH) for k in p.kernels]
    most = max((e.value - 100 for p, k in graphs if (e := p.busy_percent(k))), default=0.0)
    return f", which makes it up to {most:.1f} % longer: so much more may be idle" * (most > 0)


def tokens_of(ways: Sequence[Place], kernel: str) -> Noted:
    """What became of the kernel's tokens, in both ways where they differ, and why they have no
    time or may differ.
    """
    said = {place.way: said_of(place.timing[kernel]) for place in ways}
    if len(set(said.values())) == 1:
        text = next(iter(said.values()))
    else:
        text = ", ".join(f"{way}: {words}" for way, words in said.items())
    declared = [r.deviation for r in (p.timing[kernel] for p in ways) if r.deviates]
    notes = [f"{kernel}: {deviation}" for deviation in declared]
    notes += [why for place in ways for why in place.why_not(kernel, WALL_TIME, BUSY_TIME)]
    return Noted(None, tuple(dict.fromkeys(notes)), text=text)


def said_of(record: Record) -> str:
    """Of outputs, tokens alone were compared."""
    if record.deviates and record.mismatches is not None:
        tokens = record.problem["batch"] * record.problem["tokens"]
        return f"{record.mismatches} of {tokens} differ"
    return "the same" if record.outcome == "bit_exact" else outcome_words(record)


def newest(run: Run) -> Table:
    """Our fastest kernel against bitsandbytes as it is installed."""

    def row(place: Place) -> Values:
        gain = place.gain(place.installed, OURS, WALL_TIME + STEP)
        share = place.dequantizing_percent(place.installed)
        found = place.at | {"way": place.way, "own_dequantizing_percent": share}
        found |= estimate_values("step_speedup", gain) | {"_gain": gain}
        for name, kernel in (("_own_ms", place.installed), ("_our_ms", OURS)):
            found[name] = scaled(place.time(kernel, WALL_TIME + STEP), 1e3)
        whole = place.gain(place.installed, OURS, WALL_TIME)
        return found | estimate_values("generation_speedup", whole)

    rows = per_model(run, lambda eager: {p.way: row(p) for p in both(run, eager)})
    groups, data = shown_together(rows)
    columns = [Column("batch", f"{EAGER} batch")]
    for way in (EAGER, GRAPH):
        columns += [
            Column(f"{way}: own ms", f"{way} _own_ms", number),
            Column("deq. %", f"{way} own_dequantizing_percent", WHOLE),
            Column(f"{OURS} ms", f"{way} _our_ms", number),
            Column("x (interval)", f"{way} _gain", with_interval(2)),
        ]
    own = next((p.installed for p in places(run)), None) or "bitsandbytes"
    notes = [
        f"A decoding step of {own}, as it is installed, over that with {OURS} under it and all "
        "products dequantizing, as by dropin.install(dequantize_from=1): below 1, bitsandbytes' "
        "own way is the faster. deq.: the part of its own step in which it dequantizes, of which "
        f"dropin.install() alone can save some. {INTERVAL_NOTE}"
    ]
    title = f"{OURS} against {own}"
    return Table.of("newest", title, columns, groups, notes, provenance(run), data)
