"""What a 4-bit layer costs the host in eager PyTorch, by library, and eager generate(): the file of
experiments/product/host.py, beside those of the passes.
"""

from typing import Any

from plots.experiments import Run
from records.errors import InputError
from records.json_files import read_json
from records.stats import significant, summarize
from records.tables import Column, Table, Values

NAME = "host.json"
WAYS = {
    "nn.Linear": "nn.Linear, 16 bits",
    "bitsandbytes": "bitsandbytes",
    "python": "ours, in Python",
    "planned": "ours",
}
# By the list in the file: what a row is of, and what was measured.
MEASURED = {
    "rows": ("host us per layer", "host_us"),
    "sequences": ("tokens/s, eager generate() of a Llama of 8B shapes", "tokens_per_s"),
}


def host_table(run: Run) -> Table | None:
    """Medians with their intervals; None without the file."""
    file = run.first.file.parent / NAME
    if not file.is_file():
        return None
    found = read_json(file)
    try:
        rows = [row(kind, cell) for kind in MEASURED for cell in ordered(found, kind)]
        facts = f"{found['gpu']}, {found['date']}, commit {found['commit'][:10]}"
        versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not as experiments.product.host writes it: {error}") from error
    columns = [Column("rows or sequences", "batch")]
    columns += [Column(shown, name, wrap=1) for name, shown in WAYS.items()]
    notes = [
        "Medians with their intervals. Host time: of launching a layer's product, on an idle GPU; "
        "in Python: without the extension in C. Tokens: of generate() without CUDA graphs, the "
        "same in all rows of ours.",
        f"{facts}; {versions}.",
    ]
    title = "Host time of one 4-bit layer in eager PyTorch, and eager generation"
    return Table("host", title, columns, rows, notes)


def ordered(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return sorted(found.get(kind, []), key=lambda cell: cell[kind])


def row(kind: str, cell: dict[str, Any]) -> Values:
    title, unit = MEASURED[kind]
    medians = {name: median(samples) for name, samples in cell[unit].items()}
    return {"_under": title, "batch": cell[kind]} | medians


def median(samples: list[float]) -> str:
    found = summarize(samples)
    low, high = found.low, found.high
    return f"{significant(found.median, 3)} ({significant(low, 3)}-{significant(high, 3)})"
