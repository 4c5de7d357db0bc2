"""The interval of the outputs of a correct matmul, in any order of sums: `rounded_products` of
reference/nf4_product/bounds.hpp, which derives it.

Each product may be rounded to 16 bits four times (entry, scale, weight, and product or sum), and
sums are in fp32. With thousands of nonzero inputs that hides a wrong scale; with few it does not.
So most rows of activations have few, and every column is in one of them. Needs torch.
"""

from dataclasses import dataclass

import torch

SEED = 1
UNIT = 2.0**-23  # of an addition in fp32, on tensor cores
# The error of a rounding to 16 bits: relative, and absolute for subnormal numbers.
ROUNDING = {torch.float16: (2.0**-11, 2.0**-24), torch.bfloat16: (2.0**-8, 2.0**-126)}
INPUTS = 16  # nonzero, of a row with few
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

    def check(self, found: torch.Tensor, first: int) -> None:
        """Raises Wrong if outputs of the rows from `first` on lie outside."""
        low, high = (end[first : first + len(found)] for end in (self.low, self.high))
        outside = ~((found >= low) & (found <= high))  # NaN is outside
        if count := int(outside.sum()):
            i, j = outside.nonzero()[0].tolist()
            ends = f"{low[i, j].item():.6g} to {high[i, j].item():.6g}"
            said = f"first in row {first + i}, output {j}: {found[i, j].item():.6g}, not {ends}"
            raise Wrong(count, f"{count} of {found.numel()} outputs are wrong; {said}")


def interval(
    x: torch.Tensor, weights: torch.Tensor, magnitudes: torch.Tensor, offset: float = 0.0
) -> Interval:
    """Around the fp64 product of fp16 or bf16 x [m, k] with the transposed fp32 weights [n, k].
    `magnitudes` [n, k]: what the rounding of each weight is relative to; `offset`: nested scales'.
    """
    inputs, k = x.double(), x.shape[1]
    rounding, smallest = ROUNDING[x.dtype]
    terms = (x != 0).sum(1, keepdim=True).double()
    others = (terms - 1).clamp(min=0)
    additions = UNIT * (others + others.clamp(max=-(-k // 4)) + 5)  # the weights are held in fp32
    relative = (1 + rounding) ** 4 * (1 + additions / (1 - additions)) - 1
    sizes_of_inputs = inputs.abs().sum(1, keepdim=True)
    small = 4 * smallest * (terms + sizes_of_inputs) + UNIT * abs(offset) * sizes_of_inputs
    ends = []
    for part, sizes in zip(weights.split(CHUNK), magnitudes.split(CHUNK), strict=True):
        exact = inputs @ part.double().T
        off = relative * (inputs.abs() @ sizes.double().T) + small + 2 * UNIT * exact.abs()
        ends.append(((exact - off).to(x.dtype), (exact + off).to(x.dtype)))
    low, high = (torch.cat(parts, dim=1) for parts in zip(*ends, strict=True))
    return Interval(low, high)


def activations(
    m: int, k: int, device: torch.device, dtype: torch.dtype = torch.float16
) -> torch.Tensor:
    """m rows of normal values, then at least m rows with few, and every column is in one."""
    chance = torch.Generator(device).manual_seed(SEED)
    full = torch.randn((m, k), generator=chance, device=device)
    count = max(m, -(-k // INPUTS))
    columns = torch.randperm(k, generator=chance, device=device).repeat(-(-count * INPUTS // k))
    signs = torch.randint(0, 2, (count, INPUTS), generator=chance, device=device) * 2.0 - 1
    few = torch.zeros((count, k), device=device)
    few.scatter_(1, columns[: count * INPUTS].view(count, INPUTS), signs)
    return torch.cat([full, few]).to(dtype)
