"""Predictions of numbers on the GPU that a source names, if it is not available; they are shown for
comparison and never count as reproduced.

A GPU has two parameters: the time of kernels bound by instruction issue scales with multiprocessors
and clock, the time of products and copies with memory bandwidth. `validation` has the errors of
what is predicted, from one recorded GPU to the other.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from reprolab.claims.evidence import Case, Evidence, NotTestable, NotTested, recorded_evidence
from reprolab.claims.published import Source
from reprolab.json_files import ROOT
from reprolab.results import KERNEL_TIME, PRODUCT_TIME, Record

STEP, PROFILE, PUZZLE = ".step", ("end_to_end", "profile"), ("puzzle", "mlps")
BUSY, WALL_TIME = "busy_time.step", "wall_time"
BRANCH_TREE, SHARED_LUT = ISSUE_BOUND = ("branch_tree", "shared_lut")
MOJO = "mojo_packed_512"  # with the libraries, the kernel with published seconds
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
    what: str = ""  # if it is another quantity than the source's

    @property
    def text(self) -> str:
        return f"{self.value:.3g} on {self.gpu} (error {self.error_percent:.2g} %)"


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
    model = PREDICTED.get(case.comparison.rule)
    if gpu not in CARDS or model is None or case.cell.value is None:
        return None
    with suppress(NotTested, NotTestable, KeyError, ValueError):
        error = max(abs(validation()[name]) for name in model.validated_by)
        value = model.make(case, CARDS[gpu])
        return value and Prediction(gpu, value, error, model.what)
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
        row, *_ = [case.measured(kernel, name, at, PROFILE[1]) for name in PARTS]
        steps.append(step(row, to(case, row, there)))
    return steps[0] / steps[1]


PARTS = (KERNEL_TIME + STEP, PRODUCT_TIME + STEP, BUSY)  # of a step: the last is the whole


def step(row: Record, by: Scale) -> float:
    own, product, busy = (row.summary_of(name).median for name in PARTS)
    others = [(busy - own - product) * factor for factor in (by.issue, by.memory)]
    return own * by.issue + product * by.memory + sum(others) / 2


def seconds(case: Case, there: Card) -> float | None:
    """The puzzle: the times of its kernels, with the host's part of each launch as measured
    here."""
    kernel = case.comparison.arguments.get("kernel") or case.cell.at.get("library")
    if case.comparison.unit != "s" or kernel is None:
        return None
    case.measured(kernel, KERNEL_TIME)
    row = case.measured(kernel, WALL_TIME)
    return whole_puzzle(row, to(case, row, there)) / 1e6


def whole_puzzle(row: Record, by: Scale) -> float:
    own, wall = (row.summary_of(name).median for name in (KERNEL_TIME, WALL_TIME))
    return own * by.issue + wall - own


@dataclass(frozen=True)
class Model:
    make: Callable[[Case, Card], float | None]
    validated_by: tuple[str, ...]  # names of `validation`
    what: str = ""


GAIN, SECONDS = "gain", "seconds"
PREDICTED = {
    "share_not_above": Model(share, (KERNEL_TIME, PRODUCT_TIME)),
    "ratio_within": Model(gain, (GAIN,), "a decoding step in a graph, without the host"),
    "puzzle.seconds": Model(seconds, (SECONDS,)),
}
VALIDATED = {
    KERNEL_TIME: "dequantization in a decoding step",
    PRODUCT_TIME: "products in a decoding step",
    GAIN: "the gain of a decoding step in a graph, of models that both ran",
    SECONDS: "the seconds of the puzzle, which include the host",
}


@cache
def validation() -> dict[str, float]:
    """The largest error in percent from one recorded GPU to the other, for each of VALIDATED, over
    all cells that both have. NotTestable in a tree without these recorded runs.
    """
    errors: dict[str, float] = {}
    for name, predicted, measured in both_times():
        off = 100 * (predicted / measured - 1)
        if abs(off) > abs(errors.get(name, 0)):
            errors[name] = off
    return errors


def both_times() -> Iterator[tuple[str, float, float]]:
    """Predicted and measured values on the second GPU, by what they are of."""
    steps: dict[str, dict[str, tuple[float, float]]] = {}  # by problem and kernel
    for row, other, by in common_rows(PROFILE):
        if row.kernel not in ISSUE_BOUND or row.problem["way"] != "graph":
            continue
        for name, factor in ((KERNEL_TIME, by.issue), (PRODUCT_TIME, by.memory)):
            ours, theirs = (r.summary_of(name + STEP).median for r in (row, other))
            yield name, ours * factor, theirs
        both = step(row, by), other.summary_of(BUSY).median
        steps.setdefault(row.problem["name"], {})[row.kernel] = both
    for of_kernel in (s for s in steps.values() if len(s) == len(ISSUE_BOUND)):
        pairs = zip(of_kernel[BRANCH_TREE], of_kernel[SHARED_LUT], strict=True)
        predicted, measured = (before / after for before, after in pairs)
        yield GAIN, predicted, measured
    for row, other, by in common_rows(PUZZLE):
        if row.origin == "peer" or row.kernel == MOJO:
            yield SECONDS, whole_puzzle(row, by), other.summary_of(WALL_TIME).median


def common_rows(of_pass: tuple[str, str]) -> Iterator[tuple[Record, Record, Scale]]:
    """The rows that both recorded GPUs have."""
    folders = [ROOT / "data/recorded" / name / of_pass[0] for name in (FITTED_ON, VALIDATED_ON)]
    if not all(folder.is_dir() for folder in folders):
        raise NotTestable("the recorded runs that the model is fitted to are not there")
    fitted, validated = map(recorded_evidence, folders)
    rows = {r.key: r for r in validated.results[of_pass].records}
    for row in fitted.results[of_pass].records:
        if other := rows.get(row.key):
            yield row, other, scale(card_of(fitted, row), card_of(validated, other))


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


def passes_saved(case: Case, kernel: str) -> dict[str, float]:
    """The number of forward passes in which the source's kernel saves the seconds of Figure 4, by
    our model: the predicted time of a pass on its GPU, and the speed-ups of its Table II.
    """
    source, passes = case.source, {}
    for name, ours in source.models.items():
        for batch, row in source.table("figure4").get(name, {}).items():
            if "baseline_s" not in row:
                continue
            saved_ms = 1e3 * (row["baseline_s"] - row["optimized_s"])
            part = 1 - 1 / source.number(f"table2/{name}/{batch}")
            for model in ours:
                with suppress(NotTested, NotTestable):
                    at = {"model": model, "batch": int(batch)}
                    passes[model] = saved_ms / (pass_ms(case, kernel, at) * part)
    return passes


def pass_ms(case: Case, kernel: str, at: Mapping[str, Any]) -> float:
    """The predicted time of dequantization in a forward pass on the source's GPU."""
    row = case.measured(kernel, KERNEL_TIME + STEP, {**at, "way": "graph"}, PROFILE[1])
    us = row.summary_of(KERNEL_TIME + STEP).median
    return us / 1e3 * to(case, row, CARDS[case.source.gpu]).issue
