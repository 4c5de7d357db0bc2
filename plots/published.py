"""The sources' numbers (data/published/published.json)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plots.errors import InputError
from plots.nodes import read_json

# The paper says Gemma 27B without saying which, so both are compared with it.
PAPER_NAME = {
    "gemma-2-27b": "gemma-27b",
    "gemma-3-27b": "gemma-27b",
    "qwen3-32b": "qwen3-32b",
    "llama-3.3-70b": "llama-3.3-70b",
}
MODELS = tuple(PAPER_NAME)


@dataclass(frozen=True)
class Published:
    """The paper's Table II: speed-ups of the shared-memory table over bitsandbytes 0.47.0."""

    gpu: str
    clock_mhz: float
    batches: tuple[int, ...]
    speedups: dict[str, tuple[float, ...]]  # the paper's model name -> one for each batch
    averages: dict[str, float]
    claims: dict[str, dict[str, Any]]  # by id, of all sources

    def speedup(self, model: str, batch: int) -> float:
        return self.speedups[PAPER_NAME[model]][self.batches.index(batch)]

    def average(self, model: str) -> float:
        return self.averages[PAPER_NAME[model]]

    def value(self, claim: str) -> float | None:
        """The number that a claim gives, in its own unit; None where it gives none."""
        return self.claims.get(claim, {}).get("value")

    def cell(self, claim: str) -> tuple[str, int] | None:
        """The model and the batch that a claim is about; None where it is about none."""
        cell = self.claims.get(claim, {}).get("cell")
        return (cell["model"], cell["batch"]) if cell else None


def load_published(file: Path) -> Published:
    root = read_json(file)
    paper = root.child("paper")
    table, setup = paper.child("table2_speedup"), paper.child("setup")
    columns, rows = table.take("columns", "a list"), table.take("rows", "a list")
    averages = table.take("average", "a list")
    if columns[:1] != ["batch"] or any(len(row) != len(columns) for row in rows):
        raise table.fail("rows", f"must have the columns {', '.join(map(str, columns))}")
    names = columns[1:]
    for name in sorted(set(PAPER_NAME.values()) - set(names)):
        raise table.fail("columns", f"lacks the model '{name}'")
    if len(averages) != len(names):
        raise table.fail("average", f"must have {len(names)} values, not {len(averages)}")
    claims = {
        claim.take("id", "a string"): claim.value
        for source in root.value
        for claim in root.child(source).children("claims")
    }
    return Published(
        setup.take("gpu", "a string"),
        setup.take("sm_clock_mhz", "a number"),
        tuple(row[0] for row in rows),
        {name: tuple(row[i] for row in rows) for i, name in enumerate(names, 1)},
        dict(zip(names, averages, strict=True)),
        claims,
    )


def check_source_value(value: float | None, published: float, where: str) -> None:
    """A verdict that was reached against another number than the published one is an error."""
    if value is not None and abs(value - published) > 1e-9:
        raise InputError(
            f"{where}: source_value is {value}, but data/published has {published}; "
            "run the experiment again"
        )
