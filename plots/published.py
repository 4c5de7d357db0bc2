"""The sources' numbers (data/published/published.json)."""

import re
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
class Paper:
    """The paper's Table II: speed-ups of the shared-memory table over bitsandbytes 0.47.0."""

    gpu: str
    clock_mhz: float
    batches: tuple[int, ...]
    speedups: dict[str, tuple[float, ...]]  # the paper's model name -> one for each batch
    averages: dict[str, float]
    claims: dict[str, dict[str, Any]]  # by id

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


def load_paper(file: Path) -> Paper:
    paper = read_json(file).child("paper")
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
    return Paper(
        setup.take("gpu", "a string"),
        setup.take("sm_clock_mhz", "a number"),
        tuple(row[0] for row in rows),
        {name: tuple(row[i] for row in rows) for i, name in enumerate(names, 1)},
        dict(zip(names, averages, strict=True)),
        {claim.take("id", "a string"): claim.value for claim in paper.children("claims")},
    )


# Our kernel -> the post's, which it is compared with. The batched one is two kernels here: the
# post's CUDA transposes, and its Mojo is the code of tma_batched_as_published.
CUDA_NAME = {
    "tma_naive": "tma_naive",
    "tma_swizzle": "tma_swizzle",
    "tma_batched": "tma_swizzle_batched",
}
MOJO_NAME = {
    "tma_naive": "tma_naive",
    "tma_swizzle": "tma_swizzle",
    "tma_batched_as_published": "tma_swizzle_batched",
}


@dataclass(frozen=True)
class TransposePost:
    """S. Veitner's post: GB/s of the same kernels in CUDA and in Mojo, on one matrix."""

    author: str
    gpu: str
    rows: int
    columns: int
    peak_gb_s: float  # what the post takes as its GPU's peak
    cuda_gb_s: dict[str, float]  # by our name of the kernel
    mojo_gb_s: dict[str, float]
    best_percent_of_peak: float
    claims: tuple[str, ...]  # their ids

    def percent_of_peak(self, gb_s: float) -> float:
        return 100 * gb_s / self.peak_gb_s

    def claim_value(self, claim: str) -> tuple[float, str] | None:
        """The number that a claim gives, and its unit; None where it gives none.

        The post gives both sides of a ratio, and its claims are on the Mojo kernels.
        """
        mojo = self.mojo_gb_s
        batched = mojo["tma_batched_as_published"]
        return {
            "84-percent": (self.best_percent_of_peak, "%"),
            "mojo-is-cuda-like": (batched / self.cuda_gb_s["tma_batched"], "x"),
            "swizzle": (mojo["tma_swizzle"] / mojo["tma_naive"], "x"),
            "batched": (batched / mojo["tma_swizzle"], "x"),
        }.get(claim)


def load_transpose_post(file: Path) -> TransposePost:
    post = read_json(file).child("transpose_blog")
    matrix = post.take("matrix", "a string")
    sides = re.fullmatch(r"(\d+) x (\d+) fp32", matrix)
    if sides is None:
        raise post.fail("matrix", f"must be like '32768 x 32768 fp32', not '{matrix}'")
    cuda, mojo = post.child("cuda_gb_s"), post.child("mojo_gb_s")
    return TransposePost(
        post.take("author", "a string"),
        post.take("gpu", "a string"),
        int(sides[1]),
        int(sides[2]),
        post.take("peak_gb_s", "a number"),
        {ours: cuda.take(name, "a number") for ours, name in CUDA_NAME.items()},
        {ours: mojo.take(name, "a number") for ours, name in MOJO_NAME.items()},
        post.take("best_percent_of_peak", "a number"),
        tuple(claim.take("id", "a string") for claim in post.children("claims")),
    )


def check_source_value(value: float | None, published: float, where: str) -> None:
    """A verdict that was reached against another number than the published one is an error."""
    if value is not None and abs(value - published) > 1e-9:
        raise InputError(
            f"{where}: source_value is {value}, but data/published has {published}; "
            "run the experiment again"
        )
