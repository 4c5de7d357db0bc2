"""The arrays of a layer's 4-bit weights that kernels read. Needs torch and bitsandbytes."""

import torch
from bitsandbytes import functional

from reprolab_nf4.c_functions import DropinError
from reprolab_nf4.settled import is_capturing


def read_offset(offset: torch.Tensor) -> float:
    """The offset of nested scales, which kernels get from the host. Read once, because reading
    waits for the GPU, and again after it has changed.
    """
    state = (offset.data_ptr(), None if offset.is_inference() else offset._version)
    known, value = getattr(offset, "reprolab_nf4_value", (None, None))
    if known != state:
        if is_capturing(offset):
            raise DropinError("a capture cannot read nested scales; run the model once before")
        value = offset.item()
        offset.reprolab_nf4_value = state, value
    return value


def scales_of(state) -> torch.Tensor:
    """The scales in fp32; nested ones are decoded as bitsandbytes does before it dequantizes."""
    if not state.nested:
        return state.absmax
    return functional.dequantize_blockwise(state.absmax, state.state2) + state.offset


def arrays_of(codes, state) -> list[torch.Tensor]:
    """The arrays that kernels read: codes, scales, and the codes and map of nested scales."""
    if not state.nested:
        return [codes, state.absmax]
    return [codes, state.state2.absmax, state.absmax, state.state2.code]


def fits(device, state, codes, scales, scale_codes=None, map=None) -> bool:
    """Whether kernels can read the arrays by address: on the device, contiguous, long enough."""
    arrays = [array for array in (codes, scales, scale_codes, map) if array is not None]
    if not all(array.device == device and array.is_contiguous() for array in arrays):
        return False
    n, k = state.shape
    count = -(-n * k // state.blocksize)
    if 2 * codes.nbytes < n * k or scales.dtype != torch.float32:
        return False
    if scale_codes is None:
        return scales.numel() >= count
    if (scale_codes.dtype, map.dtype) != (torch.uint8, torch.float32):
        return False
    seconds = -(-count // state.state2.blocksize)
    sizes = (scale_codes.numel(), scales.numel(), map.numel())
    return all(size >= needed for size, needed in zip(sizes, (count, seconds, 256), strict=True))
