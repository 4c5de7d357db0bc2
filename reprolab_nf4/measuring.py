"""Times of quantized matmuls, by what is installed and by backend: advise() compares installations
for a model's layers, tune() writes a table of backends. Needs torch and bitsandbytes.
"""

import copy
import gc
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from statistics import median
from typing import Any

import bitsandbytes
import torch
from bitsandbytes import functional

from reprolab_nf4 import bounds, installation, matmul, timing_table
from reprolab_nf4.c_functions import DropinError, shown
from reprolab_nf4.checkpoint import Shape
from reprolab_nf4.library import Library
from reprolab_nf4.timing_table import BITSANDBYTES, DEQUANTIZE

SAMPLES = 7
SEED = 1  # of their order
CACHES = 3  # L2 caches that the copies of a layer's codes fill, so that each is read cold
MOST_COPIES = 1024  # of a small layer, to limit the time
SHORTEST_US = 2000  # of a sample
PROMPT_TOKENS = 50  # the median of GSM8K's questions
ROWS = tuple(2**i for i in range(10))  # of a table
SIMPLE_ROWS = 8  # above, `simple` is by far the slowest
VERIFIED_ROWS = 8  # fewer run the same code
SCALE = 0.02  # of random weights, as transformers initializes them
LEAST_GAIN = 1.01  # less than the spread between runs

OWN = ""  # bitsandbytes as it is installed, among the arguments `products` that are compared
COMPARED = (OWN, "bitsandbytes", "exact", "fastest")
GRAPH, EAGER, PROMPT = "a step in a CUDA graph", "the same step, eager", "the prompts"
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


def nf4(weight: torch.Tensor, block_size: int, nested: bool = False) -> tuple[torch.Tensor, Any]:
    """Codes and bitsandbytes' quantization state."""
    how = {"blocksize": block_size, "compress_statistics": nested, "quant_type": "nf4"}
    return functional.quantize_4bit(weight, **how)


def random_nf4(gpu: Any, shape: Shape) -> tuple[torch.Tensor, Any]:
    dtype = getattr(torch, shape.output)
    weight = torch.empty((shape.rows, shape.columns), dtype=dtype, device=gpu.device)
    return nf4(weight.normal_(0, SCALE), shape.block_size, shape.nested)


def linear(codes: torch.Tensor, state: Any, compute: torch.dtype) -> torch.nn.Module:
    """bitsandbytes' layer for quantized weights."""
    n, k = state.shape
    how = {"compress_statistics": state.nested, "quant_type": "nf4"}
    layer = bitsandbytes.nn.Linear4bit(
        k, n, bias=False, compute_dtype=compute, device="meta", **how
    )
    how |= {"quant_state": state, "blocksize": state.blocksize, "bnb_quantized": True}
    layer.weight = bitsandbytes.nn.Params4bit(codes, requires_grad=False, module=layer, **how)
    layer.quant_state = state
    return layer


