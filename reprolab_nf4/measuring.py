"""Times of a model's quantized matmuls, by what is installed and by backend: advise() compares
installations, tune() writes a table of backends. Needs torch and bitsandbytes.
"""

import copy
import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle, islice
from statistics import median
from typing import Any

import bitsandbytes
import torch
from bitsandbytes import functional

from reprolab_nf4 import bounds, installation, matmul, timing_table
from reprolab_nf4.c_functions import DropinError, shown
from reprolab_nf4.checkpoint import Shape
from reprolab_nf4.library import Library
from reprolab_nf4.quantized import linear
from reprolab_nf4.timing_table import BITSANDBYTES, DEQUANTIZE

SAMPLES = 7
SEED = 1  # of their order
CACHES = 3  # L2 caches that the copies of a layer's codes fill, so that each is read cold
MOST_COPIES = 1024  # of a small layer, to limit the time
SHORTEST_US = 2000  # of a sample
PROMPT_TOKENS = 50  # the median of GSM8K's questions
ROWS = tuple(2**i for i in range(10))  # of a table
CALLS_UNTIL_PLANNED = 3  # of a layer
SIMPLE_ROWS = 8  # above, `simple` is by far the slowest
VERIFIED_ROWS = 8  # fewer run the same code
SCALE = 0.02  # of random weights, as transformers initializes them
LEAST_GAIN = 1.01  # less than the spread between runs

OWN = ""  # bitsandbytes as it is installed, among the arguments `products` that are compared
COMPARED = (OWN, "bitsandbytes", "exact", "fastest")
GRAPH, EAGER, PROMPT = "a step in a CUDA graph", "the same step, eager", "the prompts"
NO_TIMES = (
    "No times of products by 4-bit weights are recorded for this GPU: make tune, or\n"
    "reprolab_nf4.tune(model, file), measures them, for install(table=file)."
)

Weights = Sequence[tuple[torch.Tensor, Any]]  # codes and bitsandbytes' quantization state
Begin = Callable[[int, Shape], None]  # with the number of finished shapes and the next shape


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
    codes, state = weights[0]
    x = torch.ones((rows, shape.columns), dtype=computed_in(shape, state), device=codes.device)

    @torch.no_grad()
    def products() -> None:
        for codes, state in weights:
            multiply(x, codes.t(), quant_state=state)

    return products


def computed(shape: Shape) -> str:
    return shape.compute or shape.output


def computed_in(shape: Shape, state: Any) -> torch.dtype:
    return getattr(torch, shape.compute) if shape.compute else state.dtype


def put(products: str) -> AbstractContextManager:
    """A context with one of COMPARED in place."""
    return installation.install(products=products) if products else nullcontext()


def advise(
    gpu: Any,
    name: str,
    counts: dict[Shape, int],
    weights_of: Callable[[Shape], Weights],
    batch: int,
    begin: Begin = lambda done, shape: None,
) -> str:
    """The gain of install() for the model `name`, as text. `counts`: layers of each shape."""
    ms = {what: dict.fromkeys(COMPARED, 0.0) for what in (GRAPH, EAGER, PROMPT)}
    for done, (shape, count) in enumerate(counts.items()):
        begin(done, shape)
        weights = weights_of(shape)
        with torch.cuda.device_of(weights[0][0]):
            check_bits(shape, *weights[0])
            for what, us in times(gpu, shape, weights, batch).items():
                for products, samples in us.items():
                    ms[what][products] += count * median(samples) / 1e3
            capability = matmul.capability(weights[0][0].device)
            del weights
            gpu.forget()
    has_times = timing_table.recorded(gpu.name(), capability) is not None
    return text(name, counts, batch, ms) + f"\n\n{NO_TIMES}" * (not has_times)


def check_bits(shape: Shape, codes: torch.Tensor, state: Any) -> None:
    """DropinError if dequantized weights differ from bitsandbytes' in a bit."""
    expected = functional.dequantize_4bit(codes, state)
    with put("bitsandbytes"):
        weights = functional.dequantize_4bit(codes, state)
    wrong = int((weights.view(torch.int16) != expected.view(torch.int16)).sum())
    if wrong:
        what = f"{wrong} of {shape.text} dequantized weights differ from bitsandbytes'"
        raise DropinError(f"{what} on this GPU: do not install it")


def times(gpu: Any, shape: Shape, weights: Weights, batch: int) -> dict[str, dict]:
    """Samples of one matmul in us, by phase and argument `products`."""
    found, pool = {}, gpu.new_pool()
    for what, rows in ((GRAPH, batch), (PROMPT, batch * PROMPT_TOKENS)):
        replays = {}
        for products in COMPARED:
            with put(products):
                run = all_products(shape, weights, rows, bitsandbytes.matmul_4bit)
                replays[products] = gpu.capture(run, pool)
        found[what] = interleave(gpu, replays, len(weights))
    dtype = computed_in(shape, weights[0][1])
    layers = [linear(codes, state, dtype).eval() for codes, state in weights]
    x = torch.ones((batch, shape.columns), dtype=dtype, device=weights[0][0].device)

    @torch.no_grad()
    def step() -> None:
        for layer in layers:
            layer(x)

    class Planned:
        """With one of COMPARED in place, and its layers planned."""

        def __init__(self, products: str):
            self.put = put(products)

        def __enter__(self) -> None:
            self.put.__enter__()
            gpu.time_us(step, CALLS_UNTIL_PLANNED)  # waits for its launches

        def __exit__(self, *given: Any) -> None:
            self.put.__exit__(*given)

    step()  # initializes what a first call does
    found[EAGER] = interleave(gpu, dict.fromkeys(COMPARED, step), len(weights), under=Planned)
    return found


