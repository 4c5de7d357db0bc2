"""The time of a layer as vLLM runs it: the linear layers of its plugin for bitsandbytes, in a CUDA
graph. Without vLLM, reprolab_nf4/tests/stub_vllm.py provides what the plugin imports.
"""

import importlib.util
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, ClassVar

import torch

from experiments.end_to_end import SEED
from experiments.end_to_end.sizes import BLOCK_SIZE, Model
from experiments.product.ways import OWN, PLANNED, SHARDS, installed
from reprolab.errors import InputError
from reprolab_nf4 import measuring
from reprolab_nf4.advice import Shape
from reprolab_nf4.bounds import Interval, Wrong, activations, interval
from reprolab_nf4.quantized import nf4

DTYPE = torch.bfloat16  # to which the plugin converts activations
WAYS = (PLANNED, SHARDS, OWN)  # ours first: it joins scales, whose addresses are then captured


@contextmanager
def plugin(gpu: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The plugin's method for 4-bit layers, and its facts for a result file."""
    from reprolab_nf4.tests import stub_vllm

    has_vllm = importlib.util.find_spec("vllm") is not None
    try:
        with stub_vllm.linear_layers(gpu.kind) as module:
            method = module.BitsAndBytesLinearMethod(types.SimpleNamespace(load_in_8bit=False))
            facts = {"plugin": metadata.version("vllm-bnb-plugin"), "has_vllm": has_vllm}
            yield method, facts
    except ImportError as error:
        raise InputError(str(error)) from None


@dataclass(frozen=True)
class Linear:
    """A linear layer of vLLM. `held`: the object with its weight; `x`: all rows of its inputs."""

    held: Any
    x: torch.Tensor
    outputs: Interval

    @classmethod
    def of(cls, gpu: Any, shards: tuple[int, ...], k: int, rows: int) -> "Linear":
        chance = torch.Generator(gpu.device).manual_seed(SEED)
        made, exact = [], []
        for n in shards:
            dense = torch.empty((n, k), dtype=DTYPE, device=gpu.device)
            made.append(nf4(dense.normal_(0, measuring.SCALE, generator=chance), BLOCK_SIZE))
            exact.append(exact_weights(*made[-1]))
        x = activations(rows, k, gpu.device, DTYPE)[: 2 * rows]
        weights = torch.cat(exact)
        return cls(held_by_vllm(made), x, interval(x, weights, weights.abs()))

    def copy(self) -> Any:
        """The same weight in other memory."""
        states = self.held.weight.bnb_quant_state.values()
        codes = self.held.weight.detach().clone().split([s.shape.numel() // 2 for s in states])
        return held_by_vllm([*zip(codes, map(copied, states), strict=True)])


def copied(state: Any) -> Any:
    given = (state.absmax.clone(), state.shape, state.code, state.blocksize, state.quant_type)
    return type(state)(*given, state.dtype)


def held_by_vllm(shards: list[tuple[torch.Tensor, Any]]) -> Any:
    """A layer with the codes of all shards in one column, as the plugin loads them."""
    codes = [codes for codes, _ in shards]
    weight = torch.nn.Parameter(torch.cat(codes), requires_grad=False)
    weight.bnb_quant_state = {i: state for i, (_, state) in enumerate(shards)}
    weight.bnb_shard_offsets = torch.tensor([0, *map(len, codes)]).cumsum(0)
    return types.SimpleNamespace(weight=weight)


def exact_weights(codes: torch.Tensor, state: Any) -> torch.Tensor:
    """In fp32, before they are rounded to 16 bits."""
    pairs = torch.cat([codes >> 4, codes & 15], 1)  # the first weight is in the high half
    weights = state.code[pairs.long()].view(-1, state.blocksize) * state.absmax[:, None]
    return weights.view(state.shape)


class Served:
    """A part of a decoder layer, in enough copies that each has left the cache before it is used
    again.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "qkv": ("qkv",),
        "gate_up": ("gate_up",),
        "layer": ("qkv", "o", "gate_up", "down"),
    }

    def __init__(self, gpu: Any, method: Any, sizes: Model, part: str, rows: int):
        self.gpu, self.apply, self.rows = gpu, method.apply, rows
        shapes = shapes_of(sizes)
        self.linears = [Linear.of(gpu, *shapes[name], rows) for name in self.parts[part]]
        weights = sum(sum(shapes[name][0]) * shapes[name][1] for name in self.parts[part])
        more = measuring.copies_needed(gpu, Shape(1, weights, BLOCK_SIZE, False, "bfloat16")) - 1
        copies = [[linear.copy() for linear in self.linears] for _ in range(more)]
        self.copies = [[linear.held for linear in self.linears], *copies]

    def measure(self, requests: int) -> dict[str, Any]:
        """A cell of the result file: samples by way, and the faults of the other ways."""
        pool, wrong = self.gpu.new_pool(), {}
        replays: dict[str, Callable[[], None]] = {}
        outputs: dict[str, list[list[torch.Tensor]]] = {}
        for way in WAYS:
            with installed(way):
                # The last rows have few nonzero inputs, so that a wrong scale shows.
                outputs_now, first = self.step(self.rows, requests), self.rows
                replays[way] = self.gpu.capture(self.keeping(way, requests, outputs), pool)
            self.check(way, outputs_now, first, wrong)
            self.replayed(way, replays, outputs, wrong)
        timed = {way: replays[way] for way in replays if way not in wrong}
        samples = measuring.in_turn(self.gpu, timed, len(self.copies)) if timed else {}
        for way in timed:
            self.replayed(way, replays, outputs, wrong)
        return {"us": {w: us for w, us in samples.items() if w not in wrong}, "wrong": wrong}

    def step(self, first: int, requests: int) -> list[list[torch.Tensor]]:
        given = [linear.x[first : first + requests] for linear in self.linears]
        return [
            [self.apply(held, x) for held, x in zip(copy, given, strict=True)]
            for copy in self.copies
        ]

    def keeping(self, way: str, requests: int, outputs: dict) -> Callable[[], None]:
        def step() -> None:
            outputs[way] = self.step(0, requests)

        return step

    def replayed(self, way: str, replays: dict, outputs: dict, wrong: dict[str, str]) -> None:
        """Checks the outputs of a replay."""
        for copy in outputs[way]:
            for output in copy:
                output.fill_(torch.nan)
        replays[way]()
        self.check(way, outputs[way], 0, wrong)

    def check(
        self, way: str, outputs: list[list[torch.Tensor]], first: int, wrong: dict[str, str]
    ) -> None:
        """Stores the first fault of the way in `wrong`."""
        for copy in outputs:
            for linear, output in zip(self.linears, copy, strict=True):
                try:
                    linear.outputs.check(output, first)
                except Wrong as error:
                    wrong.setdefault(way, str(error))


def shapes_of(sizes: Model) -> dict[str, tuple[tuple[int, ...], int]]:
    """The outputs of each shard, and the inputs, of the linear layers of a decoder layer."""
    q, kv = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    return {
        "qkv": ((q, kv, kv), sizes.hidden),
        "o": ((sizes.hidden,), q),
        "gate_up": ((sizes.intermediate, sizes.intermediate), sizes.hidden),
        "down": ((sizes.hidden,), sizes.intermediate),
    }
