"""The two decode modes: transformers' own greedy generation, and the decoding step in one CUDA
graph; each with a row's kernel in place.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import bitsandbytes
import torch
import transformers

from experiments.end_to_end import build
from experiments.end_to_end.protocol import (
    EAGER,
    GRAPH,
    Launch,
    LaunchNames,
    RecordsLost,
    Tokens,
    profile,
    split,
)
from experiments.end_to_end.rows import Row
from reprolab.errors import InputError

ALIGNED = 8  # tokens: attention kernels need aligned rows of the mask


@dataclass(frozen=True)
class Batch:
    """Prompts of several lengths, padded at the left; `mask` is 0 where there is padding."""

    ids: torch.Tensor
    mask: torch.Tensor
    tokens: int  # new ones for each prompt in a whole generation

    @property
    def longest(self) -> int:
        return self.ids.shape[1]


@dataclass(frozen=True)
class Generated:
    """The tokens of one generation, and the times of it and of one decoding step."""

    tokens: list[list[int]]
    wall_us: float
    step_us: float


def batch_of(prompts: Sequence[Sequence[int]], tokens: int, device: torch.device) -> Batch:
    longest = max(map(len, prompts))
    ids = torch.zeros((len(prompts), longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, prompt in enumerate(prompts):
        ids[i, longest - len(prompt) :] = torch.tensor(prompt)
        mask[i, longest - len(prompt) :] = 1
    return Batch(ids.to(device), mask.to(device), tokens)


class Steps(transformers.StoppingCriteria):
    """Never stops. Called after every token, it marks the end of a forward pass for the profiler,
    and takes the time after the first token and the last.
    """

    def __init__(self, gpu: Any, tokens: int, marks: bool):
        self.gpu, self.tokens, self.marks = gpu, tokens, marks
        self.calls, self.times = 0, []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.calls += 1
        if self.marks:
            self.gpu.mark()
        if self.calls in (1, self.tokens):
            self.gpu.synchronize()
            self.times.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


class Mode:
    """Base of both modes. `is_captured`: its step is warmed up, and recorded without the prompt."""

    name: str
    is_captured: bool

    def __init__(self, model: Any, batch: Batch, gpu: Any):
        self.model, self.batch, self.gpu = model, batch, gpu

    def prepare(self, row: Row) -> None:
        """InputError where the row cannot be run in this mode."""

    @torch.no_grad()
    def learn(self, row: Row) -> LaunchNames:
        """The names of the launches of each shape's products, run alone."""
        every = build.layers(self.model)
        layers = {tuple(x.weight.quant_state.shape): x for x in every}
        sizes = [len(self.batch.ids)] + [self.batch.ids.numel()] * (not self.is_captured)

        def alone() -> None:
            for layer in layers.values():
                bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
                self.gpu.mark()
            for shape, layer in layers.items():
                for size in sizes:
                    x = torch.ones((size, shape[1]), dtype=self.model.dtype, device=self.gpu.device)
                    layer(x)
                self.gpu.mark()

        with row.in_place():
            _, launches = self.gpu.records(alone)
        groups = [[x.name for x in product] for product in split(launches, self.gpu.mark_name())]
        if len(groups) != 2 * len(layers):
            raise RecordsLost(f"CUPTI recorded {len(groups)} of {2 * len(layers)} products alone")
        # PyTorch's own kernels in between, such as an addition, are in the rest of the model too.
        own = {
            shape: [name for name in names if "at::native" not in name]
            for shape, names in zip(layers, groups[: len(layers)], strict=True)
        }
        dequantize = frozenset(name for names in own.values() for name in names)
        product = frozenset(name for names in groups[len(layers) :] for name in names) - dequantize
        count = sum(len(own[tuple(x.weight.quant_state.shape)]) for x in every)
        per_pass = None if row.may_fuse(len(self.batch.ids)) else count
        return LaunchNames(dequantize, product, per_pass)

    def profile_generation(
        self, row: Row, tokens: int, names: LaunchNames
    ) -> tuple[Tokens, dict[str, float]]:
        """Generates `tokens` new tokens under the profiler. The times, in us, are of a whole
        generation where the prompt is recorded, and of a step.
        """
        generated, launches = self.record(row, tokens)
        passes, whole = (tokens - 1, 0) if self.is_captured else (tokens, self.batch.tokens)
        return generated, profile(launches, self.gpu.mark_name(), names, passes, whole)


