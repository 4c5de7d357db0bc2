"""Tokens per second of generate(), by library: the file of experiments/product/generation.py, in
the folder of the passes.
"""

from collections.abc import Callable
from typing import Any

from plots.experiments import Run
from reprolab.errors import InputError
from reprolab.json_files import read_json, stored
from reprolab.stats import Estimate, Summary, ratio, significant, summarize
from reprolab.tables import Column, Table, Values, rounded

NAME = "generation.json"
DENSE, OWN, OURS = "nn.Linear", "bitsandbytes", "planned"
WAYS = {DENSE: "nn.Linear, 16 bits", OWN: "bitsandbytes", "python": "ours, in Python", OURS: "ours"}
CACHES = {"dynamic": "dynamic cache", "static": "static cache"}
COPY = "each weight is read once per step, at the bandwidth of a copy"

Content = dict[str, Any]  # of the file
Cell = dict[str, Any]


def made(run: Run, make: Callable[[Content], Any]) -> Any:
    """The result of `make` for the file's content; None without the file."""
    file = stored(run.first.file.parent / NAME)
    if not file.is_file():
        return None
    content = read_json(file)
    try:
        return make(content)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file}: not as experiments.product.generation writes it: {error!r}"
        ) from error


def generation_table(run: Run) -> Table | None:
    return made(run, generation)


def steps_table(run: Run) -> Table | None:
    return made(run, steps)


def generation(content: Content) -> Table | None:
    """A row for each number of sequences, with both caches."""
    rows: dict[tuple[str, int], Values] = {}
    for cell in generations(content):
        at = (model_of(cell), cell["sequences"])
        row = rows.setdefault(at, {"_under": at[0], "batch": at[1]})
        row |= {f"{cell['cache']} {name}": value for name, value in speeds_of(cell).items()}
        if ms := floor_ms(cell, OURS, content):
            row["floor"] = 1e3 * cell["sequences"] / ms
    columns = [Column("sequences", "batch")]
    for cache, name in CACHES.items():
        columns += [
            Column(f"{name}: bitsandbytes", f"{cache} {OWN}", wrap=1),
            Column("ours", f"{cache} {OURS}", wrap=1),
            Column("x", f"{cache} x", show=rounded),
            Column("16 bits", f"{cache} {DENSE}", wrap=1),
        ]
    columns.append(Column("floor, 4 bits", "floor", show=rounded))
    columns = [column for column in columns if any(column.of in row for row in rows.values())]
    notes = [
        "Medians with their intervals, of transformers' generate() with the dynamic cache (the "
        "default), and with a static one, for which it compiles the decoding step of models that "
        f"may be compiled. x: ours over bitsandbytes. Floor: {COPY}.",
        *agreements(content),
        *missing(content),
        origin(content),
    ]
    title = "Tokens per second of generate(), models with random weights"
    return Table("generation", title, columns, [*rows.values()], notes) if rows else None


def speeds_of(cell: Cell) -> Values:
    return medians(cell["tokens_per_s"]) | {"x": gain(cell).value}


def gain(cell: Cell) -> Estimate:
    """Ours over bitsandbytes."""
    ours, own = (summarize(cell["tokens_per_s"][way]) for way in (OURS, OWN))
    return ratio(ours, own)


def gain_sentences(run: Run) -> list[str]:
    """'Eager generate() of llama-3.1-8b: ours is 1.46, 1.42 times as fast as ... at 1, 4 ...'"""
    return made(run, gains) or []


def gains(content: Content) -> list[str]:
    lines: dict[str, list[Cell]] = {}
    for cell in generations(content):
        run = f"generate() of {model_of(cell)}, {CACHES[cell['cache']]}"
        lines.setdefault(run, []).append(cell)
    return [
        f"{run}: ours is {', '.join(rounded(gain(c).value) for c in cells)} times as fast as "
        f"bitsandbytes at {', '.join(str(c['sequences']) for c in cells)} sequences."
        for run, cells in lines.items()
    ]


