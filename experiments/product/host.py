"""Host time of one 4-bit layer in eager PyTorch, in us: what the CPU takes to launch its matmul, by
library; and of layers that are left to bitsandbytes, such as in training mode.

    python -m experiments.product.host

Shuffled rounds of one process, with nn.Linear of the input's type; in parentheses the median of a
round's difference from bitsandbytes alone. docs/drop-in.md has what H200s showed.
"""

from statistics import median
from timeit import timeit

import bitsandbytes
import torch

from experiments.product.generation import BACKENDS, DENSE, OWN, installed
from reprolab_nf4.measuring import shuffled

LAYERS, SIZE, ROUNDS, REPEATS = 64, 1024, 50, 4
ONE = torch.bfloat16
# By case: what the layers have, the rows and the type of their input, and whether they train.
CASES = {
    **{f"{rows} rows": ({}, rows, ONE, False) for rows in (1, 4, 16)},
    "1 row, nested scales": ({"compress_statistics": True}, 1, ONE, False),
    "training mode": ({}, 4, ONE, True),
    "input needs a gradient": ({}, 4, ONE, False),
    "fp32": ({"compute_dtype": torch.float32}, 4, torch.float32, False),
    "more rows than the table": ({}, 513, ONE, False),
    "FP4": ({"quant_type": "fp4"}, 4, ONE, False),
    "first call": ({}, 4, ONE, False),
}


def layers_of(**more):
    how = {"quant_type": "nf4", "compute_dtype": ONE, "compress_statistics": False} | more
    made = (bitsandbytes.nn.Linear4bit(SIZE, SIZE, bias=False, **how) for _ in range(LAYERS))
    return [layer.to("cuda").requires_grad_(False).eval() for layer in made]


def us_per_layer(layers, x, repeats: int) -> float:
    def call_each():
        for layer in layers:
            layer(x)

    torch.cuda.synchronize()  # so that no launch waits
    # timeit turns the garbage collector off, which would be in some backend's time.
    return 1e6 * timeit(call_each, number=repeats) / (repeats * len(layers))


def main() -> None:
    for name, (more, rows, dtype, trains) in CASES.items():
        four_bits = [layer.train(trains) for layer in layers_of(**more)]
        dense = [torch.nn.Linear(SIZE, SIZE, False, "cuda", dtype) for _ in range(LAYERS)]
        x = torch.randn(rows, 1, SIZE, device="cuda", dtype=dtype)
        x.requires_grad_("gradient" in name)
        samples: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
        for backend in shuffled(samples, ROUNDS):
            layers = dense if backend == DENSE else four_bits
            with installed(backend), torch.set_grad_enabled("gradient" in name):
                if name != "first call":
                    us_per_layer(layers, x, 3)  # until calls are planned
                us = us_per_layer(layers, x, 1 if name == "first call" else REPEATS)
                samples[backend].append(us)
        shown = []
        for backend, values in samples.items():
            longer = median(a - b for a, b in zip(values, samples[OWN], strict=True))
            shown.append(f"{backend} {median(values):.2f} ({longer:+.2f})")
        print(f"{name}, us: {', '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