def layers_of(gpu: Any, model: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers in NF4, including those that PEFT has wrapped."""
    if not isinstance(model, torch.nn.Module):
        wanted = "give a loaded model, a torch.nn.Module"
        raise DropinError(f"model: {wanted}, not {shown(model)}")
    every = [layer for layer in model.modules() if isinstance(layer, bitsandbytes.nn.Linear4bit)]
    layers = [layer for layer in every if layer.weight.device.type == gpu.kind]
    layers = [x for x in layers if getattr(x.weight.quant_state, "quant_type", None) == "nf4"]
    if not layers:
        raise DropinError("model: has no layers in NF4 on a GPU; quantize it, and load it there")
    return layers


def shape_of(layer: torch.nn.Module) -> Shape:
    state = layer.weight.quant_state
    output, compute = name_of(state.dtype), name_of(layer.compute_dtype or state.dtype)
    compute = "" if compute == output else compute
    return Shape(*state.shape, state.blocksize, state.nested, output, compute)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def computed(shape: Shape) -> str:
    return shape.compute or shape.output


def copies(gpu: Any, shape: Shape) -> Weights:
    """Random weights that together exceed the L2 cache, so that each is read cold."""
    return [random_nf4(gpu, shape) for _ in range(copies_needed(gpu, shape))]


def copies_needed(gpu: Any, shape: Shape) -> int:
    count = 1 + CACHES * gpu.l2_bytes() // max(1, shape.rows * shape.columns // 2)
    return min(max(2, count), MOST_COPIES)


def interleave(
    gpu: Any,
    runs: dict[Any, Callable[[], None]],
    products: int,
    after: Callable[[Any], None] = lambda name: None,
    under: Callable[[Any], AbstractContextManager] = lambda name: nullcontext(),
) -> dict[Any, list[float]]:
    """Samples in us of one of the `products` matmuls of a run, in shuffled rounds, each inside the
    context `under(name)`, then `after(name)`. All samples repeat a run equally often.
    """
    samples: dict[Any, list[float]] = {name: [] for name in runs}
    repeats = 1 + int(SHORTEST_US / max(1.0, gpu.time_us(next(iter(runs.values())), 1)))
    for name in shuffled(runs, SAMPLES):
        with under(name):
            samples[name].append(gpu.time_us(runs[name], repeats) / repeats / products)
        after(name)
    return samples


def shuffled(names: Iterable[Any], rounds: int, seed: Any = SEED) -> Iterator[Any]:
    """All names in each round, in a new order, so that a drift affects all equally."""
    order, every = random.Random(seed), list(names)
    for _ in range(rounds):
        yield from order.sample(every, len(every))


def all_products(
    shape: Shape, weights: Weights, rows: int, multiply: Callable[..., torch.Tensor]
) -> Callable[[], None]:
    dtype, device = getattr(torch, computed(shape)), weights[0][0].device
    x = torch.ones((rows, shape.columns), dtype=dtype, device=device)

    @torch.no_grad()
    def products() -> None:
        for codes, state in weights:
            multiply(x, codes.t(), quant_state=state)

    return products


def put(products: str) -> AbstractContextManager:
    """A context with one of COMPARED in place."""
    return installation.install(products=products) if products else nullcontext()


def advise(gpu: Any, name: str, layers: Sequence[torch.nn.Module], batch: int) -> str:
    """The gain of install() for the layers of the model `name`, as text."""
    if type(batch) is not int or batch < 1:
        raise DropinError(f"batch: give a number of sequences, 1 at least, not {shown(batch)}")
    ms = {what: dict.fromkeys(COMPARED, 0.0) for what in (GRAPH, EAGER, PROMPT)}
    for device in {layer.weight.device for layer in layers}:
        here = [layer for layer in layers if layer.weight.device == device]
        with torch.cuda.device_of(here[0].weight), torch.no_grad():
            check_bits(here)
            for what, us in times(gpu, here, batch).items():
                for products, samples in us.items():
                    ms[what][products] += median(samples) / 1e3
    return text(name, list(map(shape_of, layers)), batch, ms)


def check_bits(layers: Iterable[torch.nn.Module]) -> None:
    """DropinError if dequantized weights differ from bitsandbytes' in a bit."""
    for weight in (layer.weight for layer in layers):
        expected = functional.dequantize_4bit(weight.data, weight.quant_state)
        with put("bitsandbytes"):
            weights = functional.dequantize_4bit(weight.data, weight.quant_state)
        if wrong := int((weights != expected).sum()):
            what = f"{wrong} of {weights.numel()} dequantized weights differ from bitsandbytes'"
            raise DropinError(f"{what} on this GPU: do not install it")


def times(gpu: Any, layers: Sequence[torch.nn.Module], batch: int) -> dict[str, dict]:
    """Samples of all layers' matmuls in us, by phase and argument `products`."""

    shapes, device = list(map(shape_of, layers)), layers[0].weight.device

    @cache
    def ones(rows: int, k: int, dtype: str) -> torch.Tensor:
        return torch.ones((rows, k), dtype=getattr(torch, dtype), device=device)

    def of(rows: int) -> Callable[[], None]:
        inputs = [ones(rows, shape.columns, computed(shape)) for shape in shapes]
        return lambda: [layer(x) for layer, x in zip(layers, inputs, strict=True)] and None

    found, pool, step = {}, gpu.new_pool(), of(batch)
    for what, run in ((GRAPH, step), (PROMPT, of(batch * PROMPT_TOKENS))):
        replays = {}
        for products in COMPARED:
            with put(products):
                replays[products] = gpu.capture(run, pool)
        found[what] = interleave(gpu, replays, 1)

    @contextmanager
    def planned(products: str) -> Iterator[None]:
        with put(products):
            gpu.time_us(step, 1)  # plans the layers, and waits for their launches
            yield

    found[EAGER] = interleave(gpu, dict.fromkeys(COMPARED, step), 1, under=planned)
    return found


def text(name: str, shapes: Collection[Shape], batch: int, ms: dict[str, dict[str, float]]) -> str:
    """The advice, from the sums of all layers' times in ms."""
    weights = sum(shape.rows * shape.columns for shape in shapes)
    lines = [f"{name}: {len(shapes)} layers in NF4, {weights / 1e9:.2f} billion weights"]
    if slow := sum(computed(shape) == "float32" for shape in shapes):
        lines += [f"WARNING: {slow} of them compute in float32, in which bitsandbytes is slow, and"]
        lines += ["for which there is no matmul here: set bnb_4bit_compute_dtype=torch.bfloat16."]
    lines += [f"ms of their matmuls with {batch} sequences (prompts: {PROMPT_TOKENS} tokens each),"]
    lines += ["and times as fast as bitsandbytes:", ""]
    lines += [f"{'':38}" + "".join(f"{what:>26}" for what in ms)]
    for products in COMPARED:
        what = f'install(products="{products}")' if products else "bitsandbytes alone"
        cells = (f"{us[products]:.2f} ({us[OWN] / us[products]:.2f} x)" for us in ms.values())
        lines.append(f"{what:38}" + "".join(f"{cell:>26}" for cell in cells))
    best = min(COMPARED, key=lambda products: ms[GRAPH][products])
    if ms[GRAPH][OWN] / ms[GRAPH][best] <= LEAST_GAIN:
        return "\n".join([*lines, "", "Nothing is gained here: keep bitsandbytes as it is."])
    return "\n".join([*lines, "", f'The fastest step: reprolab_nf4.install(products="{best}")'])


def tune(
    gpu: Any, shapes: Sequence[Shape], begin: Callable[[int, Shape], None] = lambda *_: None
) -> timing_table.Table:
    """Times of each backend in a CUDA graph, at ROWS, with random weights. The table's source names
    the kernels that are left out because their outputs are wrong on this GPU. `begin`: called with
    the number of finished shapes and the next.
    """
    types = {name_of(dtype): name for dtype, name in matmul.TYPES.items()}
    shapes = [shape for shape in shapes if computed(shape) in types]
    if not shapes:
        set_it = "set bnb_4bit_compute_dtype=torch.bfloat16"
        raise DropinError(f"model: no layer computes in fp16 or bf16; {set_it}")
    layers, refused = [], {}
    with installation.install(products="bitsandbytes") as installed:
        library = installed.library
        for done, shape in enumerate(shapes):
            begin(done, shape)
            weights = copies(gpu, shape)
            refused |= wrong_kernels(shape, weights[0], library)
            kernels = [k for k in library.products() if k not in refused]
            us = {rows: backends(gpu, shape, weights, library, kernels, rows) for rows in ROWS}
            facts = (shape.rows, shape.columns, types[computed(shape)], bool(shape.nested))
            layers.append(timing_table.Layer(*facts, us))
            del weights
            gpu.forget()
    for layer in layers:  # also those measured before the kernel was found wrong
        for us in layer.us.values():
            for kernel in refused:
                us.pop(kernel, None)
    source = f"make tune, bitsandbytes {bitsandbytes.__version__}, torch {torch.__version__}"
    source += "".join(f"; left out: {kernel}: {why}" for kernel, why in refused.items())
    capability = matmul.capability(gpu.device)
    return timing_table.Table(gpu.name(), capability, source, tuple(layers))


@torch.no_grad()
def wrong_kernels(
    shape: Shape, weights: tuple[torch.Tensor, Any], library: Library
) -> dict[str, str]:
    """The library's kernels with outputs outside their interval on this GPU, and the fault."""
    codes, state = weights
    exact = copy.copy(state)
    exact.dtype = torch.float32  # by a kernel of bitsandbytes
    in_fp32 = functional.dequantize_4bit(codes, exact).view(shape.rows, shape.columns)
    dtype = getattr(torch, computed(shape))
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


def always(library: Library, backend: str) -> Callable[..., torch.Tensor]:
    """bitsandbytes' matmul_4bit, computed by that backend."""
    dispatcher = matmul.Dispatcher(library, DEQUANTIZE, None)
    dispatcher.default = backend
    return matmul.replacement(bitsandbytes.matmul_4bit, dispatcher)


def takes(library: Library, device: torch.device, shape: Shape, kernel: str, rows: int) -> bool:
    sizes = (shape.rows, shape.columns, shape.block_size)
    is_slow = kernel == "simple" and rows > SIMPLE_ROWS
    return not is_slow and matmul.runs(library, device, kernel, rows, *sizes)


def backends(
    gpu: Any, shape: Shape, weights: Weights, library: Library, kernels: Sequence[str], rows: int
) -> dict[str, float]:
    """Medians in us."""
    device = weights[0][0].device
    kernels = [k for k in kernels if takes(library, device, shape, k, rows)]
    pool, replays = gpu.new_pool(), {}
    for backend in (BITSANDBYTES, DEQUANTIZE, *kernels):
        products = all_products(shape, weights, rows, always(library, backend))
        replays[backend] = gpu.capture(products, pool)
    sampled = interleave(gpu, replays, len(weights))
    return {backend: round(median(samples), 3) for backend, samples in sampled.items()}
