"""Times of a model's quantized products, with the bitsandbytes that is installed and with each
kernel under it: advice.py adds them up. Needs torch and bitsandbytes.
"""

import gc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import cycle, islice
from typing import Any

import bitsandbytes
import torch
from bitsandbytes import functional

import reprolab_nf4
from reprolab_nf4.advice import FASTEST, OWN, Phase, Shape, Times, Variant, text

SAMPLES = 7
CACHES = 3  # as large as so many are the codes in turn, so that a product finds its own in none
SHORTEST_US = 2000  # of a sample
PROMPT_TOKENS = 50  # the median of GSM8K's questions

Weights = Sequence[tuple[torch.Tensor, Any]]  # codes and bitsandbytes' quantization state


class Gpu:
    """The current one, and what only a GPU can do."""

    kind = "cuda"

    def l2_bytes(self) -> int:
        return torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size

    def forget(self) -> None:
        """Gives memory back that nothing holds any more."""
        gc.collect()
        torch.cuda.empty_cache()

    def time_us(self, run: Callable[[], None], times: int) -> float:
        """Of so many runs one behind the other, between two events."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)

    def new_pool(self) -> Any:
        """Memory for graphs that never run beside each other, nor read what another left."""
        return torch.cuda.graph_pool_handle()

    def capture(
        self, step: Callable[[], None], pool: Any, before: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """The step in a CUDA graph; `before` puts everything at the state that a step begins in."""
        before()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()  # what is made at first use cannot be made while a graph is captured
        torch.cuda.current_stream().wait_stream(stream)
        before()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            step()
        return graph.replay


def advise(gpu: Any, model: torch.nn.Module, batch: int, kernels: list[str]) -> str:
    found: dict[Shape, list[tuple[torch.Tensor, Any]]] = {}
    for layer in model.modules():
        state = getattr(getattr(layer, "weight", None), "quant_state", None)
        if getattr(state, "quant_type", None) == "nf4" and layer.weight.device.type == gpu.kind:
            output = str(state.dtype).removeprefix("torch.")
            shape = Shape(*state.shape, state.blocksize, state.nested, output)
            found.setdefault(shape, []).append((layer.weight.data, state))
    if not found:
        raise reprolab_nf4.DropinError("model: has no layers in NF4 on a GPU; load it there first")

    def weights_of(shape: Shape) -> Weights:
        device = found[shape][0][0].device
        own = [(codes, state) for codes, state in found[shape] if codes.device == device]
        count = copies_needed(gpu, shape)
        more = islice(cycle(own), max(0, count - len(own)))
        return own[:count] + [(codes.clone(), state) for codes, state in more]

    counts = {shape: len(layers) for shape, layers in found.items()}
    return advice(gpu, type(model).__name__, counts, weights_of, batch, kernels)


def copies_needed(gpu: Any, shape: Shape) -> int:
    """So many that a copy has left the cache before it is used again."""
    return max(2, 1 + CACHES * gpu.l2_bytes() // max(1, shape.rows * shape.columns // 2))


def advice(
    gpu: Any,
    name: str,
    counts: dict[Shape, int],
    weights_of: Callable[[Shape], Weights],
    batch: int,
    kernels: list[str],
    begin: Callable[[int, Shape], None] = lambda done, shape: None,
) -> str:
    """`begin` is called with each shape and the number of those that are done."""
    sizes = {
        f"one step at batch {batch}": batch,
        f"the prompts, of {PROMPT_TOKENS} tokens each": batch * PROMPT_TOKENS,
    }
    phases = tuple(Phase(what, {}, counts) for what in sizes)
    refused: dict[str, str] = {}
    for done, shape in enumerate(counts):
        begin(done, shape)
        weights = weights_of(shape)
        with torch.cuda.device_of(weights[0][0]):
            refused |= {k: why for k in kernels if (why := difference(k, *weights[0]))}
            kernels = [k for k in kernels if k not in refused]
            for phase in phases:
                found = times(gpu, shape, weights, sizes[phase.what], variants(kernels))
                phase.times.update(found)
            del weights
            gpu.forget()
    own = f"bitsandbytes {bitsandbytes.__version__}"
    return text(name, own, batch, phases, kernels, refused, can_fuse())


def can_fuse() -> bool:
    """Whether the installed bitsandbytes knows products without dequantization."""
    return hasattr(torch.ops.bitsandbytes, "gemm_4bit")


def variants(kernels: list[str]) -> list[Variant]:
    """What is compared with bitsandbytes as it is installed."""
    dequantizing = [Variant(FASTEST, True)] * (can_fuse() and FASTEST in kernels)
    return [*map(Variant, kernels), *dequantizing]


def difference(kernel: str, codes: torch.Tensor, state: Any) -> str:
    """Empty where the kernel's output is bitsandbytes' own, bit for bit."""
    expected = functional.dequantize_4bit(codes, state)
    try:
        with reprolab_nf4.install(kernel=kernel):
            found = functional.dequantize_4bit(codes, state)
    except torch.OutOfMemoryError:  # is not the kernel's fault
        raise
    except (RuntimeError, ValueError) as error:
        return str(error).partition("\n")[0]
    wrong = int((found.view(torch.int16) != expected.view(torch.int16)).sum())
    return f"{wrong} of {state.shape.numel()} weights differ" if wrong else ""


def times(gpu: Any, shape: Shape, weights: Weights, size: int, compared: list[Variant]) -> Times:
    """Of one product, in us; all variants in turn, so often."""
    codes, state = weights[0]
    x = torch.ones((size, shape.columns), dtype=state.dtype, device=codes.device)

    def products() -> None:
        for codes, state in weights:
            bitsandbytes.matmul_4bit(x, codes.t(), quant_state=state)

    replays: dict[Variant, Callable[[], None]] = {}
    pool = gpu.new_pool()
    for variant in (OWN, *compared):
        given = {"kernel": variant.kernel, "dequantize_from": 1 if variant.dequantizes else None}
        in_place = nullcontext() if variant == OWN else reprolab_nf4.install(**given)
        with torch.no_grad(), in_place:
            replays[variant] = gpu.capture(products, pool)
    found: Times = {(variant, shape): [] for variant in replays}
    often = 1 + int(SHORTEST_US / max(1.0, gpu.time_us(replays[OWN], 1)))
    for _ in range(SAMPLES):
        for variant, replay in replays.items():
            found[variant, shape].append(gpu.time_us(replay, often) / often / len(weights))
    return found
