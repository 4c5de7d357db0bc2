"""Checkpoints in NF4 under vLLM's tensor parallelism: each rank loads slices of codes and scales.

vLLM's plugin for bitsandbytes refuses these checkpoints, because it slices weights before it
quantizes them. A slice of whole blocks is itself a weight in NF4. Needs torch.
"""

import inspect
import sys
from collections.abc import Iterator

import torch

from reprolab_nf4 import restored
from reprolab_nf4.imports import after_import, forget, log

MODULE, CLASS = "vllm_bnb_plugin.bitsandbytes_loader", "BitsAndBytesModelLoader"
VERIFY, GENERATE = "_verify_model_compatibility", "_quantized_4bit_generator"
PARAMETERS = {
    VERIFY: ["self", "model", "model_config"],
    GENERATE: ["self", "hf_weights_files", "use_safetensors", "quant_state_dict"],
}
RANK_FUNCTIONS = ("get_tensor_model_parallel_world_size", "get_tensor_model_parallel_rank")
# A loader's attribute: the plugin's refusal, which is raised later if a weight has no slices.
REFUSAL = "reprolab_nf4_refusal"


class Loader:
    """Replaces two methods of the plugin's loader, from when it is imported until end()."""

    def __init__(self):
        self._replaced, self._is_on = [], True
        after_import(MODULE, self._replace)

    def end(self) -> None:
        forget(MODULE)
        self._is_on = False
        for each in self._replaced:
            restored(*each)

    def _replace(self) -> None:
        """Never raises: the engine would not catch it."""
        try:
            module = sys.modules[MODULE]
            owner, ranks = (
                getattr(module, CLASS),
                [getattr(module, name) for name in RANK_FUNCTIONS],
            )
            own = {name: getattr(owner, name) for name in PARAMETERS}
            for name, expected in PARAMETERS.items():
                given = [*inspect.signature(own[name]).parameters]
                if given != expected:
                    raise TypeError(f"{name} takes {', '.join(given)}")
            ours = (self._verifying(own[VERIFY]), generating(own[GENERATE], *ranks))
            for name, method in zip(own, ours, strict=True):
                self._replaced.append((owner, name, method, own[name]))
                setattr(owner, name, method)
        except Exception as error:
            log(f": {MODULE} loads no 4-bit checkpoint under tensor parallelism", error)

    def _verifying(self, own):
        def verify(loader, model, model_config) -> None:
            try:
                own(loader, model, model_config)
            except ValueError as error:
                is_of_ranks = loader.pre_quant and "tensor parallel" in str(error)
                if not self._is_on or not is_of_ranks:
                    raise
                setattr(loader, REFUSAL, str(error))
                if model_config.hf_config.quantization_config.get("load_in_8bit"):
                    refuse(loader, "the checkpoint is in 8 bits, not in NF4")

        return verify


def generating(own, ranks, rank):
    def generate(loader, files, use_safetensors, states) -> Iterator[tuple]:
        if REFUSAL not in vars(loader):
            return own(loader, files, use_safetensors, states)
        if loader.expert_params_mapping:
            refuse(loader, "the model has experts (MoE)")
        own_states = {}
        weights = own(loader, files, use_safetensors, own_states)
        return sliced(weights, own_states, states, loader, ranks(), rank())

    return generate


def refuse(loader, why: str) -> None:
    """The plugin's refusal, with the reason."""
    raise ValueError(f"{getattr(loader, REFUSAL)} reprolab_nf4: {why}") from None


def sliced(
    weights, own_states: dict, states: dict, loader, ranks: int, rank: int
) -> Iterator[tuple]:
    """The rank's names and codes. Before the plugin yields a weight in 4 bits, it puts the state
    into `own_states`; that of the slice is put into `states`.
    """
    for name, codes in weights:
        for key, state in own_states.items():
            parts = parts_of(loader, key, state)
            if parts is not None:
                loader._dequantize_dq(state)  # nested scales
                why = fault(codes, state, *parts, ranks)
                if why:
                    n, k = state.shape
                    refuse(loader, f"{key}, {n} x {k} in blocks of {state.blocksize}: {why}")
                codes = cut(codes, state, *parts, ranks, rank)
            states[key] = state
        own_states.clear()
        yield name, codes


def parts_of(loader, key: str, state) -> tuple[bool, list[int]] | None:
    """Whether inputs, not outputs, are sliced, and the sizes of the parts that each are sliced.
    None: each rank has the whole weight.
    """
    layer, fused = key.removesuffix(".weight"), loader.maybe_fused_weights_modules
    whole = (loader.tp_disabled_modules, loader.unsharded_weights_modules)
    if layer not in loader.target_modules or any(layer in names for names in whole):
        return None
    if layer in loader.column_sharded_weights_modules:
        return True, [state.shape[1]]
    if layer in fused:  # on disk
        return False, list(fused[layer])
    for part, (joined, i) in loader.modules_mapping.inverse_packed_mapping.items():
        owner = layer.removesuffix(f".{part}") + f".{joined}"
        if layer.endswith(f".{part}") and owner in fused:
            return False, list(fused[owner][i : i + 1])
    return False, [state.shape[0]]


def fault(codes, state, of_inputs: bool, sizes: list[int], ranks: int) -> str:
    """Why the weight has no slices; empty if it has."""
    (n, k), size, scales = state.shape, state.blocksize, state.absmax.numel()
    if state.quant_type != "nf4":
        return f"its weights are in {state.quant_type}, not in NF4"
    if sum(sizes) != (k if of_inputs else n):
        return f"vLLM's layer has {sum(sizes)} outputs (are there fewer KV heads than ranks?)"
    step = 1 if of_inputs else k  # weights that are consecutive
    if any(part % ranks or part // ranks * step % size for part in sizes):
        kind = "inputs" if of_inputs else "outputs"
        each = " + ".join(map(str, sizes))
        return f"{each} {kind}, divided by {ranks} ranks, are not whole blocks"
    if (codes.nbytes * 2, scales * size) != (n * k, n * k):
        return f"it has {codes.nbytes} bytes of codes and {scales} scales"
    return ""


def cut(codes, state, of_inputs: bool, sizes: list[int], ranks: int, rank: int) -> torch.Tensor:
    """The rank's codes; the state becomes that of the slice. Both are copies, so that the whole is
    freed.
    """
    n, k = state.shape
    blocks = [part * (1 if of_inputs else k) // state.blocksize for part in sizes]

    def take(array):
        parts = array.reshape(n if of_inputs else 1, sum(blocks), -1).split(blocks, 1)
        return torch.cat([part.chunk(ranks, 1)[rank] for part in parts], 1)

    state.absmax = take(state.absmax).flatten()
    state.shape = torch.Size((n, k // ranks) if of_inputs else (n // ranks, k))
    return take(codes).reshape(-1, 1)
