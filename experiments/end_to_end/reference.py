"""The weights of a quantized matrix by the C++ reference, as reference/nf4/nf4.hpp defines them,
without code of bitsandbytes or of a kernel.
"""

from typing import Any

import torch
from bitsandbytes import functional

from reprolab.reference import TYPES, Weight, array, write_weights

NONE = torch.empty(0)


def weights(codes: torch.Tensor, state: Any, dtype: torch.dtype) -> torch.Tensor:
    """All weights on the CPU, in fp16, bf16, or fp32 before they are rounded to 16 bits.

    ValueError where sizes disagree.
    """
    values, nested = torch.empty(state.shape, dtype=dtype), (NONE, NONE, 0, 0.0)
    if state.nested:
        nested = (
            state.state2.code,
            state.state2.absmax,
            state.state2.blocksize,
            state.offset.item(),
        )
    shape = torch.tensor(state.shape, dtype=torch.int64)
    numbers = (state.blocksize, TYPES[str(dtype).removeprefix("torch.")])
    given = (codes, state.absmax, *nested, state.code, *numbers, shape)
    on_cpu = [x.cpu().contiguous() if torch.is_tensor(x) else x for x in given]
    arrays = [array(x) if torch.is_tensor(x) else x for x in on_cpu]
    write_weights(Weight(*arrays), values)
    return values


def dequantized(codes: torch.Tensor, state: Any) -> torch.Tensor:
    """The bits of all weights in fp16 or bf16, in order, as int16 on the CPU."""
    return weights(codes, state, state.dtype).view(torch.int16).flatten()


def count_wrong(codes: torch.Tensor, state: Any, expected: torch.Tensor) -> int:
    """The number of weights whose bits by bitsandbytes, as it is now, are not `expected`."""
    actual = functional.dequantize_4bit(codes, state).view(torch.int16).flatten()
    return int((actual != expected.to(actual.device)).sum())
