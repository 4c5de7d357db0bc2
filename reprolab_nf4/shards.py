"""q, k and v (or gate and up) of one layer in one launch, in serving engines: their operator
apply_bnb_4bit multiplies by one shard after another, and copies each product into one output.

The shards' codes follow each other in one tensor. With their scales in one array, too, they are one
matrix, which a single matmul writes to the output. Needs torch and bitsandbytes.
"""

import functools
import sys
import warnings
from typing import Any, NamedTuple

import torch
from bitsandbytes import functional

from reprolab_nf4.imports import after_import, forget, log
from reprolab_nf4.matmul import Ways, is_ours
from reprolab_nf4.settled import is_capturing
from reprolab_nf4.timing_table import DEQUANTIZE, OWN
from reprolab_nf4.training import training

# The namespace of the operator, by the module that registers it.
ENGINES = {
    "vllm_bnb_plugin.quantization.linear": "vllm",
    "vllm.model_executor.layers.quantization.bitsandbytes": "vllm",  # before 0.28
    "sglang.srt.layers.quantization.bitsandbytes": "sglang",
}
OPERATOR, FUNCTION = "apply_bnb_4bit", "_apply_bnb_4bit"
ATTRIBUTE = "reprolab_nf4_joined"  # attribute of an engine's weight


class Joined(NamedTuple):
    """`scales`: those of each shard. `state`: that of the joined matrix; None if there is none."""

    scales: list[torch.Tensor]
    state: Any


class Shards:
    """Replaces the engines' operator, from when they register it until end()."""

    def __init__(self, ways: Ways):
        self._ways, self._libraries, self._is_running = ways, [], False
        for module in ENGINES:
            after_import(module, functools.partial(self._replace, module))

    def end(self) -> None:
        for module in ENGINES:
            forget(module)
        # Then the engine's own function runs again; a function that runs now calls it.
        while self._libraries and not self._is_running:
            self._libraries.pop()._destroy()

    def _replace(self, module: str) -> None:
        """Never raises: the engine would not catch it."""
        try:
            own, engine = getattr(sys.modules[module], FUNCTION), ENGINES[module]
            has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
            library = torch.library.Library(engine, "IMPL")
            self._libraries.append(library)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch's, of any replaced function
                for key in ("CPU", "CUDA"):
                    if has_kernel(f"{engine}::{OPERATOR}", key):
                        ours = functools.partial(self.apply, own)
                        library.impl(OPERATOR, ours, key, allow_override=True)
        except Exception as error:
            log(f": {module} multiplies by one shard after another", error)

    def apply(self, own, x, weight, offsets, out) -> None:
        """In place of the engine's function `own`, which multiplies by one shard after another."""
        state = joined(weight, offsets, x)
        self._is_running = True
        try:
            is_done = state is not None and self._multiply(x, weight, state, out)
        finally:
            self._is_running = False
        if not is_done:
            own(x, weight, offsets, out)

    def _multiply(self, x, weight, state, out) -> bool:
        if training.is_on or not is_ours(x, weight, state, None):
            return False
        expected = ((*x.shape[:-1], state.shape[0]), x.dtype, x.device)
        if (out.shape, out.dtype, out.device) != expected or not out.is_contiguous():
            return False
        way = self._ways.way(x, state)
        if way in (OWN, DEQUANTIZE):
            return False
        return self._ways.by_kernel(way, x, weight, state, None, out) is not None


def joined(weight, offsets, x) -> Any:
    """The state of all shards as one matrix; None if they are not."""
    states = [weight.bnb_quant_state[i] for i in range(len(weight.bnb_quant_state))]
    scales = [state.absmax for state in states]
    known = vars(weight).get(ATTRIBUTE)
    if known is None or list(map(id, scales)) != list(map(id, known.scales)):
        # A captured graph keeps the addresses of the scales, which joining would free.
        state = None if is_capturing(x) or not fit(weight, offsets, states) else join(states)
        known = Joined([state.absmax for state in states], state)
        vars(weight)[ATTRIBUTE] = known
    return known.state


def fit(weight, offsets, states) -> bool:
    """Whether the shards are one matrix in NF4, with plain scales."""
    kinds, ends = set(), [0]
    for state in states:
        if state.quant_type != "nf4" or state.nested or len(state.shape) != 2:
            return False
        n, k = state.shape
        kinds.add((k, state.blocksize, state.dtype, state.absmax.dtype, state.absmax.device))
        if n * k % 2 or state.absmax.numel() * state.blocksize != n * k:
            return False
        ends.append(ends[-1] + n * k // 2)
    return len(kinds) == 1 and weight.nbytes == ends[-1] and list(map(int, offsets)) == ends


def join(states) -> Any:
    """Each state keeps a view of the joined scales, so that they are in memory once."""
    if len(states) == 1:
        return states[0]
    # Not as an inference tensor: PyTorch does not count writes to those.
    with torch.inference_mode(False), torch.no_grad():
        scales = torch.cat([state.absmax.flatten() for state in states])
        parts = scales.split([state.absmax.numel() for state in states])
    for state, part in zip(states, parts, strict=True):
        state.absmax = part
    first, n = states[0], sum(state.shape[0] for state in states)
    shape = torch.Size((n, first.shape[1]))
    return functional.QuantState(
        scales, shape, first.code, first.blocksize, first.quant_type, first.dtype
    )
