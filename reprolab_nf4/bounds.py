"""The interval of the outputs of a correct matmul, in any order of sums. Its width is that of
`rounded_products` in reference/nf4_product/bounds.hpp, which derives it. Needs torch.

With thousands of nonzero inputs it hides a wrong scale; with few it does not. So most rows of
activations have few, and every column is in one of them.
"""

from dataclasses import dataclass

import torch

SEED = 1
FP32_ROUNDING = 2.0**-24  # of weights that are held in fp32
FP32_UNIT, FP64_UNIT = 2.0**-23, 2.0**-52
SMALLEST_FP32, SMALLEST_FP16 = 2.0**-126, 2.0**-24
INPUTS = 16  # nonzero inputs of a sparse row
CHUNK = 4096  # outputs; bounds the memory for weights in fp64


class Wrong(Exception):
    """Outputs or weights are wrong: their number, and a description."""

    def __init__(self, count: int, text: str):
        super().__init__(text)
        self.count = count


@dataclass(frozen=True)
class Interval:
    """The interval of each output, ends included."""

    low: torch.Tensor
    high: torch.Tensor

    def check(self, outputs: torch.Tensor, first: int) -> None:
        """Raises Wrong if outputs of the rows from `first` on lie outside."""
        low, high = (end[first : first + len(outputs)] for end in (self.low, self.high))
        outside = ~((outputs >= low) & (outputs <= high))  # NaN is outside
        if count := int(outside.sum()):
            i, j = outside.nonzero()[0].tolist()
            ends = f"{low[i, j].item():.6g} to {high[i, j].item():.6g}"
            where = f"first in row {first + i}, output {j}"
            example = f"{where}: {outputs[i, j].item():.6g}, not {ends}"
            raise Wrong(count, f"{count} of {outputs.numel()} outputs are wrong; {example}")


def interval(
    x: torch.Tensor, weights: torch.Tensor, magnitudes: torch.Tensor, offset: float = 0.0
) -> Interval:
    """Around the fp64 product of fp16 or bf16 x [m, k] with the transposed fp32 weights [n, k].
    `magnitudes` [n, k]: the rounding error of each weight is relative to them. `offset`: that of
    nested scales.
    """
    inputs, bounds = x.double(), RowBounds.of(x, offset)
    ends = []
    for part, sizes in zip(weights.split(CHUNK), magnitudes.split(CHUNK), strict=True):
        exact, error = (
            inputs @ part.double().T,
            bounds.largest_error(inputs.abs() @ sizes.double().T),
        )
        ends.append((rounded(exact - error, -torch.inf, x), rounded(exact + error, torch.inf, x)))
    low, high = (torch.cat(parts, dim=1) for parts in zip(*ends, strict=True))
    return Interval(low, high)


@dataclass(frozen=True)
class RowBounds:
    """The bound of each row of activations, [m, 1]."""

    relative: torch.Tensor
    absolute: torch.Tensor
    limit: float  # of the sum of magnitudes

    @classmethod
    def of(cls, x: torch.Tensor, offset: float) -> "RowBounds":
        k, is_fp16 = x.shape[1], x.dtype == torch.float16
        terms = (x != 0).sum(1, keepdim=True).double()
        inputs = x.double().abs().sum(1, keepdim=True)
        others = (terms - 1).clamp(min=0)
        additions = others + others.clamp(max=(k + 3) // 4)
        sums = (additions + 4) * FP32_UNIT
        once = 1 + 2.0 ** (-11 if is_fp16 else -8)
        relative = once**4 * (1 + sums / (1 - sums)) - 1 + k * FP64_UNIT
        small = (2 * terms + additions + 2 + 2 * inputs) * SMALLEST_FP32
        small += (2 * inputs + terms) * SMALLEST_FP16 * is_fp16
        small += inputs * abs(offset) * FP32_UNIT
        # The fp32 weights are rounded themselves; a kernel's error is relative to the exact ones.
        relative += (1 + relative) * FP32_ROUNDING
        return cls(relative, 2 * small, 2.0 ** (15 if is_fp16 else 126))

    def largest_error(self, magnitude: torch.Tensor) -> torch.Tensor:
        """The largest error of outputs with these sums of magnitudes, [m, n]."""
        error = self.relative * magnitude + self.absolute
        return torch.where(magnitude < self.limit, error, torch.inf)


def rounded(ends: torch.Tensor, outward: float, like: torch.Tensor) -> torch.Tensor:
    """The ends, one fp32 ulp further outward, because kernels round to fp32 first."""
    in_fp32 = ends.float()
    return in_fp32.nextafter(torch.full_like(in_fp32, outward)).to(like.dtype)


def activations(
    m: int, k: int, device: torch.device, dtype: torch.dtype = torch.float16
) -> torch.Tensor:
    """m rows of normal values, then m or more rows with INPUTS nonzeros that cover all columns."""
    chance = torch.Generator(device).manual_seed(SEED)
    full = torch.randn((m, k), generator=chance, device=device)
    count = max(m, -(-k // INPUTS))
    columns = torch.randperm(k, generator=chance, device=device).repeat(-(-count * INPUTS // k))
    signs = torch.randint(0, 2, (count, INPUTS), generator=chance, device=device) * 2.0 - 1
    few = torch.zeros((count, k), device=device)
    few.scatter_(1, columns[: count * INPUTS].view(count, INPUTS), signs)
    return torch.cat([full, few]).to(dtype)
