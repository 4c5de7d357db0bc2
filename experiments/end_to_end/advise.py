"""What the drop-in library gains for a 4-bit checkpoint on this GPU, in about a minute: products of
the checkpoint's shapes, with random weights, timed with the bitsandbytes that is installed and with
each kernel under it.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import bitsandbytes
import torch

from experiments.end_to_end import build, checkpoint, plan, prompts, reference, rows
from experiments.end_to_end.advice import (
    FASTEST,
    OWN,
    Phase,
    Shape,
    Times,
    Variant,
    shapes_of,
    text,
)
from records.command_line import Parser, run
from records.errors import InputError
from records.progress import Line

SAMPLES = 7
CACHES = 3  # as large as so many are the codes in turn, so that a product finds its own in none
SHORTEST_US = 2000  # of a sample
EXPECTED_S = 12  # of a shape, on an H200


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.end_to_end.advise", description=__doc__)
    p.add_argument("folder", type=Path, help="of a checkpoint in bitsandbytes' 4-bit NF4")
    p.add_argument("--batch", default="2", help="sequences that are decoded together")
    p.set_defaults(run=advise)
    return p


def advise(args: argparse.Namespace) -> int:
    import reprolab_nf4
    from experiments.end_to_end.gpu import Gpu

    if not args.folder.is_dir():
        raise InputError(
            f"MODEL: there is no folder '{args.folder}'; give a checkpoint's, downloaded before"
        )
    batch = plan.number("BATCH", args.batch)
    if batch < 1:
        raise InputError("BATCH: 1 at least")
    counts = shapes_of(checkpoint.read(args.folder))
    build.quiet()
    try:
        with reprolab_nf4.install() as installed:
            kernels = list(installed.kernels())
        print(advice(Gpu(), args.folder.resolve().name, counts, batch, kernels))
    except torch.OutOfMemoryError:
        line = f"out of memory: batch {batch} does not fit on this GPU; give a smaller BATCH"
        raise InputError(line) from None
    except reprolab_nf4.DropinError as error:
        raise InputError(str(error)) from None
    return 0


def advice(gpu: Any, name: str, counts: dict[Shape, int], batch: int, kernels: list[str]) -> str:
    prompt = batch * prompts.MEDIAN
    sizes = {f"one step at batch {batch}": batch}
    sizes[f"the prompts, of {prompts.MEDIAN} tokens each"] = prompt
    phases = tuple(Phase(what, {}, counts) for what in sizes)
    refused: dict[str, str] = {}
    with Line(EXPECTED_S * len(counts)) as line:
        for done, shape in enumerate(counts):
            where = f"{done} of {len(counts)} shapes"
            line.show(done / len(counts), where, f"products with {shape.text} weights", True)
            weights = copies(gpu, shape)
            expected = reference.dequantized(*weights[0])
            refused |= {k: why for k in kernels if (why := difference(k, *weights[0], expected))}
            kernels = [k for k in kernels if k not in refused]
            for phase in phases:
                found = times(gpu, shape, weights, sizes[phase.what], variants(kernels))
                phase.times.update(found)
            del weights
            gpu.forget()
    own = f"bitsandbytes {bitsandbytes.__version__}"
    return text(name, own, batch, phases, kernels, refused, rows.can_fuse())


def variants(kernels: list[str]) -> list[Variant]:
    """What is compared with bitsandbytes as it is installed."""
    dequantizing = [Variant(FASTEST, True)] * (rows.can_fuse() and FASTEST in kernels)
    return [*map(Variant, kernels), *dequantizing]


def copies(gpu: Any, shape: Shape) -> list[tuple[torch.Tensor, Any]]:
    """So many that a copy has left the cache before it is used again; codes and states."""
    dtype = getattr(torch, shape.output, torch.float16)
    size = (shape.rows, shape.columns)
    weight = torch.empty(size, dtype=dtype, device=gpu.device).normal_(0, build.SCALE)
    how = {"blocksize": shape.block_size, "quant_type": "nf4", "compress_statistics": shape.nested}
    count = 1 + CACHES * gpu.facts()["l2_bytes"] // max(1, weight.numel() // 2)
    return [bitsandbytes.functional.quantize_4bit(weight, **how) for _ in range(max(2, count))]


def difference(kernel: str, codes: torch.Tensor, state: Any, expected: torch.Tensor) -> str:
    """Empty where the kernel's output is the reference's, bit for bit."""
    try:
        wrong = rows.count_wrong(rows.under(kernel=kernel), codes, state, expected)
    except torch.OutOfMemoryError:  # is not the kernel's fault
        raise
    except (RuntimeError, ValueError) as error:
        return build.first_line(error)
    return f"{wrong} of {state.shape.numel()} weights differ" if wrong else ""


def times(gpu: Any, shape: Shape, weights: list[Any], size: int, compared: list[Variant]) -> Times:
    """Of one product, in us; all variants in turn, so often."""
    x = torch.ones((size, shape.columns), dtype=weights[0][1].dtype, device=gpu.device)

    def products() -> None:
        for codes, state in weights:
            bitsandbytes.matmul_4bit(x, codes.t(), quant_state=state)

    replays: dict[Variant, Callable[[], None]] = {}
    pool = gpu.new_pool()
    for variant in (OWN, *compared):
        given = {"kernel": variant.kernel, "dequantize_from": 1 if variant.dequantizes else None}
        with torch.no_grad(), nullcontext() if variant == OWN else rows.under(**given):
            replays[variant] = gpu.capture(products, pool)
    found: Times = {(variant, shape): [] for variant in replays}
    often = 1 + int(SHORTEST_US / max(1.0, gpu.time_us(replays[OWN], 1)))
    for _ in range(SAMPLES):
        for variant, replay in replays.items():
            found[variant, shape].append(gpu.time_us(replay, often) / often / len(weights))
    return found


if __name__ == "__main__":
    sys.exit(run(parser()))
