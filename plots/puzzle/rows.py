"""The rows of the puzzle, and what the post measured."""

from dataclasses import dataclass

from claims.puzzle import WALL_TIME
from plots.bandwidth import Measured, measure
from plots.experiments import Run, one_problem
from records.families import in_cuda
from records.results import KERNEL_TIME, Record, Results
from records.stats import Summary, significant

# How the post's rows are named: in its table, and in ours.
COLUMNS = {"unsloth": "Unsloth (CUDA)", "mojo": "the post (Mojo)"}
WARM_NOTE = (
    "Every launch reads and writes the same few buffers, as published: what fits into the L2 cache "
    "is warm there, so the smaller MLPs may be faster than memory."
)


@dataclass(frozen=True)
class Published:
    """One value of the post's table."""

    what: str
    gpu: str
    seconds: float
    gb_s: float


def published(run: Run) -> list[Published]:
    """Unsloth's and the post's own on each of the post's GPUs."""
    results = run.source.table("results")
    return [
        Published(what, gpu, found[f"{name}_s"], found[f"{name}_gb_s"])
        for gpu, found in results.items()
        for name, what in COLUMNS.items()
    ]


def puzzle_rows(run: Run) -> list[Measured]:
    """Ranked by the time through graphs; then deviations, failures and ceilings."""
    return measure(run["mlps"], one_problem(run["mlps"]))


def wall(record: Record) -> Summary | None:
    """As published, in us; None where no time may be shown."""
    found = record.metric(WALL_TIME)
    return found.summary if found and (record.is_verified or record.is_ceiling) else None


def why_no_graph(record: Record) -> str:
    """Why a row was timed as published alone."""
    found = record.metric(KERNEL_TIME)
    return found.missing if found and wall(record) else ""


def mlps(results: Results) -> dict[str, float]:
    """Each MLP with times of its own, and its share of all weights: {"2048x8192": 0.21}."""
    measured = {name for r in results.records for name in r.metrics}
    parts = [p for p in results.family.parts.values() if f"{WALL_TIME}.{p.name}" in measured]
    weights = sum(p.weights for p in parts)
    return {p.name: p.weights / weights for p in parts}


def in_seconds(us: Summary | None) -> str:
    """'0.1660 (0.1658-0.1663)'"""
    if us is None:
        return "-"
    low, high = (significant(end / 1e6) for end in (us.low, us.high))
    return f"{significant(us.median / 1e6)} ({low}-{high})"


def brief(run: Run) -> list[Measured]:
    """The fastest rows, the peers', Triton's, and what the post's claim is about, as it may be
    read.
    """
    claimed = [c.arguments for c in run.decision("mojo-1.07-1.84").claim.comparisons]
    names = {kernel for given in claimed for kernel in (given["fast"], in_cuda(given["fast"]))}
    return [
        m
        for m in puzzle_rows(run)
        if m.best
        or m.record.origin == "peer"
        or m.record.kernel in names
        or run["mlps"].kernel(m.record).language == "triton"
    ]
