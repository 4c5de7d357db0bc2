"""Times of a model's quantized matmuls: with the installed bitsandbytes, with each kernel under it,
and in each way of timing_table.py. advice.py adds them up, tune() writes them to a table. Needs
torch and bitsandbytes.
"""

import copy
import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import cycle, islice
from statistics import median
from typing import Any

import bitsandbytes
import torch
from bitsandbytes import functional

import reprolab_nf4
from reprolab_nf4 import bounds, matmul, timing_table
from reprolab_nf4.advice import (
    BY_TABLE,
    FASTEST,
    INSTALLED,
    OWN,
    Phase,
    Shape,
    Times,
    Variant,
    text,
)
from reprolab_nf4.c_functions import DropinError, shown
from reprolab_nf4.quantized import linear

SAMPLES = 7
SEED = 1  # of their order
CACHES = 3  # L2 caches that the copies of a layer's codes fill, so that each is read cold
MOST_COPIES = 1024  # of a small layer, to limit the time
SHORTEST_US = 2000  # of a sample
PROMPT_TOKENS = 50  # the median of GSM8K's questions
ROWS = tuple(2**i for i in range(10))  # of a table
NO_TIMES = (
    "No times of products by 4-bit weights are recorded for this GPU. make tune, or\n"
    "reprolab_nf4.tune(model, file), measures them, for install(table=file)."
)
CALLS_UNTIL_PLANNED = 3  # of a layer: docs/drop-in-cases.md
SIMPLE_ROWS = 8  # above, `simple` is by far the slowest
VERIFIED_ROWS = 8  # fewer run the same code

SCALE = 0.02  # of random weights, as transformers initializes them

Weights = Sequence[tuple[torch.Tensor, Any]]  # codes and bitsandbytes' quantization state


