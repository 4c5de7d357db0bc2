"""The weights of a quantized matrix by the C++ reference, as reference/nf4/nf4.hpp defines them,
without code of bitsandbytes or of a kernel.
"""

import ctypes
from typing import Any

import torch
from bitsandbytes import functional

from reprolab.errors import InputError
from reprolab_nf4.checkpoint import VERIFY

LIBRARY = VERIFY.with_name("libreprolab_reference.so")
TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}  # in C++
NONE = torch.empty(0)


class Array(ctypes.Structure):
    _fields_ = (("values", ctypes.c_void_p), ("count", ctypes.c_int64))


def weights(codes: torch.Tensor, state: Any, dtype: torch.dtype) -> torch.Tensor:
    """All weights on the CPU, in fp16, bf16, or fp32 before they are rounded to 16 bits.

    ValueError where sizes disagree.
    """
    values, nested = torch.empty(state.shape, dtype=dtype), (NONE, NONE, 0, ctypes.c_float())
    if state.nested:
        own, offset = state.state2, ctypes.c_float(state.offset.item())
        nested = (own.code, own.absmax, own.blocksize, offset)
    arguments = (codes, state.absmax, *nested, state.code, state.blocksize, TYPES[dtype], values)
    on_cpu = [x.cpu().contiguous() if torch.is_tensor(x) else x for x in arguments]
    arrays = [Array(x.data_ptr(), x.numel()) if torch.is_tensor(x) else x for x in on_cpu]
    try:
        function = ctypes.CDLL(str(LIBRARY)).reprolab_reference_weights
    except OSError as error:
        raise InputError(f"{LIBRARY}: cannot be loaded: {error}; run make build") from None
    function.restype = ctypes.c_char_p
    if error := function(*arrays):
        raise ValueError(error.decode())
    return values


def dequantized(codes: torch.Tensor, state: Any) -> torch.Tensor:
    """The bits of all weights in fp16 or bf16, in order, as int16 on the CPU."""
    return weights(codes, state, state.dtype).view(torch.int16).flatten()


def count_wrong(codes: torch.Tensor, state: Any, expected: torch.Tensor) -> int:
    """The number of weights whose bits by bitsandbytes, as it is now, are not `expected`."""
    actual = functional.dequantize_4bit(codes, state).view(torch.int16).flatten()
    return int((actual != expected.to(actual.device)).sum())
