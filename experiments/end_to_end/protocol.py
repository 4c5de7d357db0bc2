"""Evaluates a generation: times from kernel records; its tokens against the baseline's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprolab.results import Outcome

if TYPE_CHECKING:
    from experiments.end_to_end.rows import Row

WALL_TIME = "wall_time"  # of a whole generation
STEP_TIME = f"{WALL_TIME}.step"  # of a decoding step
TIMING, PROFILE = "timing", "profile"  # the passes: with latencies, and with kernels' times
EAGER, GRAPH = "eager", "graph"  # the decode modes: `way` in result files
INSTALLED = "as installed"  # the lineage of bitsandbytes' own row
NOTHING = "nothing was dequantized"  # the reason why the profile has no time of dequantizing

Tokens = Sequence[Sequence[int]]  # one sequence per prompt


@dataclass(frozen=True)
class Launch:
    """CUPTI's record of a kernel, a copy or a fill on the GPU."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class LaunchNames:
    """The names of the records of a row's quantized products, and the number of dequantizations in
    one forward pass: None where the row may multiply right from the codes, so that the number is
    unknown, and so is the layer of each product.
    """

    dequantize: frozenset[str]
    product: frozenset[str]
    per_pass: int | None


class RecordsLost(Exception):
    """CUPTI did not record all launches; the text has the counts."""


def busy_ns(launches: Iterable[Launch]) -> int:
    """The time in which the GPU ran something: overlapping records count once."""
    total, reached = 0, 0
    for x in sorted(launches, key=lambda x: x.start_ns):
        total += max(0, x.end_ns - max(x.start_ns, reached))
        reached = max(reached, x.end_ns)
    return total


def split(launches: Iterable[Launch], mark: str) -> list[list[Launch]]:
    """Records before each mark, in the order of the stream; those after the last are dropped."""
    passes: list[list[Launch]] = [[]]
    for x in sorted(launches, key=lambda x: x.start_ns):
        if x.name == mark:
            passes.append([])
        else:
            passes[-1].append(x)
    return passes[:-1]


def products(launches: Sequence[Launch], names: LaunchNames) -> list[Launch]:
    """The records of products: those of a product's kernels right after a dequantization."""
    matmuls, follows = [], False
    for x in launches:
        is_dequantization = x.name in names.dequantize
        follows = is_dequantization or (follows and x.name in names.product)
        if follows and not is_dequantization:
            matmuls.append(x)
    return matmuls


def microseconds(forward: Sequence[Launch], names: LaunchNames) -> dict[str, float]:
    """kernel_time: of dequantizations; product_time: of the products of their outputs; busy_time:
    of everything on the GPU. RecordsLost where dequantizations are missing.
    """
    dequantized = [x for x in forward if x.name in names.dequantize]
    groups, expected = {"kernel_time": dequantized}, names.per_pass
    if expected is not None:
        groups["product_time"] = products(forward, names)
        if len(dequantized) != expected:
            lost = f"CUPTI recorded {len(dequantized)} of {expected} dequantizations of a pass"
            raise RecordsLost(lost)
    times = {name: sum(x.end_ns - x.start_ns for x in xs) / 1e3 for name, xs in groups.items()}
    return times | {"busy_time": busy_ns(forward) / 1e3}


def profile(
    launches: Sequence[Launch], mark: str, names: LaunchNames, count: int, tokens: int = 0
) -> dict[str, float]:
    """One sample of each metric, in us, from `count` forward passes; those that end in .step are
    means over decoding steps.

    With `tokens`, the first pass is the prompt's, and the sample also has the metrics of a
    generation of `tokens` tokens: they follow from a few steps, because all steps are alike.
    """
    passes = split(launches, mark)
    if len(passes) != count:
        raise RecordsLost(f"CUPTI recorded {len(passes)} of {count} forward passes")
    times = [microseconds(forward, names) for forward in passes]
    prompt, steps = (times[0], times[1:]) if tokens else ({}, times)
    means = {name: sum(t[name] for t in steps) / len(steps) for name in times[0]}
    sample = {name: us + (tokens - 1) * means[name] for name, us in prompt.items()}
    return sample | {f"{name}.step": us for name, us in means.items()}


VARIES = "the baseline's own tokens differ from run to run"
REPEATS = "run against itself, the baseline does not differ"


def different(ours: Tokens, theirs: Tokens) -> list[tuple[int, int]]:
    """Sequence and place of each token of ours that differs; ours may be the first tokens of a
    longer generation.
    """
    rows = enumerate(zip(ours, theirs, strict=True))
    return [
        (i, j)
        for i, (own, other) in rows
        for j, (a, b) in enumerate(zip(own, other, strict=False))
        if a != b
    ]


TokenOutcome = tuple[str, str, int | None]  # outcome, reason and mismatches


def judge(
    outputs: Mapping["Row", Sequence[Tokens]],
    baseline: "Row",
    may_differ: Callable[["Row"], bool],
    again: Callable[[], Tokens],
) -> dict["Row", TokenOutcome]:
    """Whether the tokens of each row in `outputs` are those of the baseline's first generation.
    Other tokens are wrong, except where bitsandbytes sums in another order.

    cuBLAS may choose another kernel for the same product, which sums in another order. So where
    tokens differ, the baseline runs `again`, against itself: if its own tokens vary, the
    cause of the difference is unknown.
    """
    first, *others = outputs[baseline]
    differing = {
        row: next((tokens for tokens in generations if different(tokens, first)), None)
        for row, generations in outputs.items()
    }
    is_unexplained = any(tokens and not may_differ(row) for row, tokens in differing.items())
    if is_unexplained and not differing[baseline]:
        others.append(again())
    varies = any(different(tokens, first) for tokens in others)
    return {
        row: verdict(outputs[row], other, first, may_differ(row), varies)
        for row, other in differing.items()
    }


def verdict(
    outputs: Sequence[Tokens], other: Tokens | None, first: Tokens, may_differ: bool, varies: bool
) -> TokenOutcome:
    """`other`: the first of a row's outputs that is not the baseline's `first`; None if all are."""
    if other is None:
        tokens = [token for row in outputs[-1] for token in row]
        same = f"{len(tokens)} tokens compared each time, {len(set(tokens))} distinct"
        return Outcome.BIT_EXACT, same + f"; {VARIES}" * varies, None
    (i, j), *more = different(other, first)
    count = 1 + len(more)
    why = (
        f"{count} of {sum(map(len, other))} tokens differ; first in sequence {i}, token {j}: "
        f"expected {first[i][j]}, actual {other[i][j]}"
    )
    if may_differ:
        return Outcome.DEVIATION_AS_DECLARED, why, count
    if varies:
        return Outcome.NOT_VERIFIED, f"{why}; {VARIES}", count
    return Outcome.MISMATCH, f"{why}; {REPEATS}", count
