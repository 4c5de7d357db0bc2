"""Predictions of numbers on the GPU that a source names, if it is not available; they are shown for
comparison and never count as reproduced.

A GPU has two parameters: the time of kernels bound by instruction issue scales with multiprocessors
and clock, the time of products and copies with memory bandwidth. `validation` has the errors of
both between the two recorded GPUs.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from claims.evidence import Case, Evidence, NotTestable, NotTested, recorded_evidence
from claims.published import Source
from records.json_files import ROOT
from records.results import KERNEL_TIME, PRODUCT_TIME, Record

STEP, PROFILE = ".step", ("end_to_end", "profile")
BUSY, WALL_TIME = "busy_time.step", "wall_time"
ISSUE_BOUND = ("branch_tree", "shared_lut")
FITTED_ON, VALIDATED_ON = "h200", "h100"  # recorded GPUs


@dataclass(frozen=True)
class Card:
    """From the manufacturer's data sheets; the clock is the source's, or else the boost clock."""

    multiprocessors: int
    clock_mhz: float
    bandwidth_gb_s: float


# GPUs of compute capability 8.0 and 9.0, whose multiprocessors issue alike; the model does not
# apply to a T4 or an L4.
CARDS = {
    "A100-80GB": Card(108, 1410, 2039),
    "A100-40GB": Card(108, 1410, 1555),
    "H100-PCIe": Card(114, 1755, 2039),
}


@dataclass(frozen=True)
class Prediction:
    """In the unit of the cell's comparison."""

    gpu: str
    value: float
    error_percent: float  # the largest of the validation

    @property
    def text(self) -> str:
        return f"{self.value:.3g} on {self.gpu}"


@dataclass(frozen=True)
class Scale:
    """The factors of times from the measured GPU to another."""

    issue: float
    memory: float


def card_of(evidence: Evidence, row: Record) -> Card:
    gpu = next(r for r in evidence.results.values() if r.gpu).provenance["gpu"]
    return Card(gpu["multiprocessors"], row.sm_mhz, gpu["theoretical_bandwidth_gb_s"])


def scale(here: Card, there: Card) -> Scale:
    issue = here.multiprocessors * here.clock_mhz / (there.multiprocessors * there.clock_mhz)
    return Scale(issue, here.bandwidth_gb_s / there.bandwidth_gb_s)


def predict(case: Case) -> Prediction | None:
    """None if the GPU is available, the model does not apply to it, or nothing was measured."""
    gpu = case.cell.gpu or case.source.gpu
    make = PREDICTED.get(case.comparison.rule)
    if gpu not in CARDS or make is None or case.cell.value is None:
        return None
    with suppress(NotTested, NotTestable, KeyError, ValueError):
        value = make(case, CARDS[gpu])
        return value and Prediction(gpu, value, max(map(abs, validation().values())))
    return None


def to(case: Case, row: Record, there: Card) -> Scale:
    if row.sm_mhz is None:
        raise NotTestable(f"{row.place}: its clock is not known")
    return scale(card_of(case.evidence, row), there)


def share(case: Case, there: Card) -> float:
    """Dequantization's share of a dequantization and its product, in percent."""
    kernel = case.comparison.arguments["kernel"]
    names = [case.comparison.arguments[name] for name in ("part", "rest")]
    part, rest = (case.measured(kernel, name) for name in names)
    by = to(case, part, there)
    us = part.summary_of(names[0]).median * by.issue
    return 100 * us / (us + rest.summary_of(names[1]).median * by.memory)


def gain(case: Case, there: Card) -> float | None:
    """The gain of a decoding step in a graph, the GPU alone. The rest, neither dequantization nor
    product, is scaled by the mean of both factors.
    """
    if case.comparison.arguments["metric"] != WALL_TIME or "batch" not in case.place:
        return None
    at = case.place | {"way": "graph"}
    steps = []
    for kernel in (case.comparison.arguments[name] for name in ("baseline", "subject")):
        names = (KERNEL_TIME + STEP, PRODUCT_TIME + STEP, BUSY)
        rows = [case.measured(kernel, name, at, PROFILE[1]) for name in names]
        own, product, busy = (
            row.summary_of(name).median for row, name in zip(rows, names, strict=True)
        )
        by = to(case, rows[0], there)
        others = [(busy - own - product) * factor for factor in (by.issue, by.memory)]
        steps.append(own * by.issue + product * by.memory + sum(others) / 2)
    return steps[0] / steps[1]


def seconds(case: Case, there: Card) -> float | None:
    """The puzzle: the times of its kernels, with the host's part of each launch as measured
    here."""
    kernel = case.comparison.arguments.get("kernel") or case.cell.at.get("library")
    if case.comparison.unit != "s" or kernel is None:
        return None
    row = case.measured(kernel, WALL_TIME)
    by_graphs = case.measured(kernel, KERNEL_TIME)
    own, wall = by_graphs.summary_of(KERNEL_TIME).median, row.summary_of(WALL_TIME).median
    return (own * to(case, row, there).issue + wall - own) / 1e6


PREDICTED: dict[str, Callable[[Case, Card], float | None]] = {
    "share_not_above": share,
    "ratio_within": gain,
    "puzzle.seconds": seconds,
}


@cache
def validation() -> dict[str, float]:
    """The largest error in percent from one recorded GPU to the other, by kind of prediction, over
    all cells that both have. NotTestable in a tree without these recorded runs.
    """
    folders = [ROOT / "data/recorded" / name / PROFILE[0] for name in (FITTED_ON, VALIDATED_ON)]
    if not all(folder.is_dir() for folder in folders):
        raise NotTestable("the recorded runs that the model is fitted to are not there")
    fitted, validated = map(recorded_evidence, folders)
    errors: dict[str, float] = {}
    rows = {r.key: r for r in validated.results[PROFILE].records}
    for row in fitted.results[PROFILE].records:
        other = rows.get(row.key)
        if row.kernel not in ISSUE_BOUND or other is None or row.problem["way"] != "graph":
            continue
        by = scale(card_of(fitted, row), card_of(validated, other))
        for name, factor in ((KERNEL_TIME, by.issue), (PRODUCT_TIME, by.memory)):
            medians = [r.summary_of(name + STEP).median for r in (row, other)]
            off = 100 * (medians[0] * factor / medians[1] - 1)
            if abs(off) > abs(errors.get(name, 0)):
                errors[name] = off
    return errors


def implied_passes(source: Source, evidence: Evidence, kernel: str) -> tuple[float, float, float]:
    """The number of forward passes in the seconds of the source's Table I: its seconds, the
    predicted ms of a pass on its GPU, and their ratio.
    """
    shares = source.table("table1_qwen3_32b")
    total = sum(row["kernel_latency_ms"] for row in shares.values()) / len(shares)
    records = evidence.results[PROFILE].records
    at = {"model": "qwen3-32b", "batch": 8, "way": "graph"}
    row = next(r for r in records if r.kernel == kernel and at.items() <= r.problem.items())
    by = scale(card_of(evidence, row), CARDS[source.gpu])
    ms = row.summary_of(KERNEL_TIME + STEP).median / 1e3 * by.issue
    return total / 1e3, ms, total / ms