def text(name: str, counts: dict[Shape, int], batch: int, ms: dict[str, dict[str, float]]) -> str:
    """The advice, from the sums of all layers' times in ms."""
    weights = sum(count * shape.rows * shape.columns for shape, count in counts.items())
    lines = [f"{name}: {sum(counts.values())} layers in NF4, {weights / 1e9:.2f} billion weights"]
    if slow := sum(n for shape, n in counts.items() if computed(shape) == "float32"):
        lines += [f"WARNING: {slow} of them compute in float32, in which bitsandbytes is slow, and"]
        lines += ["for which there is no matmul here: set bnb_4bit_compute_dtype=torch.bfloat16."]
    lines += [
        "",
        f"ms of their matmuls with {batch} sequences (prompts: {PROMPT_TOKENS} tokens each),",
        "and times as fast as bitsandbytes:",
        "",
        f"{'':38}" + "".join(f"{what:>26}" for what in ms),
    ]
    for products in COMPARED:
        what = f'install(products="{products}")' if products else "bitsandbytes alone"
        cells = (f"{us[products]:.2f} ({us[OWN] / us[products]:.2f} x)" for us in ms.values())
        lines.append(f"{what:38}" + "".join(f"{cell:>26}" for cell in cells))
    least = {what: min(us, key=us.get) for what, us in ms.items()}
    gains = [us[OWN] / us[least[what]] > LEAST_GAIN for what, us in ms.items()]
    best = least[GRAPH] or least[PROMPT]
    if not any(gains) or not best:
        return "\n".join([*lines, "", "Nothing is gained here: keep bitsandbytes as it is."])
    lines += ["", "The fastest here, before or after the model is loaded:", ""]
    lines += ["    import reprolab_nf4", f'    installed = reprolab_nf4.install(products="{best}")']
    if min(ms[EAGER].values()) / ms[GRAPH][best] > LEAST_GAIN:
        lines += ['    model.generate(**inputs, cache_implementation="static")  # the CUDA graph']
    if best != "bitsandbytes":
        lines += ["", "It may sum in another order than bitsandbytes, so that tokens may differ."]
    return "\n".join(lines)


def tune(
    gpu: Any,
    shapes: Sequence[Shape],
    weights_of: Callable[[Shape], Weights],
    begin: Begin = lambda done, shape: None,
) -> timing_table.Table:
    """Times of each backend in a CUDA graph, at ROWS. The table's source names the kernels that are
    left out because their outputs are wrong on this GPU.
    """
    layers, gpus = [], set()
    refused: dict[str, str] = {}
    types = {name_of(dtype): name for dtype, name in matmul.TYPES.items()}
    type_of = {shape: types.get(computed(shape)) for shape in shapes}
    shapes = [shape for shape in shapes if type_of[shape]]
    if not shapes:
        set_it = "set bnb_4bit_compute_dtype=torch.bfloat16"
        raise DropinError(f"model: no layer computes in fp16 or bf16; {set_it}")
    with installation.install(products="bitsandbytes") as installed:
        library = installed.library
        for done, shape in enumerate(shapes):
            begin(done, shape)
            weights = weights_of(shape)
            device = weights[0][0].device
            with torch.cuda.device_of(weights[0][0]):
                gpus.add((gpu.name(), matmul.capability(device)))
                if len(gpus) > 1:
                    kinds = ", ".join(sorted(name for name, _ in gpus))
                    raise DropinError(f"model: is on several kinds of GPU: {kinds}")
                refused |= wrong_kernels(shape, weights[0], library)
                kernels = [k for k in library.products() if k not in refused]
                us = {rows: backends(gpu, shape, weights, library, kernels, rows) for rows in ROWS}
            nested = bool(shape.nested)
            layers.append(timing_table.Layer(shape.rows, shape.columns, type_of[shape], nested, us))
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
    shape: Shape, weights: tuple[torch.Tensor, Any], library: Library
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


class Always(matmul.Dispatcher):
    """One backend for every matmul."""

    def __init__(self, library: Library, backend: str):
        super().__init__(library, "exact", None, installation.give_up)
        self.default = backend

    def backend(self, *_) -> str:
        return self.default


def always(library: Library, backend: str) -> Callable[..., torch.Tensor]:
    """bitsandbytes' matmul_4bit, computed by that backend."""
    return matmul.replacement(bitsandbytes.matmul_4bit, Always(library, backend))


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
