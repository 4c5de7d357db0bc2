"""What is made of what ran: times from kernel records, and whether tokens are the baseline's."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Tokens = Sequence[Sequence[int]]  # one sequence per prompt


@dataclass(frozen=True)
class Launch:
    """What CUPTI recorded of a kernel, a copy or a fill on the GPU."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Names:
    """What one quantized product launches by itself, by the names of the records.

    `fused`: dequantizes and multiplies in one; where there is such a kernel, no dequantization can
    be told from a product.
    """

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


def count_different(ours: Tokens, theirs: Tokens) -> int:
    """As far as ours go, which may be the first tokens of as long a generation as theirs."""
    pairs = zip(ours, theirs, strict=True)
    return sum(a != b for x, y in pairs for a, b in zip(x, y, strict=False))


@dataclass
class Exactness:
    """Whether generated tokens are those of the baseline.

    Its first output is what all are compared with. cuBLAS may choose another kernel for the same
    product, which sums in another order. So where tokens differ, the baseline runs against itself:
    if its own vary, nothing says what made the difference. `again` runs the baseline once more.
    """

    again: Callable[[], Tokens]
    outputs: list[Tokens] = field(default_factory=list)

    @property
    def varies(self) -> bool:
        """Whether the baseline was seen to give other tokens than its first."""
        return len(self.outputs) > 1

    @property
    def remark(self) -> str:
        return "the baseline's own tokens differ from run to run" * self.varies

    def compare(self, tokens: Tokens) -> str:
        """As `difference`, which lets the baseline run against itself."""
        said = self.difference(tokens)
        if said and not self.varies:
            self.admit(self.again())
        return said

    def admit(self, tokens: Tokens) -> None:
        """Tokens of the baseline itself, whatever they are."""
        found = plain_tokens(tokens)
        if found not in self.outputs:
            self.outputs.append(found)

    def difference(self, tokens: Tokens) -> str:
        """Empty where they begin as the baseline's first; else what is different."""
        if not self.outputs:
            self.outputs.append(plain_tokens(self.again()))
        theirs = self.outputs[0]
        count = count_different(tokens, theirs)
        if not count:
            return ""
        places = ((i, j) for i, row in enumerate(tokens) for j in range(len(row)))
        i, j = next((i, j) for i, j in places if tokens[i][j] != theirs[i][j])
        return (
            f"{count} of {sum(map(len, tokens))} tokens differ; first in sequence {i}, token {j}: "
            f"expected {theirs[i][j]}, actual {tokens[i][j]}"
        )


def plain_tokens(tokens: Tokens) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, tokens))


def distinct(tokens: Tokens) -> int:
    return len({token for row in tokens for token in row})