def steps(content: Content) -> Table | None:
    """Where the time of a decoding step goes."""
    cells = [cell for cell in generations(content) if "steps" in cell]
    rows = [step(cell, way, content) for cell in cells for way in WAYS if way in cell["steps"]]
    columns = [
        Column("sequences", "batch"),
        Column("layers", "way", align="l", wrap=1),
        Column("step ms", "wall", show=rounded),
        Column("busy ms", "busy", show=rounded),
        Column("gaps %", "gaps", show=rounded),
        Column("launches", "launches", show=rounded),
        Column("floor ms", "floor", show=rounded),
    ]
    notes = [
        "Busy: a kernel, copy or fill is running, as CUPTI records it in a run of its own; gaps: "
        f"the share of a step in which none is. Floor: {COPY}.",
        origin(content),
    ]
    title = "Gaps between the kernels of a decoding step"
    return Table("steps", title, columns, rows, notes) if rows else None


def step(cell: Cell, way: str, content: Content) -> Values:
    us = cell["steps"][way]
    wall, busy = us["wall_us"], us.get("busy_us")
    under = f"{model_of(cell)}, {CACHES[cell['cache']]}"
    values = {"_under": under, "batch": cell["sequences"], "way": WAYS[way]}
    values |= {"wall": wall / 1e3, "floor": floor_ms(cell, way, content)}
    if busy is not None:
        gaps = max(0.0, 100 * (1 - busy / wall))
        values |= {"busy": busy / 1e3, "gaps": gaps, "launches": us["launches"]}
    return values


def generations(content: Content) -> list[Cell]:
    def order(cell: Cell) -> tuple:
        return model_of(cell), cell["cache"], cell["sequences"]

    return sorted(content.get("sequences", []), key=order)


def model_of(cell: Cell) -> str:
    model = f"{cell['model']}, {cell['layers']} layers, {scales(cell)}"
    return f"{model}, {cell['tokens']} new tokens"


def scales(cell: Cell) -> str:
    return "nested scales" if cell["nested"] else "plain scales"


def floor_ms(cell: Cell, way: str, content: Content) -> float | None:
    size = cell.get("bytes", {}).get(way)
    return size / content["copy_gb_s"] / 1e6 if size else None


def agreements(content: Content) -> list[str]:
    """How the tokens of the ways of ours, and of both caches, agree."""
    cells = generations(content)
    other = [cell for cell in cells if not cell.get("same", True)]
    lines = [f"{place(cell)}: ours in C has other tokens than in Python." for cell in other]
    static = [cell for cell in cells if cell["cache"] == "static"]
    differs = [cell for cell in static if cell["difference"]]
    if static:
        same = f"{len(static) - len(differs)} of {len(static)}"
        lines.append(f"The tokens of ours are the same with both caches in {same} cells.")
    return [*lines, *map(difference, differs)]


def place(cell: Cell) -> str:
    return f"{model_of(cell)}, {cell['sequences']} sequences"


def difference(cell: Cell) -> str:
    first = cell["difference"]
    dynamic, static = (
        " and ".join(f"{logit:.4g}" for logit in first[cache]) for cache in ("dynamic", "static")
    )
    return (
        f"{place(cell)}, static cache: other tokens in {first['sequences']}, first at token "
        f"{first['token']}; the logits of both tokens there: {dynamic} with the dynamic cache, "
        f"{static} with a static one."
    )


def missing(content: Content) -> list[str]:
    """A line for each way that a model was not measured in."""
    lines = [
        f"{cell['model']}, {WAYS[way]}: not measured: {why}."
        for cell in generations(content)
        for way, why in cell.get("missing", {}).items()
    ]
    return [*dict.fromkeys(lines)]


def origin(content: Content) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    return f"{content['gpu']}, {content['date']}, commit {content['commit'][:10]}; {versions}."


def medians(samples: dict[str, list[float]]) -> Values:
    return {way: shown(summarize(values)) for way, values in samples.items()}


def shown(summary: Summary) -> str:
    low, high = significant(summary.low, 3), significant(summary.high, 3)
    return f"{significant(summary.median, 3)} ({low}-{high})"
