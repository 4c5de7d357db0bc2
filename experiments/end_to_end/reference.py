"""The weights of a quantized matrix by the C++ reference, as reference/nf4/nf4.hpp defines them: no
code of bitsandbytes or of a kernel is in that.
"""

import ctypes
from typing import Any

import torch
from bitsandbytes import functional

from records.errors import InputError
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
    found, second = torch.empty(state.shape, dtype=dtype), (NONE, NONE, 0, ctypes.c_float())
    if state.nested:
        own, offset = state.state2, ctypes.c_float(state.offset.item())
        second = (own.code, own.absmax, own.blocksize, offset)
    given = (codes, state.absmax, *second, state.code, state.blocksize, TYPES[dtype], found)
    held = [x.cpu().contiguous() if torch.is_tensor(x) else x for x in given]
    arrays = [Array(x.data_ptr(), x.numel()) if torch.is_tensor(x) else x for x in held]
    try:
        function = ctypes.CDLL(str(LIBRARY)).reprolab_reference_weights
    except OSError as error:
        raise InputError(f"{LIBRARY}: cannot be loaded: {error}; run make build") from None
    function.restype = ctypes.c_char_p
    if why := function(*arrays):
        raise ValueError(why.decode())
    return found


def dequantized(codes: torch.Tensor, state: Any) -> torch.Tensor:
    """The bits of all weights, in order, as int16 on the CPU; of fp16 or bf16."""
    return weights(codes, state, state.dtype).view(torch.int16).flatten()


def count_wrong(codes: torch.Tensor, state: Any, expected: torch.Tensor) -> int:
    """How many weights that bitsandbytes gives now differ in some bit from `dequantized` ones."""
    found = functional.dequantize_4bit(codes, state).view(torch.int16).flatten()
    return int((found != expected.to(found.device)).sum())
