"""Weights that later matmuls need not wait for. Needs torch."""

import weakref

import torch


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
        for array, (memory, place, writes) in zip(weights, known, strict=False):
            if memory() is not array.untyped_storage() or not array.is_contiguous():
                return False
            if array.data_ptr() != place or array._version != writes:
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
            (weakref.ref(array.untyped_storage(), forget), array.data_ptr(), array._version)
            for array in weights
        ]


def is_capturing(tensor: torch.Tensor) -> bool:
    with torch.cuda.device_of(tensor):
        return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
