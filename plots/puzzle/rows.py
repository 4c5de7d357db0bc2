"""The rows of the puzzle, and what the post measured."""

from dataclasses import dataclass

from claims.errors import InputError
from claims.puzzle import WALL_TIME
from claims.results import KERNEL_TIME, Record, Results
from claims.stats import Summary, significant
from plots.bandwidth import Measured, measure
from plots.experiments import Run, one_problem

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
    """Of a row that was timed as published alone."""
    found = record.metric(KERNEL_TIME)
    return found.missing if found and wall(record) else ""


def mlps(results: Results) -> dict[str, float]:
    """Each MLP and its share of all weights: {"2048x8192": 0.21}."""
    prefix = f"{WALL_TIME}."
    names = [n.removeprefix(prefix) for r in results.records for n in r.metrics if prefix in n]
    weights = {}
    for name in dict.fromkeys(names):
        hidden, _, intermediate = name.partition("x")
        if not (hidden.isdecimal() and intermediate.isdecimal()):
            raise InputError(f"{results.file}: '{prefix}{name}' names no MLP, such as 2048x8192")
        weights[name] = int(hidden) * int(intermediate)
    return {name: n / sum(weights.values()) for name, n in weights.items()}


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
    names = {given[name] for given in claimed for name in ("fast", "twin")}
    return [
        m
        for m in puzzle_rows(run)
        if m.best
        or m.record.origin == "peer"
        or m.record.kernel in names
        or m.record.kernel.startswith("triton_")
    ]
