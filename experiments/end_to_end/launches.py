"""What a row's products launch by themselves, and what they take of a generation."""

import bitsandbytes
import torch

from experiments.end_to_end import build, rows
from experiments.end_to_end.generate import Mode
from experiments.end_to_end.plan import Row
from experiments.end_to_end.protocol import Names, RecordsLost, Tokens, profile, split


@torch.no_grad()
def learn(mode: Mode, row: Row) -> tuple[Names, int]:
    """The names of what dequantizations and products launch by themselves, and how many records a
    forward pass has of the former, if it dequantizes every layer.
    """
    gpu, batch = mode.gpu, mode.batch
    layers = {tuple(x.weight.quant_state.shape): x for x in build.layers(mode.model)}
    sizes = [len(batch.ids)] + [batch.ids.numel()] * mode.starts_with_prompt

    def alone() -> None:
        for layer in layers.values():
            bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
            gpu.mark()
        for shape, layer in layers.items():
            for size in sizes:
                layer(torch.ones((size, shape[1]), dtype=mode.model.dtype, device=gpu.device))
            gpu.mark()

    with rows.in_place(row):
        _, launches = gpu.records(alone)
    found = [[x.name for x in product] for product in split(launches, gpu.mark_name())]
    if len(found) != 2 * len(layers):
        raise RecordsLost(f"CUPTI recorded {len(found)} of {2 * len(layers)} products alone")
    # PyTorch's own kernels in between, such as an addition, are in the rest of the model as well.
    counts = {
        shape: [name for name in part if "at::native" not in name]
        for shape, part in zip(layers, found[: len(layers)], strict=True)
    }
    dequantize = frozenset(name for part in counts.values() for name in part)
    product = frozenset(name for part in found[len(layers) :] for name in part) - dequantize
    every = [tuple(x.weight.quant_state.shape) for x in build.layers(mode.model)]
    return Names(dequantize, product), sum(len(counts[shape]) for shape in every)


def profiled(
    mode: Mode, row: Row, tokens: int, names: Names, per_pass: int
) -> tuple[Tokens, dict[str, float]]:
    """So many new tokens under the profiler, and times in us of a whole generation.

    Of a row that may multiply right from the codes nothing says how many dequantizations there are
    to be, nor which product is whose.
    """
    generated, launches = mode.recorded(row, tokens)
    fuses, of_prompt = rows.may_fuse(row), mode.starts_with_prompt
    expected = (tokens if of_prompt else tokens - 1, None if fuses else per_pass)
    whole = mode.batch.tokens if of_prompt else 0
    found = profile(launches, mode.gpu.mark_name(), names, *expected, whole)
    kept = (name for name in found if not (fuses and name.startswith("product_time")))
    return generated, {name: found[name] for name in kept}
