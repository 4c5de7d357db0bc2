"""Tokens per second of transformers' generate() by library, and the gaps between the kernels of a
decoding step; with the cache that generate() takes by default, or with a static one.

    python -m experiments.product.generation --sequences 1,4,16 --output results/generation.json
    python -m experiments.product.generation --sequences 1,4 --cache static --output ...

Ours is measured twice: as installed, and with every call in Python, as before PyTorch 2.10.

Exit status: 0; 1 if tokens of both measurements of ours differ; 2 for wrong usage.
"""

import argparse
import datetime
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar
from unittest import mock

import torch
import transformers
from torch._dynamo.utils import counters
from transformers.quantizers.quantizer_bnb_4bit import Bnb4BitHfQuantizer

from experiments.end_to_end import SEED, build
from experiments.end_to_end.generate import Eager, batch_of
from experiments.end_to_end.protocol import Tokens, busy_ns, different, split
from experiments.end_to_end.sizes import NF4_BYTES, Model, known
from reprolab.command_line import Parser, numbers, run
from reprolab.errors import InputError
from reprolab.output import write_files
from reprolab.result_file import checkout
from reprolab_nf4.measuring import shuffled

DENSE, OWN, PYTHON, PLANNED = "nn.Linear", "bitsandbytes", "python", "planned"
BACKENDS = (DENSE, OWN, PYTHON, PLANNED)  # of linear layers; the last two are ours
GENERATIONS, TOKENS = 5, 64
PROMPT = 32  # tokens
SHORT = 8  # new tokens of a generation after which layers are planned, or that is profiled
DTYPE = torch.bfloat16
DENSE_BYTES = 2.0  # of a weight
COPIED_BYTES, COPIES = 1 << 30, 20  # of the copy whose bandwidth bounds a step


@contextmanager
def installed(backend: str, **given: Any) -> Iterator[None]:
    """Installs ours if the backend is ours; "python": without the extension in C."""
    import reprolab_nf4
    from reprolab_nf4 import layers

    without = mock.patch.object(layers, "EXTENSION", Path("none"))
    with without if backend == PYTHON else nullcontext():
        if backend == PLANNED and layers.extension() is None:
            raise InputError("_layers.abi3.so cannot be used here: make dropin; PyTorch 2.10")
        is_ours = backend in (PYTHON, PLANNED)
        with reprolab_nf4.install(**given) if is_ours else nullcontext():
            yield


class Dynamic(Eager):
    """With the cache that generate() takes by default; all backends in shuffled rounds."""

    backends = BACKENDS


class Static(Eager):
    """With a static cache: transformers compiles the decoding step if it may. The generations of a
    backend run consecutively, because another install() would compile the step again.
    """

    options: ClassVar[dict[str, Any]] = {"cache_implementation": "static"}
    backends = (DENSE, OWN, PLANNED)


CACHES = {"dynamic": Dynamic, "static": Static}


