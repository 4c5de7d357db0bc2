"""Which weights later products need not wait for. Needs torch."""

import weakref

import torch


class SettledWeights:
    """Codes and scales that a product of ours was enqueued with, of the same sizes, in the memory
    that they still have and with no write since that PyTorch counts (Tensor._version).

    That product waited for all before it, and so for what wrote them, so that later products on its
    stream need not; on another stream, such as a capture's, what makes the first use there wait for
    them still does. (Not behind a writer there that lets the next launch begin before it has
    written; PyTorch's kernels do not.) A write that PyTorch does not count, such as one to `.data`,
    by address or by the replay of a graph, must be synchronized with before the next product.
    """

    def __init__(self):
        # By the address of the codes, and the sizes: of the matrix and of its blocks.
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

        def forget(_):  # with the first memory that is freed, or entries would add up
            known.pop(key, None)

        known[key] = [
            (weakref.ref(array.untyped_storage(), forget), array.data_ptr(), array._version)
            for array in weights
        ]


def is_capturing(tensor: torch.Tensor) -> bool:
    with torch.cuda.device_of(tensor):
        return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
