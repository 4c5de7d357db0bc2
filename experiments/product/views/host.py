"""Host time of a 4-bit layer in eager PyTorch, by library, and tokens per second of generate(): the
file of experiments/product/host.py, in the folder of the passes.
"""

from collections.abc import Callable
from typing import Any

from plots.experiments import Run
from records.errors import InputError
from records.json_files import read_json
from records.stats import significant, summarize
from records.tables import Column, Table, Values, rounded

NAME = "host.json"
WAYS = {
    "nn.Linear": "nn.Linear, 16 bits",
    "bitsandbytes": "bitsandbytes",
    "python": "ours, in Python",
    "planned": "ours",
}
UNITS = {"rows": "host_us", "sequences": "tokens_per_s"}  # of the lists of cells in the file
READ_BY = "planned"  # the way whose weights the floor reads


def host_table(run: Run) -> Table | None:
    """Medians with their intervals; None without the file."""
    return made(run, speeds)


def steps_table(run: Run) -> Table | None:
    """Where the time of a decoding step goes; None where it was not measured."""
    return made(run, steps)


def made(run: Run, make: Callable[[dict[str, Any]], Any]) -> Any:
    """What `make` makes of the file's content; None without the file."""
    file = run.first.file.parent / NAME
    if not file.is_file():
        return None
    found = read_json(file)
    try:
        return make(found)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not as experiments.product.host writes it: {error!r}") from error


def speeds(found: dict[str, Any]) -> Table:
    rows = [row(kind, cell, found) for kind in UNITS for cell in ordered(found, kind)]
    columns = [Column("rows or sequences", "batch")]
    columns += [Column(shown, way, wrap=1) for way, shown in WAYS.items()]
    if any("floor" in row for row in rows):
        columns.append(Column("floor, 4 bits", "floor", show=rounded))
    notes = [
        "Medians with their intervals. Host time: of launching a layer's matmul, on an idle GPU; "
        "in Python: without the extension in C. Tokens: of transformers' generate(), which with a "
        "static cache compiles the decoding step of the models that it may. With a dynamic cache "
        "all rows of ours have the same tokens. Floor: each weight is read once per token, at the "
        "bandwidth of a copy.",
        *agreements(found),
        *missing(found),
        origin(found),
    ]
    title = "Host time of one 4-bit layer in eager PyTorch, and generation"
    return Table("host", title, columns, rows, notes)


def steps(found: dict[str, Any]) -> Table | None:
    cells = [cell for cell in ordered(found, "sequences") if "steps" in cell]
    rows = [step(cell, way, found) for cell in cells for way in WAYS if way in cell["steps"]]
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
        "the share of a step in which none is. Floor: each weight is read once, at the bandwidth "
        "of a copy.",
        origin(found),
    ]
    title = "Gaps between the kernels of a decoding step"
    return Table("steps", title, columns, rows, notes) if rows else None


def ordered(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return sorted(found.get(kind, []), key=lambda cell: (under(kind, cell), cell[kind]))


def under(kind: str, cell: dict[str, Any]) -> str:
    """The heading of the cell's rows."""
    scales = "nested scales" if cell["nested"] else "plain scales"
    if kind == "rows":
        return f"host us per layer, {scales}"
    return f"tokens/s of {cell['model']}, {cell['layers']} layers, {scales}, {cell['cache']} cache"


def row(kind: str, cell: dict[str, Any], found: dict[str, Any]) -> Values:
    medians = {way: median(samples) for way, samples in cell[UNITS[kind]].items()}
    floor = {"floor": 1e3 * cell[kind] / ms} if (ms := floor_ms(cell, READ_BY, found)) else {}
    return {"_under": under(kind, cell), "batch": cell[kind]} | medians | floor


def step(cell: dict[str, Any], way: str, found: dict[str, Any]) -> Values:
    us = cell["steps"][way]
    wall, busy = us["wall_us"], us.get("busy_us")
    values = {"_under": under("sequences", cell), "batch": cell["sequences"], "way": WAYS[way]}
    values |= {"wall": wall / 1e3, "floor": floor_ms(cell, way, found)}
    if busy is not None:
        gaps = max(0.0, 100 * (1 - busy / wall))
        values |= {"busy": busy / 1e3, "gaps": gaps, "launches": us["launches"]}
    return values


def floor_ms(cell: dict[str, Any], way: str, found: dict[str, Any]) -> float | None:
    size = cell.get("bytes", {}).get(way)
    return size / found["copy_gb_s"] / 1e6 if size else None


def agreements(found: dict[str, Any]) -> list[str]:
    """How the tokens of a static cache agree with those of a dynamic one."""
    cells = [cell for cell in ordered(found, "sequences") if cell["cache"] == "static"]
    differs = [cell for cell in cells if cell["difference"]]
    same = f"{len(cells) - len(differs)} of {len(cells)}"
    agree = f"The tokens of ours are the same with both caches in {same} cells."
    return [agree, *map(difference, differs)] if cells else []


def difference(cell: dict[str, Any]) -> str:
    found = cell["difference"]
    dynamic, static = (
        " and ".join(f"{logit:.4g}" for logit in found[cache]) for cache in ("dynamic", "static")
    )
    return (
        f"{cell['model']}, static cache: other tokens in {found['sequences']} of "
        f"{cell['sequences']} sequences, first at token {found['token']}; the logits of both "
        f"tokens there: {dynamic} with a dynamic cache, {static} with a static one."
    )


def missing(found: dict[str, Any]) -> list[str]:
    """A line for each way that a model was not measured in."""
    lines = [
        f"{cell['model']}, {WAYS[way]}: not measured: {why}."
        for cell in ordered(found, "sequences")
        for way, why in cell.get("missing", {}).items()
    ]
    return [*dict.fromkeys(lines)]


def origin(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{found['gpu']}, {found['date']}, commit {found['commit'][:10]}; {versions}."


def median(samples: list[float]) -> str:
    found = summarize(samples)
    low, high = found.low, found.high
    return f"{significant(found.median, 3)} ({significant(low, 3)}-{significant(high, 3)})"