class Models:
    """The model of each backend; none of 16 bits if it does not fit the GPU."""

    def __init__(self, gpu: Any, sizes: Model, nested: bool, batch: int, tokens: int):
        if why := lacks_memory(gpu, sizes, batch, tokens, NF4_BYTES):
            raise InputError(f"{sizes.id}: {why}")
        quantized = partial(build.quantized, nested=nested)
        packed = build.from_sizes(sizes, gpu.device, DTYPE, quantized)
        # As after from_pretrained: generate() asks it whether it may compile the model.
        config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
        packed.hf_quantizer = Bnb4BitHfQuantizer(config)
        self.by_backend = dict.fromkeys((OWN, PYTHON, PLANNED), packed)
        if not lacks_memory(gpu, sizes, batch, tokens, DENSE_BYTES):
            self.by_backend[DENSE] = build.from_sizes(sizes, gpu.device, DTYPE, build.in_16_bits)


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
    """Generations of `batch` sequences with `tokens` new tokens and one cache, by backend.
    `install`: arguments of install().
    """

    def __init__(
        self, gpu: Any, models: Models, cache: str, batch: int, tokens: int, **install: Any
    ):
        self.gpu, self.models, self.install = gpu, models, install
        self.kind, self.new_tokens = CACHES[cache], tokens
        # The step is compiled again for a static cache of another size.
        self.short = tokens if self.kind is Static else min(SHORT, tokens)
        self.backends = [backend for backend in self.kind.backends if backend in models.by_backend]
        vocab = models.by_backend[OWN].config.get_text_config().vocab_size
        some = torch.Generator().manual_seed(SEED)
        prompts = torch.randint(0, vocab, (batch, PROMPT), generator=some).tolist()
        self.batch = batch_of(prompts, tokens, gpu.device)
        self.tokens_per_s: dict[str, list[float]] = {backend: [] for backend in self.backends}
        self.step_us: dict[str, list[float]] = {backend: [] for backend in self.backends}
        self.tokens: dict[str, Tokens] = {}
        self.dynamic: Tokens = []  # beside those of a static cache
        self.busy: dict[str, dict[str, float]] = {}

    def measure(self, count: int) -> dict[str, Any]:
        """A cell of the result file, with `count` generations of each backend."""
        models = [self.models.by_backend[backend] for backend in self.backends]
        cell = {"tokens_per_s": self.tokens_per_s}
        cell |= {"bytes": dict(zip(self.backends, map(bytes_of_step, models), strict=True))}
        cell |= self.in_blocks(count) if self.kind is Static else self.in_rounds(count)
        steps = {backend: {"wall_us": median(us)} for backend, us in self.step_us.items()}
        cell["steps"] = {backend: us | self.busy.get(backend, {}) for backend, us in steps.items()}
        return cell

    def in_rounds(self, count: int) -> dict[str, Any]:
        for backend in shuffled(self.backends, count):
            with installed(backend, **self.install):
                self.generate(backend, 1)
        return {"same": self.tokens[PYTHON] == self.tokens[PLANNED]}

    def in_blocks(self, count: int) -> dict[str, Any]:
        """`graphs`: how many PyTorch has compiled; `different`: sequences with other tokens than
        with a dynamic cache: other kernels around the products decide between nearly tied tokens.
        """
        graphs, sequences = {}, set()
        for backend in self.backends:
            before = counters["stats"]["unique_graphs"]
            with installed(backend, **self.install):
                self.generate(backend, count)
                if backend == PLANNED:
                    self.dynamic = self.mode(backend, Dynamic).generate(self.new_tokens).tokens
                    sequences = {i for i, _ in different(self.tokens[backend], self.dynamic)}
            graphs[backend] = counters["stats"]["unique_graphs"] - before
            torch.compiler.reset()
            self.gpu.forget()
        return {"graphs": graphs, "different": len(sequences)}

    def mode(self, backend: str, kind: type[Eager]) -> Eager:
        return kind(self.models.by_backend[backend], self.batch, self.gpu)

    def generate(self, backend: str, count: int) -> None:
        """Measures `count` generations after a warm-up, and profiles the backend once."""
        mode = self.mode(backend, self.kind)
        mode.generate(self.short)
        for _ in range(count):
            generation = mode.generate(self.new_tokens)
            total = len(generation.tokens) * self.new_tokens
            self.tokens_per_s[backend].append(1e6 * total / generation.wall_us)
            self.step_us[backend].append(generation.step_us)
        self.tokens[backend] = generation.tokens
        if backend not in self.busy:
            self.busy[backend] = self.profile(mode)

    def profile(self, mode: Eager) -> dict[str, float]:
        """Launches and busy time of a decoding step; empty where CUPTI has lost records."""
        _, launches = self.gpu.records(lambda: mode.generate(self.short, marks=True))
        passes = split(launches, self.gpu.mark_name())
        if len(passes) != self.short:
            print(f"no busy time: CUPTI recorded {len(passes)} of {self.short} forward passes")
            return {}
        steps = passes[1:]  # without the prompt
        return {"launches": fmean(map(len, steps)), "busy_us": fmean(map(busy_ns, steps)) / 1e3}


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.generation", description=__doc__)
    p.add_argument("--sequences", required=True, help="1,4,16")
    p.add_argument("--nested", action="store_true", help="double-quantized scales")
    p.add_argument("--model", default="llama-3.1-8b", help="with random weights")
    p.add_argument("--cache", choices=CACHES, default="dynamic")
    p.add_argument("--generations", type=int, default=GENERATIONS, help="of each backend")
    p.add_argument("--tokens", type=int, default=TOKENS, help="new ones of each sequence")
    p.add_argument("--output", type=Path, required=True, help="a JSON file")
    p.set_defaults(run=reproduce)
    return p


def reproduce(args: argparse.Namespace) -> int:
    batches = numbers("--sequences", args.sequences, "1,4,16")
    given = {"sequences": min(batches), "tokens": args.tokens - 1}
    for name, value in (given | {"generations": args.generations}).items():
        if value < 1:
            raise InputError(f"--{name}: give more, not {getattr(args, name)}")
    if args.model not in known():
        raise InputError(f"--model: give one of {', '.join(known())}, not '{args.model}'")
    if not torch.cuda.is_available():
        raise InputError("no GPU is visible to PyTorch")
    with torch.no_grad():
        return measured(args, batches)


def measured(args: argparse.Namespace, batches: Sequence[int]) -> int:
    import bitsandbytes

    from experiments.end_to_end.gpu import Gpu

    build.quiet()
    gpu, sizes = Gpu(), known()[args.model]
    packages = (torch, bitsandbytes, transformers)
    content = {
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "commit": checkout().commit,
        "gpu": gpu.facts()["name"],
        "versions": {package.__name__: package.__version__ for package in packages},
        "copy_gb_s": copy_gb_s(gpu),
        "sequences": [],
    }
    models = Models(gpu, sizes, args.nested, max(batches), args.tokens)
    for batch in batches:
        cell = {"sequences": batch, "model": sizes.id, "layers": sizes.layers}
        cell |= {"nested": args.nested, "cache": args.cache, "tokens": args.tokens}
        cell |= Generations(gpu, models, args.cache, batch, args.tokens).measure(args.generations)
        content["sequences"].append(cell)
        write_files({args.output: (json.dumps(content, indent=1) + "\n").encode()})
        speeds = (f"{name} {median(values):.1f}" for name, values in cell["tokens_per_s"].items())
        print(f"{batch} sequences, tokens/s: {', '.join(speeds)}", flush=True)
    return 0 if all(cell.get("same", True) for cell in content["sequences"]) else 1


if __name__ == "__main__":
    sys.exit(run(parser()))