class Eager(Mode):
    """transformers' own generate, with the cache that it takes by default."""

    name = EAGER
    is_captured = False
    options: ClassVar[dict[str, Any]] = {"disable_compile": True}  # of transformers' generate

    def run(self, row: Row, tokens: int) -> Generated:
        with row.in_place():
            return self.generate(tokens)

    def record(self, row: Row, tokens: int) -> tuple[Tokens, list[Launch]]:
        """The tokens, and the launches of their forward passes."""
        with row.in_place():
            generated, launches = self.gpu.records(lambda: self.generate(tokens, marks=True))
        return generated.tokens, launches

    @torch.no_grad()
    def generate(self, tokens: int, marks: bool = False) -> Generated:
        config = transformers.GenerationConfig(
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
            **self.options,
        )
        steps = Steps(self.gpu, tokens, marks)
        self.gpu.synchronize()
        started = time.perf_counter()
        sequences = self.model.generate(
            input_ids=self.batch.ids,
            attention_mask=self.batch.mask,
            generation_config=config,
            stopping_criteria=transformers.StoppingCriteriaList([steps]),
        )
        self.gpu.synchronize()
        wall = time.perf_counter() - started
        new = sequences[:, self.batch.longest :].tolist()
        if len(steps.times) != 2 or any(len(row) != tokens for row in new):
            raise InputError(f"transformers generated {steps.calls} tokens, not {tokens}")
        step = (steps.times[1] - steps.times[0]) / (tokens - 1)
        return Generated(new, wall * 1e6, step * 1e6)


class Graph(Mode):
    """The decoding step of each row in a CUDA graph, with a cache of fixed size and fixed buffers;
    the prompt is computed without a graph.
    """

    name = GRAPH
    is_captured = True

    def __init__(self, model: Any, batch: Batch, gpu: Any):
        super().__init__(model, batch, gpu)
        device, (count, longest) = batch.ids.device, batch.ids.shape
        length = -(-(longest + batch.tokens) // ALIGNED) * ALIGNED
        window = getattr(model.config.get_text_config(), "sliding_window", None)
        if window and length > window:
            raise InputError(f"{length} tokens are more than the model's window of {window}")
        self.pool = gpu.new_pool()
        self.replays: dict[Row, Callable[[], None]] = {}
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=length)
        # Added to the attention scores: 0 where a position is attended to.
        dtype = model.dtype
        self.mask_after_prompt = torch.full(
            (count, 1, 1, length), torch.finfo(dtype).min, dtype=dtype, device=device
        )
        self.mask_after_prompt[:, 0, 0, :longest].masked_fill_(batch.mask == 1, 0)
        self.prompt_positions = (batch.mask.cumsum(-1) - 1).clamp(min=0)
        self.mask = self.mask_after_prompt.clone()
        self.token = torch.zeros((count, 1), dtype=torch.long, device=device)
        self.position = torch.zeros_like(self.token)
        self.column = torch.zeros(1, dtype=torch.long, device=device)
        self.tokens = torch.zeros((count, batch.tokens), dtype=torch.long, device=device)

    @torch.no_grad()
    def prefill(self) -> None:
        """Computes the prompt and the first token, and sets all buffers for the first step."""
        self.cache.reset()
        output = self.model(
            input_ids=self.batch.ids,
            attention_mask=self.batch.mask,
            position_ids=self.prompt_positions,
            past_key_values=self.cache,
            logits_to_keep=1,
        )
        self.token.copy_(output.logits[:, -1].argmax(-1, keepdim=True))
        self.tokens[:, :1] = self.token
        self.mask.copy_(self.mask_after_prompt)
        self.position.copy_(self.prompt_positions[:, -1:] + 1)
        self.column.fill_(self.batch.longest)

    @torch.no_grad()
    def step(self) -> None:
        """One token for each prompt; no operation waits for the GPU."""
        self.mask.index_fill_(3, self.column, 0)
        output = self.model(
            input_ids=self.token,
            attention_mask=self.mask,
            position_ids=self.position,
            past_key_values=self.cache,
            logits_to_keep=1,
        )
        self.token.copy_(output.logits[:, -1].argmax(-1, keepdim=True))
        self.tokens.index_copy_(1, self.column - self.batch.longest + 1, self.token)
        self.position.add_(1)
        self.column.add_(1)

    def prepare(self, row: Row) -> None:
        try:
            with row.in_place():
                self.replays[row] = self.gpu.capture(self.step, self.pool, before=self.prefill)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            why = f"cannot be captured in a CUDA graph: {build.first_line(error)}"
            raise InputError(why) from None

    def run(self, row: Row, tokens: int) -> Generated:
        """Generates `tokens` new tokens, and extrapolates the time of a whole generation: all
        replays do the same work, with attention over the whole cache.
        """
        steps = tokens - 1
        with row.in_place():
            self.gpu.synchronize()
            started = time.perf_counter()
            self.prefill()
            step_us = self.gpu.time_us(self.replays[row], steps) / steps
            wall = time.perf_counter() - started
        missing_us = (self.batch.tokens - tokens) * step_us
        return Generated(self.tokens[:, :tokens].tolist(), wall * 1e6 + missing_us, step_us)

    def record(self, row: Row, tokens: int) -> tuple[Tokens, list[Launch]]:
        """The tokens, and the launches of the steps after the first."""

        def steps() -> None:
            for _ in range(tokens - 1):
                self.replays[row]()
                self.gpu.mark()

        with row.in_place():
            self.prefill()
            _, launches = self.gpu.records(steps)
        return self.tokens[:, :tokens].tolist(), launches


MODES = {mode.name: mode for mode in (Eager, Graph)}
