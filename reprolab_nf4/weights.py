"""The arrays of a layer's 4-bit weights that kernels read. Needs torch and bitsandbytes."""

import contextlib
import weakref

import bitsandbytes
import torch
from bitsandbytes import functional

from reprolab_nf4.c_functions import DropinError

# Tensors of other classes may compute otherwise, or give outputs of their class.
PLAIN = (torch.Tensor, torch.nn.Parameter, bitsandbytes.nn.Params4bit)
MOST = 2**31 - 1  # of a block size, an int of the library: ctypes would cut a larger one
NO_CHANGE = contextlib.nullcontext()
NOT_READ = (lambda: None), None, None


class Offsets:
    """The offsets of nested scales, which kernels get from the host. Each is read once, because
    reading waits for the GPU, and again after it has changed.
    """

    def __init__(self):
        self._known: dict[int, tuple] = {}  # by the identity of the tensor

    def read(self, offset: torch.Tensor) -> float:
        state = (offset.data_ptr(), None if offset.is_inference() else offset._version)
        known, key = self._known, id(offset)
        tensor, known_state, value = known.get(key, NOT_READ)
        if tensor() is offset and known_state == state:
            return value
        if is_capturing(offset):
            raise DropinError("a capture cannot read nested scales; run the model once before")
        value = offset.item()
        known[key] = weakref.ref(offset, lambda _: known.pop(key, None)), state, value
        return value

    def forget(self) -> None:
        self._known.clear()


class SettledWeights:
    """Codes and scales of an earlier matmul with the same sizes, still in the same memory and
    without a later write that PyTorch counts (Tensor._version).

    That matmul waited for all earlier work on its stream, including the writes of these arrays, so
    later ones on the stream need not. On another stream, such as a capture's, the synchronization
    that orders the first use there still does. (Except after a writer there that starts the next
    launch before it has written; PyTorch's kernels do not.) After a write that PyTorch does not
    count, such as to `.data`, by address or by the replay of a graph, the caller synchronizes
    before the next matmul.
    """

    def __init__(self):
        # By the address of the codes, and the sizes of the matrix and of its blocks.
        self._known: dict[tuple[int, ...], list] = {}

    def has(self, sizes: tuple[int, ...], weights: list[torch.Tensor]) -> bool:
        known = self._known.get((weights[0].data_ptr(), *sizes), ())
        for array, (memory, *facts) in zip(weights, known, strict=False):
            if memory() is not array.untyped_storage() or facts != facts_of(array):
                return False
        return len(known) == len(weights)

    def add(self, sizes: tuple[int, ...], weights: list[torch.Tensor]) -> None:
        # A captured product has not run; writes to inference tensors are not counted.
        if is_capturing(weights[0]) or any(array.is_inference() for array in weights):
            return
        known, key = self._known, (weights[0].data_ptr(), *sizes)

        def forget(_):  # when the first memory is freed; otherwise entries would accumulate
            known.pop(key, None)

        known[key] = [
            (weakref.ref(array.untyped_storage(), forget), *facts_of(array)) for array in weights
        ]


def facts_of(array: torch.Tensor) -> list:
    layout = array.dtype, array.shape, array.stride()
    return [array.data_ptr(), None if array.is_inference() else array._version, *layout]


def is_offset(offset) -> bool:
    """Whether it is one number, which kernels get from the host."""
    return type(offset) in PLAIN and offset.dtype == torch.float32 and offset.numel() == 1


def on_device_of(tensor: torch.Tensor):
    """torch.cuda.device_of, in less host time if the device is current or none of CUDA's."""
    is_on = not tensor.is_cuda or tensor.get_device() == torch.cuda.current_device()
    return NO_CHANGE if is_on else torch.cuda.device_of(tensor)


def is_capturing(tensor: torch.Tensor) -> bool:
    with on_device_of(tensor):
        return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


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
    if not all(type(a) in PLAIN and a.device == device and a.is_contiguous() for a in arrays):
        return False
    n, k = state.shape
    blocksize2 = 1 if scale_codes is None else state.state2.blocksize
    sizes = (n, k, state.blocksize, blocksize2)
    if not all(type(size) is int for size in sizes) or not all(0 < b <= MOST for b in sizes[2:]):
        return False
    count = -(-n * k // state.blocksize)
    if 2 * codes.nbytes < n * k or scales.dtype != torch.float32:
        return False
    if scale_codes is None:
        return scales.numel() >= count
    if (scale_codes.dtype, map.dtype) != (torch.uint8, torch.float32):
        return False
    if not is_offset(state.offset):
        return False
    seconds = -(-count // blocksize2)
    sizes = (scale_codes.numel(), scales.numel(), map.numel())
    return all(size >= needed for size, needed in zip(sizes, (count, seconds, 256), strict=True))
