"""Tokens per second of transformers' generate() by library, and the gaps between the kernels of a
decoding step; with the cache that generate() takes by default, or with a static one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, median
from typing import Any, ClassVar

import torch
import transformers
from torch._dynamo.utils import counters
from transformers.quantizers.quantizer_bnb_4bit import Bnb4BitHfQuantizer

from experiments.end_to_end import SEED, build
from experiments.end_to_end.generate import Eager, batch_of
from experiments.end_to_end.protocol import Tokens, busy_ns, different, split
from experiments.end_to_end.sizes import NF4_BYTES, Model
from experiments.product.ways import DENSE, OWN, PLANNED, PYTHON, WAYS, installed
from reprolab.errors import InputError
from reprolab_nf4.measuring import shuffled

PROMPT = 32  # tokens
SHORT = 8  # new tokens of a generation after which layers are planned, or that is profiled
DTYPE = torch.bfloat16
DENSE_BYTES = 2.0  # of a weight
COPIED_BYTES, COPIES = 1 << 30, 20  # of the copy whose bandwidth bounds a step


class Dynamic(Eager):
    """With the cache that generate() takes by default; all ways in shuffled rounds."""

    ways = WAYS


class Static(Eager):
    """With a static cache: transformers compiles the decoding step if it may. The generations of a
    way run consecutively, because another install() would compile the step again.
    """

    options: ClassVar[dict[str, Any]] = {"cache_implementation": "static"}
    ways = (DENSE, OWN, PLANNED)


CACHES = {"dynamic": Dynamic, "static": Static}


@dataclass
class Logit(transformers.LogitsProcessor):
    """Keeps the logits of some tokens at one place of one sequence."""

    sequence: int
    place: int
    tokens: Sequence[int]
    calls: int = 0
    logits: list[float] = field(default_factory=list)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.calls == self.place:
            self.logits = scores[self.sequence, list(self.tokens)].tolist()
        self.calls += 1
        return scores


class Models:
    """The model of each way; `missing`: the reason of each way that does not fit the GPU."""

    def __init__(self, gpu: Any, sizes: Model, nested: bool, batch: int, tokens: int):
        self.missing: dict[str, str] = {}
        if why := lacks_memory(gpu, sizes, batch, tokens, NF4_BYTES):
            raise InputError(f"{sizes.id}: {why}")
        quantized = partial(build.quantized, nested=nested)
        packed = build.from_sizes(sizes, gpu.device, DTYPE, quantized)
        # As after from_pretrained: generate() asks it whether it may compile the model.
        config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
        packed.hf_quantizer = Bnb4BitHfQuantizer(config)
        self.by_way = dict.fromkeys((OWN, PYTHON, PLANNED), packed)
        if why := lacks_memory(gpu, sizes, batch, tokens, DENSE_BYTES):
            self.missing[DENSE] = why
        else:
            self.by_way[DENSE] = build.from_sizes(sizes, gpu.device, DTYPE, build.in_16_bits)


def lacks_memory(gpu: Any, sizes: Model, batch: int, tokens: int, weight_bytes: float) -> str:
    """Empty if the sequences fit."""
    needed = sizes.bytes_needed(batch, PROMPT, tokens, weight_bytes)
    free = gpu.free_bytes()
    return f"{needed / 1e9:.0f} GB are needed, {free / 1e9:.0f} are free" * (needed > free)


def copy_gb_s(gpu: Any) -> float:
    """Bytes read and written per time by PyTorch's copy."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=gpu.device)
    target = torch.empty_like(source)
    gpu.time_us(lambda: target.copy_(source), 2)
    return 2 * COPIED_BYTES * COPIES / gpu.time_us(lambda: target.copy_(source), COPIES) / 1e3


def bytes_of_step(model: Any) -> int:
    """Weights that a decoding step reads: all, with their scales, except the embedding's."""
    embedding = model.get_input_embeddings().weight
    every = [p for p in model.parameters() if p is not embedding]
    states = [layer.weight.quant_state for layer in build.layers(model)]
    scales = [tensor for state in states for tensor in build.scale_tensors(state)]
    return sum(tensor.nbytes for tensor in every + scales)


