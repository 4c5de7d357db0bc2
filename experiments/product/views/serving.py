"""The time of a layer under vLLM's plugin for bitsandbytes: `requests` in a file of
experiments/product/host.py, in the folder of the passes.
"""

from experiments.product.views.host import OURS, OWN, Cell, Content, made, medians, origin
from plots.experiments import Run
from reprolab.stats import ratio, summarize
from reprolab.tables import Column, Table, Values, rounded

NAME, SHARDS = "serving.json", "shards"
PARTS = {
    "qkv": "q, k and v",
    "gate_up": "gate and up",
    "layer": "all linear layers of one decoder layer",
}


def serving_table(run: Run) -> Table | None:
    return made(run, serving, NAME)


def serving(content: Content) -> Table | None:
    cells = sorted(content.get("requests", []), key=place)
    columns = [
        Column("requests", "requests"),
        Column("bitsandbytes", OWN, wrap=1),
        Column("ours, a launch per shard", SHARDS, wrap=1),
        Column("ours", OURS, wrap=1),
        Column("x", "gain", show=rounded),
        Column("one launch x", "joined", show=rounded),
    ]
    title = "Linear layers under vLLM's plugin for bitsandbytes, in a CUDA graph, in us"
    notes = [*notes_of(cells), *map(fault, cells)]
    notes = [note for note in notes if note]
    return (
        Table("serving", title, columns, [*map(row, cells)], [*notes, origin(content)])
        if cells
        else None
    )


def place(cell: Cell) -> tuple:
    return cell["model"], [*PARTS].index(cell["part"]), cell["requests"]


def row(cell: Cell) -> Values:
    """A way with wrong outputs has no time."""
    summaries = {way: summarize(us) for way, us in cell["us"].items()}
    values = {"_under": under(cell), "requests": cell["requests"]} | medians(cell["us"])
    for name, way in (("gain", OWN), ("joined", SHARDS)):
        if {way, OURS} <= set(summaries):
            values[name] = ratio(summaries[way], summaries[OURS]).value
    return values


def under(cell: Cell) -> str:
    return f"{cell['model']}, {PARTS[cell['part']]}"


def fault(cell: Cell) -> str:
    wrong = "; ".join(f"{way}: {why}" for way, why in cell["wrong"].items())
    return f"{under(cell)}, {cell['requests']} requests: wrong outputs: {wrong}." if wrong else ""


def notes_of(cells: list[Cell]) -> list[str]:
    plugins = sorted({cell["plugin"] for cell in cells})
    alone = "" if all(cell["has_vllm"] for cell in cells) else ", without vLLM itself"
    return [
        "Medians with their intervals, of the linear layers of vllm-bnb-plugin "
        f"{', '.join(plugins)}{alone}: bf16, plain scales, one GPU. x: bitsandbytes over ours; one "
        "launch x: ours in a launch for each of q, k and v, or gate and up, over ours in one.",
        "A graph has the linear layers alone, of which ours start before the previous one has "
        "ended; in an engine other kernels are between them.",
    ]
