"""Host time of one 4-bit layer in eager PyTorch, in us: what the CPU takes to launch its matmul, by
library; of layers that are left to bitsandbytes, such as in training mode; and of a token.

    python -m experiments.product.host            # on a GPU
    python -m experiments.product.host --cpu      # around matmuls that do nothing
    python -m experiments.product.host --token    # of a token of eager generate(), by function

All are measured in shuffled rounds of one process, and printed with their ratio to bitsandbytes
alone. Whatever is left to bitsandbytes should take at most 1 us more than without install().
"""

import argparse
import cProfile
import pstats
import re
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest import mock

import bitsandbytes
import torch

from experiments.end_to_end import build
from experiments.end_to_end.generate import Eager, batch_of
from experiments.end_to_end.sizes import known
from experiments.product.generation import DTYPE, OWN, PLANNED, PROMPT, PYTHON, SHORT, installed
from reprolab_nf4.measuring import shuffled
from reprolab_nf4.timing_table import Layer, Table, write

LAYERS, SIZE, ROUNDS, REPEATS = 64, 1024, 25, 4
TOKENS = 24  # of a profile
ONE = torch.bfloat16
# By case: what the layers have, the rows and the type of their input, and whether they train.
CASES = {
    **{f"{rows} rows": ({}, rows, ONE, False) for rows in (1, 4, 16)},
    "1 row, nested scales": ({"compress_statistics": True}, 1, ONE, False),
    "training mode": ({}, 4, ONE, True),
    "input needs a gradient": ({}, 4, ONE, False),
    "fp32": ({"compute_dtype": torch.float32}, 4, torch.float32, False),
    "more rows than the table": ({}, 513, ONE, False),
    "rows that the table gives to bitsandbytes": ({}, 32, ONE, False),
    "FP4": ({"quant_type": "fp4"}, 4, ONE, False),
    "first call": ({}, 4, ONE, False),
}


def layers_of(device: str, size: int, count: int, **more):
    how = {"quant_type": "nf4", "compute_dtype": ONE, "compress_statistics": False} | more
    layers = []
    for _ in range(count):
        layer = bitsandbytes.nn.Linear4bit(size, size, bias=False, **how)
        layer.support_avx512bf16_for_cpu = False  # another layout of codes
        if device == "cpu":
            layer.weight = layer.weight._quantize("cpu")
        layers.append(layer.to(device).requires_grad_(False).eval())
    return layers


def us_per_layer(layers, x, repeats: int) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # so that no launch waits
    clock = time.perf_counter if x.is_cuda else time.thread_time  # other threads do not count
    started = clock()
    for _ in range(repeats):
        for layer in layers:
            layer(x)
    return 1e6 * (clock() - started) / (repeats * len(layers))


def nothing(A, B, quant_state, out=None, bias=None):
    return A.new_empty((*A.shape[:-1], quant_state.shape[0]))


def of_each_token(mode: Eager) -> dict[tuple, tuple[float, float]]:
    """Calls and own time in us of each function, by file, line and name: the difference of two
    generations, so without the prompt.
    """

    def profiled(tokens: int) -> dict[tuple, tuple[float, float]]:
        profile = cProfile.Profile()
        profile.runcall(mode.generate, tokens)
        every = pstats.Stats(profile).stats.items()
        return {function: (calls, 1e6 * own) for function, (_, calls, own, *_) in every}

    few, many = profiled(SHORT), profiled(SHORT + TOKENS)
    differences = {f: (few.get(f, (0, 0)), after) for f, after in many.items()}
    return {
        f: tuple((b - a) / TOKENS for a, b in zip(*pair, strict=True))
        for f, pair in differences.items()
    }


def token(gpu, model) -> None:
    """Prints where the host's time of a token goes, and how many calls of layers are planned."""
    mode = Eager(model, batch_of([list(range(PROMPT))], SHORT + TOKENS, gpu.device), gpu)
    layers = build.layers(model)
    for backend in (OWN, PLANNED):
        with installed(backend):
            mode.generate(SHORT)
            wall = median(mode.generate(SHORT + TOKENS).step_us for _ in range(3))
            each = of_each_token(mode)
        forward = (bitsandbytes.nn.modules.__file__, "forward")
        unplanned = sum(n for f, (n, _) in each.items() if (f[0], f[2]) == forward)
        total, by_library = sum(us for _, us in each.values()), defaultdict(float)
        for (path, *_), (_, us) in each.items():
            library = re.search(r"site-packages/(\w+)/|(reprolab\w*|experiments)/", path)
            by_library[(library[1] or library[2]) if library else "built-in functions"] += us
        print(f"{backend}: {wall:.0f} us a token, {total:.0f} while profiled; ", end="")
        print(f"{len(layers) - unplanned:.1f} of {len(layers)} calls of layers have no Python")
        for name, us in sorted(by_library.items(), key=lambda item: -item[1])[:8]:
            print(f"  {us:8.0f} us in {name}")
        for (path, _, name), (calls, us) in sorted(each.items(), key=lambda x: -x[1][1])[:25]:
            print(f"  {us:8.0f} us in {calls:6.1f} calls of {Path(path).name} {name}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--cpu", action="store_true", help="around matmuls that do nothing")
    p.add_argument("--token", action="store_true", help="of generate(), Llama-3.1-8B")
    args = p.parse_args()
    if args.token:
        from experiments.end_to_end.gpu import Gpu

        build.quiet()
        gpu = Gpu()
        token(gpu, build.from_sizes(known()["llama-3.1-8b"], gpu.device, DTYPE, build.quantized))
        return
    device = "cpu" if args.cpu else "cuda"
    with TemporaryDirectory() as folder, ExitStack() as stack:
        size, table, do_nothing = SIZE, Path(folder) / "table.json", lambda nothing: None
        if device == "cpu":
            from reprolab_nf4.tests import cpu_as_gpu

            cpu_as_gpu.put_cpu_in_place_of_gpu(setattr)
            do_nothing = cpu_as_gpu.Bench("cpu", Path(folder)).library.do_nothing
            stack.enter_context(mock.patch.object(bitsandbytes, "matmul_4bit", nothing))
            size = 64
            us = {16: {"few_rows": 1.0}, 512: {OWN: 1.0}}
            write(table, Table("a GPU", "9.0", "made up", (Layer(64, 64, "fp16", False, us),)))
        given = {"table": table} if device == "cpu" else {}
        for name, (more, rows, dtype, trains) in CASES.items():
            layers = [layer.train(trains) for layer in layers_of(device, size, LAYERS, **more)]
            x = torch.randn(rows, 1, size, device=device, dtype=dtype)
            x.requires_grad_("gradient" in name)
            samples: dict[str, list[float]] = {backend: [] for backend in (OWN, PYTHON, PLANNED)}
            for backend in shuffled(samples, ROUNDS):
                with installed(backend, **given), torch.set_grad_enabled("gradient" in name):
                    if name != "first call":
                        us_per_layer(layers, x, 3)  # until calls are planned
                    do_nothing(1)
                    us = us_per_layer(layers, x, 1 if name == "first call" else REPEATS)
                    samples[backend].append(us)
                    do_nothing(0)
            own, *ours = (median(values) for values in samples.values())
            shown = (f"{us:.2f} ({us / own:.3f} x)" for us in ours)
            print(f"{name}: bitsandbytes {own:.2f} us, in Python and in C {', '.join(shown)}")


if __name__ == "__main__":
    with torch.no_grad():
        main()