class Gpu:
    """The current GPU: its properties, timing and capture."""

    kind, device = "cuda", torch.device("cuda")

    def name(self) -> str:
        return torch.cuda.get_device_name()

    def l2_bytes(self) -> int:
        return torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size

    def forget(self) -> None:
        """Frees cached memory that nothing uses."""
        gc.collect()
        torch.cuda.empty_cache()

    def time_us(self, run: Callable[[], None], times: int) -> float:
        """The time of `times` runs in a row, between two events."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)

    def new_pool(self) -> Any:
        """Memory for graphs that never run at the same time, nor read each other's results."""
        return torch.cuda.graph_pool_handle()

    def capture(
        self, step: Callable[[], None], pool: Any, before: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """The step in a CUDA graph; `before` restores the state that a step starts from."""
        before()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()  # a capture allows no initialization
        torch.cuda.current_stream().wait_stream(stream)
        before()
        graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
        gc.disable()  # destroying an older graph would end the capture
        try:
            with torch.cuda.graph(graph, pool=pool):
                step()
        finally:
            if collects:
                gc.enable()

        def replay() -> None:
            graph.replay()

        replay.reads = step  # keeps the memory alive that the graph reads
        return replay


def advise(gpu: Any, model: torch.nn.Module, batch: int, kernels: list[str]) -> str:
    layers = layers_of(gpu, model)
    counts = {shape: len(weights) for shape, weights in layers.items()}
    weights_of = lambda shape: weights_in(gpu, shape, layers[shape])  # noqa: E731
    return advice(gpu, type(model).__name__, counts, weights_of, batch, kernels)


def layers_of(gpu: Any, model: torch.nn.Module) -> dict[Shape, Weights]:
    """The layers in NF4 by shape, including those that PEFT has wrapped."""
    if not isinstance(model, torch.nn.Module):
        wanted = "give a loaded model, a torch.nn.Module"
        raise DropinError(f"model: {wanted}, not {shown(model)}")
    layers: dict[Shape, list[tuple[torch.Tensor, Any]]] = {}
    for layer in model.modules():
        if not isinstance(layer, bitsandbytes.nn.Linear4bit):
            continue
        state = getattr(layer.weight, "quant_state", None)
        if getattr(state, "quant_type", None) == "nf4" and layer.weight.device.type == gpu.kind:
            output, compute = name_of(state.dtype), name_of(layer.compute_dtype or state.dtype)
            compute = "" if compute == output else compute
            shape = Shape(*state.shape, state.blocksize, state.nested, output, compute)
            layers.setdefault(shape, []).append((layer.weight.data, state))
    if not layers:
        raise DropinError("model: has no layers in NF4 on a GPU; quantize it, and load it there")
    return layers


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def weights_in(gpu: Any, shape: Shape, layers: Weights) -> Weights:
    """As many weights as copies_needed(), on one GPU."""
    device = layers[0][0].device
    own = [(codes, state) for codes, state in layers if codes.device == device]
    count = copies_needed(gpu, shape)
    more = islice(cycle(own), max(0, count - len(own)))
    return own[:count] + [(codes.clone(), state) for codes, state in more]


def copies_needed(gpu: Any, shape: Shape) -> int:
    """Copies of a layer that together exceed the L2 cache, so that each is read cold."""
    count = 1 + CACHES * gpu.l2_bytes() // max(1, shape.rows * shape.columns // 2)
    return min(max(2, count), MOST_COPIES)


def advice(
    gpu: Any,
    name: str,
    counts: dict[Shape, int],
    weights_of: Callable[[Shape], Weights],
    batch: int,
    kernels: list[str],
    begin: Callable[[int, Shape], None] = lambda done, shape: None,
) -> str:
    """`begin` is called with the number of finished shapes and the next shape."""
    sizes = {
        f"one step at batch {batch}": batch,
        f"the prompts, of {PROMPT_TOKENS} tokens each": batch * PROMPT_TOKENS,
    }
    phases = tuple(Phase(what, {}, counts) for what in sizes)
    eager = Phase(phases[0].what, {}, counts)
    refused: dict[str, str] = {}
    for done, shape in enumerate(counts):
        begin(done, shape)
        weights = weights_of(shape)
        device = weights[0][0].device
        with torch.cuda.device_of(weights[0][0]):
            refused |= {k: why for k in kernels if (why := difference(k, *weights[0]))}
            kernels = [k for k in kernels if k not in refused]
            for phase in phases:
                samples = times(gpu, shape, weights, sizes[phase.what], variants(kernels))
                phase.times.update(samples)
            by_host = [INSTALLED] if FASTEST in kernels else []
            eager.times.update(eager_times(gpu, shape, weights, batch, by_host))
            del weights
            gpu.forget()
    own = f"bitsandbytes {bitsandbytes.__version__}"
    fuses = matmul.knows_fused_products()
    report = text(name, own, phases, eager, kernels, refused, fuses)
    is_known = timing_table.recorded(gpu.name(), matmul.capability(device)) is not None
    return report if is_known else f"{report}\n\n{NO_TIMES}"


def variants(kernels: list[str]) -> list[Variant]:
    """The variants that are compared with the installed bitsandbytes."""
    return [*map(Variant, kernels), *(v for v in BY_TABLE if v.kernel in kernels)]


def difference(kernel: str, codes: torch.Tensor, state: Any) -> str:
    """How the kernel's output differs from bitsandbytes'; empty if it is the same, bit for bit."""
    expected = functional.dequantize_4bit(codes, state)
    try:
        with reprolab_nf4.install(kernel=kernel, products="bitsandbytes"):
            weights = functional.dequantize_4bit(codes, state)
    except torch.OutOfMemoryError:  # not a fault of the kernel
        raise
    except (RuntimeError, ValueError) as error:
        return str(error).partition("\n")[0]
    wrong = int((weights.view(torch.int16) != expected.view(torch.int16)).sum())
    return f"{wrong} of {state.shape.numel()} weights differ" if wrong else ""


def times(gpu: Any, shape: Shape, weights: Weights, size: int, compared: list[Variant]) -> Times:
    """Samples of one matmul in a CUDA graph, in us, by variant."""
    replays: dict[Variant, Callable[[], None]] = {}
    pool = gpu.new_pool()
    for variant in (OWN, *compared):
        with variant.in_place():
            products = all_products(shape, weights, size, bitsandbytes.matmul_4bit)
            replays[variant] = gpu.capture(products, pool)
    sampled = in_turn(gpu, replays, len(weights))
    return {(variant, shape): samples for variant, samples in sampled.items()}


def eager_times(
    gpu: Any, shape: Shape, weights: Weights, size: int, compared: list[Variant]
) -> Times:
    """Samples of one layer called in Python, in us: the longer of the host's and the GPU's time."""
    dtype = computed_in(shape, weights[0][1])
    layers = [linear(codes, state, dtype).eval() for codes, state in weights]
    x = torch.ones((size, shape.columns), dtype=dtype, device=weights[0][0].device)

    @torch.no_grad()
    def step() -> None:
        for layer in layers:
            layer(x)

    @contextmanager
    def planned(variant: Variant):
        with variant.in_place():
            gpu.time_us(step, CALLS_UNTIL_PLANNED)  # waits for its launches
            yield

    step()  # initializes what a first call does
    steps = dict.fromkeys((OWN, *compared), step)
    sampled = in_turn(gpu, steps, len(weights), under=planned)
    return {(variant, shape): samples for variant, samples in sampled.items()}


def all_products(
    shape: Shape, weights: Weights, size: int, multiply: Callable[..., torch.Tensor]
) -> Callable[[], None]:
    codes, state = weights[0]
    x = torch.ones((size, shape.columns), dtype=computed_in(shape, state), device=codes.device)

    @torch.no_grad()
    def products() -> None:
        for codes, state in weights:
            multiply(x, codes.t(), quant_state=state)

    return products


def computed_in(shape: Shape, state: Any) -> torch.dtype:
    return getattr(torch, shape.compute) if shape.compute else state.dtype


def in_turn(
    gpu: Any,
    replays: dict[Any, Callable[[], None]],
    products: int,
    after: Callable[[Any], None] = lambda name: None,
    under: Callable[[Any], Any] = lambda name: nullcontext(),
) -> dict[Any, list[float]]:
    """Samples in us of one of the `products` matmuls of a replay, in shuffled rounds, each inside
    the context `under(name)`, then `after(name)`. All samples repeat a replay equally often.
    """
    samples: dict[Any, list[float]] = {name: [] for name in replays}
    often = 1 + int(SHORTEST_US / max(1.0, gpu.time_us(next(iter(replays.values())), 1)))
    for name in shuffled(replays, SAMPLES):
        with under(name):
            samples[name].append(gpu.time_us(replays[name], often) / often / products)
        after(name)
    return samples


def shuffled(names: Iterable[Any], rounds: int, seed: Any = SEED) -> Iterator[Any]:
    """All names in each round, in a new order, so that a drift affects all equally."""
    order, every = random.Random(seed), list(names)
    for _ in range(rounds):
        yield from order.sample(every, len(every))


def tune(
    gpu: Any,
    shapes: Sequence[Shape],
    weights_of: Callable[[Shape], Weights],
    begin: Callable[[int, Shape], None] = lambda done, shape: None,
) -> timing_table.Table:
    """Times of each way in a CUDA graph, at ROWS. The table's source names the kernels that are
    left out because their outputs are wrong on this GPU. `begin`: as in advice().
    """
    layers, gpus = [], set()
    refused: dict[str, str] = {}
    types = {name_of(dtype): name for dtype, name in matmul.TYPES.items()}
    type_of = {shape: types.get(shape.compute or shape.output) for shape in shapes}
    shapes = [shape for shape in shapes if type_of[shape]]
    if not shapes:
        set_it = "set bnb_4bit_compute_dtype=torch.bfloat16"
        raise DropinError(f"model: no layer computes in fp16 or bf16; {set_it}")
    with reprolab_nf4.install(products="bitsandbytes") as installed:
        for done, shape in enumerate(shapes):
            begin(done, shape)
            weights = weights_of(shape)
            device, type = weights[0][0].device, type_of[shape]
            with torch.cuda.device_of(weights[0][0]):
                gpus.add((gpu.name(), matmul.capability(device)))
                if len(gpus) > 1:
                    kinds = ", ".join(sorted(name for name, _ in gpus))
                    raise DropinError(f"model: is on several kinds of GPU: {kinds}")
                refused |= wrong_kernels(shape, weights[0], installed.library)
                kernels = [k for k in installed.library.products() if k not in refused]
                of = (gpu, shape, weights, installed.library, kernels)
                us = {rows: ways(*of, rows) for rows in ROWS}
            layers.append(
                timing_table.Layer(shape.rows, shape.columns, type, bool(shape.nested), us)
            )
            del weights
            gpu.forget()
    source = f"make tune, bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__}"
    for layer in layers:  # also those measured before the kernel was found wrong
        for us in layer.us.values():
            for kernel in refused:
                us.pop(kernel, None)
    left_out = "".join(f"; left out: {kernel}: {why}" for kernel, why in refused.items())
    return timing_table.Table(*gpus.pop(), source + left_out, tuple(layers))


@torch.no_grad()
def wrong_kernels(
    shape: Shape, weights: tuple[torch.Tensor, Any], library: reprolab_nf4.Library
) -> dict[str, str]:
    """The library's kernels with outputs outside their interval on this GPU, and the fault."""
    codes, state = weights
    exact = copy.copy(state)
    exact.dtype = torch.float32  # by a kernel of bitsandbytes
    in_fp32 = functional.dequantize_4bit(codes, exact).view(shape.rows, shape.columns)
    dtype = computed_in(shape, state)
    x = bounds.activations(ROWS[-1], shape.columns, codes.device, dtype)
    offset = float(state.offset) if state.nested else 0.0
    allowed, refused = bounds.interval(x, in_fp32, in_fp32.abs(), offset), {}
    for kernel in library.products():
        multiply = always(library, kernel)
        try:
            for rows in ROWS:
                if rows < VERIFIED_ROWS or not takes(library, codes.device, shape, kernel, rows):
                    continue
                for first in (0, *range(ROWS[-1], len(x), rows)):
                    begin = min(first, len(x) - rows)
                    outputs = multiply(x[begin : begin + rows], codes.t(), quant_state=state)
                    allowed.check(outputs, begin)
        except bounds.Wrong as wrong:
            refused[kernel] = f"{shape.text} weights: {wrong}"
    return refused


def always(library: reprolab_nf4.Library, way: str) -> Callable[..., torch.Tensor]:
    """bitsandbytes' matmul_4bit, computed in that way."""
    ways_of = matmul.Always(library, way)
    return matmul.replacement(bitsandbytes.matmul_4bit, ways_of)


def takes(
    library: reprolab_nf4.Library, device: torch.device, shape: Shape, kernel: str, rows: int
) -> bool:
    sizes = (shape.rows, shape.columns, shape.block_size)
    is_slow = kernel == "simple" and rows > SIMPLE_ROWS
    return not is_slow and matmul.runs(library, device, kernel, rows, *sizes)


def ways(
    gpu: Any,
    shape: Shape,
    weights: Weights,
    library: reprolab_nf4.Library,
    kernels: Sequence[str],
    rows: int,
) -> dict[str, float]:
    """Medians in us."""
    device = weights[0][0].device
    kernels = [k for k in kernels if takes(library, device, shape, k, rows)]
    pool, replays = gpu.new_pool(), {}
    for way in (timing_table.OWN, timing_table.DEQUANTIZE, *kernels):
        products = all_products(shape, weights, rows, always(library, way))
        replays[way] = gpu.capture(products, pool)
    sampled = in_turn(gpu, replays, len(weights))
    return {way: round(median(samples), 3) for way, samples in sampled.items()}
