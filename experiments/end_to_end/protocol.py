"""What is made of what ran: times from kernel records, and whether tokens are the baseline's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.end_to_end.plan import Row

Tokens = Sequence[Sequence[int]]  # one sequence per prompt


@dataclass(frozen=True)
class Launch:
    """What CUPTI recorded of a kernel, a copy or a fill on the GPU."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Names:
    """What one quantized product launches by itself, by the names of the records."""

    dequantize: frozenset[str]
    product: frozenset[str]


class RecordsLost(Exception):
    """CUPTI did not record all that was launched; the text says how much."""


def busy_ns(launches: Iterable[Launch]) -> int:
    """How long the GPU was at work: overlapping records count once."""
    total, reached = 0, 0
    for x in sorted(launches, key=lambda x: x.start_ns):
        total += max(0, x.end_ns - max(x.start_ns, reached))
        reached = max(reached, x.end_ns)
    return total


def split(launches: Iterable[Launch], mark: str) -> list[list[Launch]]:
    """What ran before each mark, in the order of the stream; what comes after the last is left."""
    found: list[list[Launch]] = [[]]
    for x in sorted(launches, key=lambda x: x.start_ns):
        if x.name == mark:
            found.append([])
        else:
            found[-1].append(x)
    return found[:-1]


def products(launches: Sequence[Launch], names: Names) -> list[Launch]:
    """The records right behind a dequantization that are of its product."""
    found, follows = [], False
    for x in launches:
        is_dequantization = x.name in names.dequantize
        follows = is_dequantization or (follows and x.name in names.product)
        if follows and not is_dequantization:
            found.append(x)
    return found


def microseconds(forward: Sequence[Launch], names: Names) -> dict[str, float]:
    """kernel_time: of dequantizations; product_time: of the products of their outputs; busy_time:
    of everything on the GPU.
    """
    dequantized = [x for x in forward if x.name in names.dequantize]
    found = {"kernel_time": dequantized, "product_time": products(forward, names)}
    times = {name: sum(x.end_ns - x.start_ns for x in xs) / 1e3 for name, xs in found.items()}
    return times | {"busy_time": busy_ns(forward) / 1e3}


def require_all(
    passes: Sequence[Sequence[Launch]], count: int, per_pass: int | None, names: Names
) -> None:
    """RecordsLost unless there are so many passes, with so many dequantizations in each."""
    if len(passes) != count:
        raise RecordsLost(f"CUPTI recorded {len(passes)} of {count} forward passes")
    for forward in passes if per_pass is not None else ():
        found = sum(x.name in names.dequantize for x in forward)
        if found != per_pass:
            raise RecordsLost(f"CUPTI recorded {found} of {per_pass} dequantizations of a pass")


def profile(
    launches: Sequence[Launch],
    mark: str,
    names: Names,
    count: int,
    per_pass: int | None,
    tokens: int = 0,
) -> dict[str, float]:
    """One sample of each metric, in us, from so many forward passes; those that end in .step are
    means over decoding steps.

    With `tokens`, the first pass is the prompt's, and the metrics of a generation of so many tokens
    are there as well: a step is like the other, so that they follow from a few.
    """
    passes = split(launches, mark)
    require_all(passes, count, per_pass, names)
    times = [microseconds(forward, names) for forward in passes]
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


@dataclass(frozen=True)
class Judged:
    """Whether the tokens of a row's generations are those of the baseline's first."""

    outcome: str
    reason: str
    mismatches: int | None = None


def judge(
    outputs: Mapping[Row, Sequence[Tokens]],
    baseline: Row,
    may_differ: Callable[[Row], bool],
    again: Callable[[], Tokens],
) -> dict[Row, Judged]:
    """Of each row in `outputs`. Other tokens are wrong, but where bitsandbytes sums in its own way.

    cuBLAS may choose another kernel for the same product, which sums in another order. So where
    tokens differ, the baseline runs `again`, against itself: if its own vary, nothing says what
    made the difference.
    """
    first, *others = outputs[baseline]
    found = {
        row: next((x for x in of_row if different(x, first)), None)
        for row, of_row in outputs.items()
    }
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
        return Judged("bit_exact", same + f"; {VARIES}" * varies)
    (i, j), *more = different(other, first)
    count = 1 + len(more)
    why = (
        f"{count} of {sum(map(len, other))} tokens differ; first in sequence {i}, token {j}: "
        f"expected {first[i][j]}, actual {other[i][j]}"
    )
    if may_differ:
        return Judged("deviation_as_declared", why, count)
    if varies:
        return Judged("not_verified", f"{why}; {VARIES}", count)
    return Judged("mismatch", f"{why}; {REPEATS}", count)
