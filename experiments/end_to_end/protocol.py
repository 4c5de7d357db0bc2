"""Evaluates a generation: times from kernel records, and whether tokens are the baseline's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from records.results import Outcome

if TYPE_CHECKING:
    from experiments.end_to_end.rows import Row

WALL_TIME = "wall_time"  # of a whole generation
STEP_TIME = f"{WALL_TIME}.step"  # of a decoding step
TIMING, PROFILE = "timing", "profile"  # the passes: with latencies, and with kernels' times
EAGER, GRAPH = "eager", "graph"  # the decode modes: `way` in result files
INSTALLED = "as installed"  # the lineage of bitsandbytes' own row
NOTHING = "nothing was dequantized"  # why the pass profile has no time of a dequantization

Tokens = Sequence[Sequence[int]]  # one sequence per prompt


@dataclass(frozen=True)
class Launch:
    """CUPTI's record of a kernel, a copy or a fill on the GPU."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Learned:
    """The launches of a row's quantized products, by the names of the records, and how many of them
    dequantize in one forward pass. None: it may multiply right from the codes, and the expected
    number is unknown, as is which product belongs to which layer.
    """

    dequantize: frozenset[str]
    product: frozenset[str]
    per_pass: int | None


class RecordsLost(Exception):
    """CUPTI did not record all launches; the text has the counts."""


def busy_ns(launches: Iterable[Launch]) -> int:
    """How long the GPU was at work: overlapping records count once."""
    total, reached = 0, 0
    for x in sorted(launches, key=lambda x: x.start_ns):
        total += max(0, x.end_ns - max(x.start_ns, reached))
        reached = max(reached, x.end_ns)
    return total


def split(launches: Iterable[Launch], mark: str) -> list[list[Launch]]:
    """Records before each mark, in the order of the stream; those after the last are dropped."""
    found: list[list[Launch]] = [[]]
    for x in sorted(launches, key=lambda x: x.start_ns):
        if x.name == mark:
            found.append([])
        else:
            found[-1].append(x)
    return found[:-1]


def products(launches: Sequence[Launch], learned: Learned) -> list[Launch]:
    """The records right after a dequantization that are of its product."""
    found, follows = [], False
    for x in launches:
        is_dequantization = x.name in learned.dequantize
        follows = is_dequantization or (follows and x.name in learned.product)
        if follows and not is_dequantization:
            found.append(x)
    return found


def microseconds(forward: Sequence[Launch], learned: Learned) -> dict[str, float]:
    """kernel_time: of dequantizations; product_time: of the products of their outputs; busy_time:
    of everything on the GPU. RecordsLost where dequantizations are missing.
    """
    dequantized = [x for x in forward if x.name in learned.dequantize]
    found, of = {"kernel_time": dequantized}, learned.per_pass
    if of is not None:
        found["product_time"] = products(forward, learned)
        if len(dequantized) != of:
            lost = f"CUPTI recorded {len(dequantized)} of {of} dequantizations of a pass"
            raise RecordsLost(lost)
    times = {name: sum(x.end_ns - x.start_ns for x in xs) / 1e3 for name, xs in found.items()}
    return times | {"busy_time": busy_ns(forward) / 1e3}


def profile(
    launches: Sequence[Launch], mark: str, learned: Learned, count: int, tokens: int = 0
) -> dict[str, float]:
    """One sample of each metric, in us, from so many forward passes; those that end in .step are
    means over decoding steps.

    With `tokens`, the first pass is the prompt's, and the metrics of a generation of so many tokens
    are there as well: a step is like the other, so that they follow from a few.
    """
    passes = split(launches, mark)
    if len(passes) != count:
        raise RecordsLost(f"CUPTI recorded {len(passes)} of {count} forward passes")
    times = [microseconds(forward, learned) for forward in passes]
    prompt, steps = (times[0], times[1:]) if tokens else ({}, times)
    means = {name: sum(t[name] for t in steps) / len(steps) for name in times[0]}
    found = {name: us + (tokens - 1) * means[name] for name, us in prompt.items()}
    return found | {f"{name}.step": us for name, us in means.items()}


VARIES = "the baseline's own tokens differ from run to run"
REPEATS = "run against itself, the baseline does not differ"


def different(ours: Tokens, theirs: Tokens) -> list[tuple[int, int]]:
    """Sequence and place of each token that differs, as far as ours go, which may be the first
    tokens of as long a generation as theirs.
    """
    rows = enumerate(zip(ours, theirs, strict=True))
    return [
        (i, j)
        for i, (own, other) in rows
        for j, (a, b) in enumerate(zip(own, other, strict=False))
        if a != b
    ]


def other_than(first: Tokens, outputs: Sequence[Tokens]) -> Tokens | None:
    """The first of a row's outputs in which a token differs."""
    return next((tokens for tokens in outputs if different(tokens, first)), None)


Judged = tuple[str, str, int | None]  # outcome, reason and mismatches


def judge(
    outputs: Mapping["Row", Sequence[Tokens]],
    baseline: "Row",
    may_differ: Callable[["Row"], bool],
    again: Callable[[], Tokens],
) -> dict["Row", Judged]:
    """Whether the tokens of each row in `outputs` are those of the baseline's first generation.
    Other tokens are wrong, except where bitsandbytes sums in another order.

    cuBLAS may choose another kernel for the same product, which sums in another order. So where
    tokens differ, the baseline runs `again`, against itself: if its own tokens vary, the
    cause of the difference is unknown.
    """
    first, *others = outputs[baseline]
    found = {row: other_than(first, of_row) for row, of_row in outputs.items()}
    if any(tokens and not may_differ(row) for row, tokens in found.items()) and not found[baseline]:
        others.append(again())
    varies = any(different(tokens, first) for tokens in others)
    return {
        row: verdict(outputs[row], x, first, may_differ(row), varies) for row, x in found.items()
    }


def verdict(
    outputs: Sequence[Tokens], other: Tokens | None, first: Tokens, may_differ: bool, varies: bool
) -> Judged:
    """`other`: those of a row's outputs that are not the baseline's `first`; None: all are."""
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
