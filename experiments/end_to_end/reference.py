"""CPU reference for the weights of a quantized matrix, from the format's definition.

As reference/nf4/nf4.hpp has it: one fp32 product per weight, rounded once, subnormal factors and
products zero of the same sign, every NaN 0x7fff. No code of bitsandbytes or of a kernel is in that.
"""

from collections.abc import Iterator
from typing import Any

import torch
from bitsandbytes import functional

CHUNK = 1 << 24  # codes; bounds the memory for what is in between
NAN = 0x7FFF
CPU = torch.device("cpu")


def dequantized(codes: torch.Tensor, state: Any) -> torch.Tensor:
    """The bits of all weights, in order, as int16 on the CPU; of fp16 or bf16."""
    parts = []
    for weights in in_fp32(codes.to(CPU), state):
        bits = weights.to(state.dtype).view(torch.int16)
        parts.append(torch.where(weights.isnan(), NAN, bits))
    return torch.cat(parts)


def count_wrong(codes: torch.Tensor, state: Any, expected: torch.Tensor) -> int:
    """How many weights that bitsandbytes gives now differ in some bit from `dequantized` ones."""
    found = functional.dequantize_4bit(codes, state).view(torch.int16).flatten()
    return int((found != expected.to(found.device)).sum())


def in_fp32(codes: torch.Tensor, state: Any) -> Iterator[torch.Tensor]:
    """All weights before they are rounded to 16 bits, in order, so many at a time; where the codes
    are.
    """
    packed, count = codes.view(torch.uint8).flatten(), state.shape.numel()
    table, scales = (flushed(x.to(codes.device)) for x in (state.code, scales_of(state)))
    for begin in range(0, count, 2 * CHUNK):
        end = min(begin + 2 * CHUNK, count)
        pairs = packed[begin // 2 : (end + 1) // 2]
        both = torch.stack((pairs >> 4, pairs & 15), dim=1).flatten()[: end - begin]
        # A block size divides 2 * CHUNK; the last block may be a part of one.
        blocks = scales[begin // state.blocksize : -(-end // state.blocksize)]
        scale = blocks.repeat_interleave(state.blocksize)[: end - begin]
        yield flushed(table[both.int()] * scale)


def scales_of(state: Any) -> torch.Tensor:
    """In fp32. Nested ones are rounded twice: after the product and after the sum."""
    if not state.nested:
        return state.absmax.to(CPU)
    own = state.state2
    entries = flushed(own.code.to(CPU))[state.absmax.to(CPU).int()]
    factors = flushed(own.absmax.to(CPU)).repeat_interleave(own.blocksize)[: entries.numel()]
    return flushed(entries * factors) + state.offset.to(CPU)


def flushed(values: torch.Tensor) -> torch.Tensor:
    """Subnormal values become zero of the same sign."""
    return torch.where(values.abs() < torch.finfo(torch.float32).tiny, values * 0, values)