class Generations:
    """Generations of `batch` sequences with `tokens` new tokens and one cache, by way. `install`:
    arguments of ways.installed().
    """

    def __init__(
        self, gpu: Any, models: Models, cache: str, batch: int, tokens: int, **install: Any
    ):
        self.gpu, self.models, self.install = gpu, models, install
        self.kind, self.new_tokens = CACHES[cache], tokens
        # The step is compiled again for a static cache of another size.
        self.short = tokens if self.kind is Static else min(SHORT, tokens)
        self.ways = [way for way in self.kind.ways if way in models.by_way]
        vocab = models.by_way[OWN].config.get_text_config().vocab_size
        some = torch.Generator().manual_seed(SEED)
        prompts = torch.randint(0, vocab, (batch, PROMPT), generator=some).tolist()
        self.batch = batch_of(prompts, tokens, gpu.device)
        self.tokens_per_s: dict[str, list[float]] = {way: [] for way in self.ways}
        self.step_us: dict[str, list[float]] = {way: [] for way in self.ways}
        self.tokens: dict[str, Tokens] = {}
        self.busy: dict[str, dict[str, float]] = {}

    def measure(self, count: int) -> dict[str, Any]:
        """A cell of the result file, with `count` generations of each way."""
        models = [self.models.by_way[way] for way in self.ways]
        cell = {"tokens_per_s": self.tokens_per_s}
        cell |= {"bytes": dict(zip(self.ways, map(bytes_of_step, models), strict=True))}
        cell |= self.in_blocks(count) if self.kind is Static else self.in_rounds(count)
        steps = {way: {"wall_us": median(us)} for way, us in self.step_us.items()}
        cell["steps"] = {way: us | self.busy.get(way, {}) for way, us in steps.items()}
        return cell | {"missing": self.models.missing}

    def in_rounds(self, count: int) -> dict[str, Any]:
        for way in shuffled(self.ways, count):
            with installed(way, **self.install):
                self.generate(way, 1)
        return {"same": self.tokens[PYTHON] == self.tokens[PLANNED]}

    def in_blocks(self, count: int) -> dict[str, Any]:
        """`graphs`: how many PyTorch has compiled; `difference`: from a dynamic cache."""
        graphs, difference = {}, None
        for way in self.ways:
            before = counters["stats"]["unique_graphs"]
            with installed(way, **self.install):
                self.generate(way, count)
                if way == PLANNED:
                    difference = self.difference()
            graphs[way] = counters["stats"]["unique_graphs"] - before
            torch.compiler.reset()
            self.gpu.forget()
        return {"graphs": graphs, "difference": difference}

    def mode(self, way: str, kind: type[Eager]) -> Eager:
        return kind(self.models.by_way[way], self.batch, self.gpu)

    def generate(self, way: str, count: int) -> None:
        """Measures `count` generations after a warm-up, then profiles the way if it was not yet."""
        mode = self.mode(way, self.kind)
        mode.generate(self.short)
        for _ in range(count):
            generation = mode.generate(self.new_tokens)
            total = len(generation.tokens) * self.new_tokens
            self.tokens_per_s[way].append(1e6 * total / generation.wall_us)
            self.step_us[way].append(generation.step_us)
        self.tokens[way] = generation.tokens
        if way not in self.busy:
            self.busy[way] = self.profile(mode)

    def profile(self, mode: Eager) -> dict[str, float]:
        """Launches and busy time of a decoding step; empty where CUPTI has lost records."""
        _, launches = self.gpu.records(lambda: mode.generate(self.short, marks=True))
        passes = split(launches, self.gpu.mark_name())
        if len(passes) != self.short:
            print(f"no busy time: CUPTI recorded {len(passes)} of {self.short} forward passes")
            return {}
        steps = passes[1:]  # without the prompt
        return {"launches": fmean(map(len, steps)), "busy_us": fmean(map(busy_ns, steps)) / 1e3}

    def difference(self) -> dict[str, Any] | None:
        """The first token that differs from a dynamic cache's with the same products, and the
        logits of both tokens with both caches: other kernels around the products round differently,
        which decides between nearly tied tokens.
        """
        dynamic = self.mode(PLANNED, Dynamic)
        expected, tokens = dynamic.generate(self.new_tokens).tokens, self.tokens[PLANNED]
        if not (places := different(tokens, expected)):
            return None
        sequence, place = min(places, key=lambda at: at[1])
        both = expected[sequence][place], tokens[sequence][place]
        cell = {"sequence": sequence, "token": place, "tokens": both}
        cell["sequences"] = len({i for i, _ in places})
        for cache, kind in CACHES.items():
            logit = Logit(sequence, place, both)
            self.mode(PLANNED, kind).generate(self.new_tokens, processors=[logit])
            cell[cache] = logit.logits
        return cell
