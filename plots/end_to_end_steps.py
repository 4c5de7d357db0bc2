"""Tables of decoding steps: every kernel, eager and in a graph, and bitsandbytes' newest way."""

from collections.abc import Sequence

from claims.end_to_end import EAGER, GRAPH, WALL_TIME
from claims.results import Record
from claims.stats import INTERVAL_NOTE
from plots.captions import outcome_words
from plots.end_to_end_rows import BUSY_TIME, OURS, STEP, Place, compared, places
from plots.end_to_end_tables import (
    WAYS_NOTE,
    estimate_columns,
    median,
    number,
    per_model,
    provenance,
    times,
    with_interval,
)
from plots.experiments import Run
from plots.tables import KERNEL, NONE, Cell, Column, Group, Row, Table, numbers, words


def steps(run: Run) -> Table:
    """Every kernel, eager and in the graph."""
    baseline, _ = compared(run)
    rows: list[Row | Group] = []
    data: list[dict[str, object]] = []
    graphs = {(p.model, p.batch): p for p in places(run, GRAPH)}
    for eager in places(run):
        rows.append(Group(f"{eager.model}, batch {eager.batch}"))
        graph = graphs.get((eager.model, eager.batch))
        for kernel in eager.kernels:
            cells: list[Cell | str] = []
            for place in filter(None, (eager, graph)):
                speed, idle = place.tokens_per_s(kernel), place.idle_percent(kernel)
                step = place.time(kernel, WALL_TIME + STEP)
                gain = place.gain(baseline, kernel, WALL_TIME + STEP)
                cells += [number(speed.value if speed else None), median(step, 1e3)]
                cells += [NONE if kernel == baseline else times(gain)]
                cells += [NONE if idle is None else f"{idle.value:.0f}"]
                found = place.at | {"kernel": kernel, "way": place.way}
                found |= estimate_columns("tokens_per_s", speed)
                found |= {"step_ms": step and step.median / 1e3}
                found |= estimate_columns("speedup", gain) | estimate_columns("idle_percent", idle)
                data.append(found)
            cells += [NONE] * (9 - 1 - len(cells))
            ways = [place for place in (eager, graph) if place and kernel in place.timing]
            rows.append([kernel, *cells, tokens_cell(ways, kernel)])
    columns: list[Column] = [KERNEL]
    for way in (EAGER, GRAPH):
        columns += numbers(f"{way} tok/s", "step ms", "x", "idle %", wrap=1)
    columns += words("tokens")
    notes = [
        f"{WAYS_NOTE} tok/s: of a generation with its prompt. x: speed-up of a decoding step over "
        f"{baseline}; no diff.: the intervals overlap. idle: of a decoding step, in which the GPU "
        f"runs nothing; eager, it waits for the host. What runs is timed in a pass of its own"
        f"{longer(run)}. tokens: compared with {baseline}'s.",
        f"bitsandbytes' own row is as it is installed; under every other, all products dequantize. "
        f"{INTERVAL_NOTE}",
    ]
    title = "A decoding step with each kernel, eager and in one CUDA graph"
    return Table("steps", title, columns, rows, data, notes, provenance(run))


def longer(run: Run) -> str:
    """By how much recording makes what runs longer, where nothing else can: in graphs."""
    graphs = [(p, k) for p in places(run, GRAPH) for k in p.kernels]
    most = max((e.value - 100 for p, k in graphs if (e := p.busy_percent(k))), default=0.0)
    return f", which makes it up to {most:.1f} % longer: so much more may be idle" * (most > 0)


def tokens_cell(ways: Sequence[Place], kernel: str) -> Cell:
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
    return Cell(text, tuple(dict.fromkeys(notes)))


def said_of(record: Record) -> str:
    """Of outputs, tokens alone were compared."""
    if record.deviates and record.mismatches is not None:
        tokens = record.problem["batch"] * record.problem["tokens"]
        return f"{record.mismatches} of {tokens} differ"
    return "the same" if record.outcome == "bit_exact" else outcome_words(record)


def newest(run: Run) -> Table:
    """Our fastest kernel against bitsandbytes as it is installed."""
    data: list[dict[str, object]] = []
    graphs = {(p.model, p.batch): p for p in places(run, GRAPH)}

    def row(eager: Place) -> Row:
        cells: list[Cell | str] = [str(eager.batch)]
        for place in filter(None, (eager, graphs.get((eager.model, eager.batch)))):
            gain = place.gain(place.installed, OURS, WALL_TIME + STEP)
            whole = place.gain(place.installed, OURS, WALL_TIME)
            steps = [place.time(k, WALL_TIME + STEP) for k in (place.installed, OURS)]
            share = place.dequantizing_percent(place.installed)
            cells += [median(steps[0], 1e3), NONE if share is None else f"{share:.0f}"]
            cells += [median(steps[1], 1e3), with_interval(gain, 2)]
            found = place.at | {"way": place.way, "own_dequantizing_percent": share}
            found |= estimate_columns("step_speedup", gain)
            data.append(found | estimate_columns("generation_speedup", whole))
        return cells + [NONE] * (9 - len(cells))

    columns = numbers("batch")
    for way in (EAGER, GRAPH):
        columns += numbers(f"{way}: own ms", "deq. %", f"{OURS} ms", "x (interval)")
    own = next((p.installed for p in places(run)), None) or "bitsandbytes"
    notes = [
        f"A decoding step of {own}, as it is installed, over that with {OURS} under it and all "
        "products dequantizing, as by dropin.install(dequantize_from=1): below 1, bitsandbytes' "
        "own way is the faster. deq.: the part of its own step in which it dequantizes, of which "
        f"dropin.install() alone can save some. {INTERVAL_NOTE}"
    ]
    title = f"{OURS} against {own}"
    return Table("newest", title, columns, per_model(run, row), data, notes, provenance(run))
