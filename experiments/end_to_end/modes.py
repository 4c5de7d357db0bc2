"""The two decode modes, each with a row's kernel in place: as transformers generates, and with the
step in a CUDA graph; and what a row's products launch.
"""

from collections.abc import Callable
from typing import Any

import bitsandbytes
import torch

from claims.end_to_end import EAGER, GRAPH
from experiments.end_to_end import build, rows
from experiments.end_to_end.generate import Batch, Generated, StaticDecoder, eager
from experiments.end_to_end.plan import Row
from experiments.end_to_end.protocol import Launch, Names, RecordsLost, Tokens, profile, split


class Eager:
    """transformers' own generate."""

    name = EAGER
    starts_with_prompt = True
    warms_up = True

    def __init__(self, model: Any, batch: Batch, gpu: Any):
        self.model, self.batch, self.gpu = model, batch, gpu

    def prepare(self, row: Row) -> str:
        """Empty, or why the row cannot be run in this mode."""
        return ""

    def run(self, row: Row, tokens: int) -> Generated:
        with rows.in_place(row):
            return eager(self.model, self.batch, self.gpu, tokens)

    def recorded(self, row: Row, tokens: int) -> tuple[Tokens, list[Launch]]:
        """The tokens, and what their forward passes launched."""
        with rows.in_place(row):
            found, launches = self.gpu.records(
                lambda: eager(self.model, self.batch, self.gpu, tokens, marks=True)
            )
        return found.tokens, launches


class Graph:
    """The decoding step of each row in a CUDA graph; the prompt is computed as ever."""

    name = GRAPH
    starts_with_prompt = False  # where launches are recorded
    warms_up = False  # the capture has run the prompt and the step

    def __init__(self, model: Any, batch: Batch, gpu: Any):
        self.model, self.batch, self.gpu = model, batch, gpu
        self.decoder = StaticDecoder(model, batch, gpu)
        self.replays: dict[Row, Callable[[], None]] = {}

    def prepare(self, row: Row) -> str:
        try:
            with rows.in_place(row):
                self.replays[row] = self.decoder.capture()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            return f"cannot be captured in a CUDA graph: {build.first_line(error)}"
        return ""

    def run(self, row: Row, tokens: int) -> Generated:
        with rows.in_place(row):
            return self.decoder.generate(self.replays[row], tokens)

    def recorded(self, row: Row, tokens: int) -> tuple[Tokens, list[Launch]]:
        """The tokens, and what the steps after the first launched."""

        def steps() -> None:
            for _ in range(tokens - 1):
                self.replays[row]()
                self.gpu.mark()

        with rows.in_place(row):
            self.decoder.prefill()
            _, launches = self.gpu.records(steps)
        return self.decoder.tokens[:, :tokens].tolist(), launches


Mode = Eager | Graph
MODES = {mode.name: mode for mode in (Eager, Graph)}


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
