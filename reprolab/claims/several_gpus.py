"""Statements about several GPUs: what holds on all of them is said once, the rest by GPU."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TypeVar

from reprolab.claims import rules
from reprolab.claims.evidence import Evidence
from reprolab.claims.ledger import Decision, Verdict
from reprolab.captions import listed
from reprolab.results import KERNEL_TIME, Results

T = TypeVar("T")
MISSING = (LookupError, StopIteration)  # of a row or a claim


@dataclass(frozen=True)
class Machine:
    """One GPU, with a name that is unique among those that are shown."""

    gpu: str
    evidence: Evidence
    decisions: Mapping[str, Decision]


def machines_of(
    names: Sequence[str], evidence: Sequence[Evidence], ledgers: Sequence[Sequence[Decision]]
) -> list[Machine]:
    return [
        Machine(name, of_it, {d.claim.id: d for d in decisions})
        for name, of_it, decisions in zip(names, evidence, ledgers, strict=True)
    ]


def on_each(machines: Sequence[Machine], make: Callable[[Machine], T]) -> dict[str, T]:
    """By GPU, without those that lack a row; LookupError without any."""
    made = {}
    for machine in machines:
        with suppress(*MISSING):
            made[machine.gpu] = make(machine)
    if not made:
        raise LookupError("no GPU has the rows")
    return made


def by_gpu(texts: Mapping[str, str]) -> str:
    """The text, or '3.0 % slower on the H100 and 1.5 % faster on the H200'."""
    names: dict[str, list[str]] = {}
    for gpu, text in texts.items():
        names.setdefault(text, []).append(f"the {gpu}")
    if len(names) == 1:
        return next(iter(names))
    return listed([f"{text} on {listed(gpus)}" for text, gpus in names.items()])


def faster_or_slower(ratios: Sequence[float]) -> str:
    """In words, for ratios of times; neither word if there are ratios on both sides of 1."""
    if min(ratios) < 1 < max(ratios):
        return f"as fast within {max(abs(100 * (ratio - 1)) for ratio in ratios):.1f} %"
    mean = geometric_mean(ratios)
    return (
        f"{100 * (1 / mean - 1):.1f} % faster" if mean < 1 else f"{100 * (mean - 1):.1f} % slower"
    )


def all_of(by_machine: Mapping[str, Sequence[float]]) -> list[float]:
    return [value for values in by_machine.values() for value in values]


def measured(d: Decision) -> list[Verdict]:
    """Cells of the primary reading with a number of ours; LookupError without one."""
    cells = [v for v in d.primary if v.ours is not None and not v.elsewhere]
    if not cells or d.verdict == rules.NOT_TESTED:
        raise LookupError(d.claim.id)
    return cells


def only(cells: Sequence[Verdict]) -> Verdict:
    """LookupError if there is another number of cells."""
    if len(cells) != 1:
        raise LookupError(f"{len(cells)} cells")
    return cells[0]


def decided(d: Decision, verdict: str) -> Decision:
    """LookupError if it has another verdict."""
    if d.verdict != verdict:
        raise LookupError(d.claim.id)
    return d


def require_no_other(machines: Sequence[Machine], claim: str, *verdicts: str) -> None:
    """LookupError if no GPU decides the claim that way, or one does otherwise."""
    decided = {m.decisions[claim].verdict for m in machines if claim in m.decisions}
    decided -= {rules.NOT_TESTED, rules.NOT_TESTABLE}
    if not decided or decided - set(verdicts):
        raise LookupError(claim)


def in_each(machines: Sequence[Machine], claim: str) -> str:
    """The claim's verdict, by GPU where they differ."""
    return by_gpu({m.gpu: m.decisions[claim].verdict.replace("_", " ") for m in machines})


def replay(evidence: Evidence) -> Results:
    return evidence.results["table2", "replay"]


def times(evidence: Evidence, over: str, under: str) -> list[float]:
    """Ratios of one kernel's time to another's, of geometric means, by forward pass."""
    results, ratios = replay(evidence), []
    for problem in results.problems():
        rows = [results.find(problem["name"], kernel) for kernel in (over, under)]
        logs = [row.metrics[KERNEL_TIME].log for row in rows if row and row.timed]
        ratios += [logs[0].over(logs[1]).ratio.value] if len(logs) == 2 else []
    if not ratios:
        raise LookupError(over)
    return ratios
