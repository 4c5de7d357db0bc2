"""Host time of one 4-bit layer in eager PyTorch: what the CPU takes to launch its product, by
library; and tokens per second of an eager generate(), which that time bounds where rows are few.

    python -m experiments.product.host --rows 1,4,16 --output results/host.json
    python -m experiments.product.host --sequences 1,4,16 --output results/eager.json
    python -m plots.host_time results/host.json results/host.svg

All ways are measured in one process, in turn, in rounds that are shuffled from a seed. Ours is
measured twice: as it is installed, and with every call in Python, as before PyTorch 2.10.

Exit status: 0; 1 where tokens or outputs of the two differ; 2 for wrong usage.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from records.command_line import Parser, numbers, run
from records.errors import InputError
from records.output import write_files

SEED, ROUNDS = 1, 15
LAYERS, SIZE = 64, 1024  # launches that a stream takes without waiting; inputs and outputs of each
NEW_TOKENS, PROMPT = 64, 32
NAMES = ("nn.Linear", "bitsandbytes", "python", "planned")
LLAMA_8B = {
    **{"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32},
    **{"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256},
    **{"max_position_embeddings": 8192},
}


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.host", description=__doc__)
    p.add_argument("--rows", help="of activations: 1,4,16; host time per layer")
    p.add_argument("--sequences", help="1,4,16; tokens per second of a Llama of 8B shapes")
    p.add_argument("--layers", type=int, default=LLAMA_8B["num_hidden_layers"], help="of the model")
    p.add_argument("--output", type=Path, required=True, help="a JSON file")
    p.set_defaults(run=reproduce)
    return p


def reproduce(args: argparse.Namespace) -> int:
    if (args.rows is None) == (args.sequences is None):
        raise InputError("give one of --rows and --sequences")
    import torch

    if not torch.cuda.is_available():
        raise InputError("no GPU is visible to PyTorch")
    with torch.no_grad():
        if args.rows is not None:
            found = host_times(numbers("--rows", args.rows, "1,4,16"))
        else:
            found = speeds(numbers("--sequences", args.sequences, "1,4,16"), args.layers)
    write_files({args.output: (json.dumps(versions() | found, indent=1) + "\n").encode()})
    return 0 if found["same"] else 1


def versions() -> dict[str, Any]:
    import bitsandbytes
    import torch

    names = {"torch": torch.__version__, "bitsandbytes": bitsandbytes.__version__}
    return {"gpu": torch.cuda.get_device_name(), "versions": names}


@contextmanager
def installed(name: str) -> Iterator[None]:
    """The way is in place; "python": with no call in C."""
    import reprolab_nf4
    from reprolab_nf4 import layers

    without = mock.patch.object(layers, "EXTENSION", Path("none"))
    with without if name == "python" else nullcontext():
        if name == "planned" and layers.extension() is None:
            raise InputError("_layers.abi3.so cannot be used here: make dropin; PyTorch 2.10")
        with reprolab_nf4.install() if name in ("python", "planned") else nullcontext():
            yield


def quantized(linear):
    """bitsandbytes' layer with the weights of one of PyTorch's, in NF4 with plain scales."""
    import bitsandbytes as bnb
    import torch

    sizes = (linear.in_features, linear.out_features)
    kind = {"quant_type": "nf4", "compress_statistics": False}
    made = bnb.nn.Linear4bit(
        *sizes, bias=False, compute_dtype=torch.bfloat16, device="meta", **kind
    )
    weight = bnb.nn.Params4bit(linear.weight.data, requires_grad=False, module=made, **kind)
    made.weight = weight.to("cuda")
    return made.eval()


def host_times(batches: Sequence[int]) -> dict[str, Any]:
    import torch

    def linear():
        return torch.nn.Linear(SIZE, SIZE, bias=False, device="cuda", dtype=torch.bfloat16).eval()

    dense = [linear() for _ in range(LAYERS)]
    packed = [quantized(linear()) for _ in range(LAYERS)]
    rows, same = [], True
    for batch in batches:
        x = torch.randn(batch, 1, SIZE, device="cuda", dtype=torch.bfloat16)
        samples: dict[str, list[float]] = {name: [] for name in NAMES}
        outputs = {}
        order = random.Random(SEED)
        for _ in range(ROUNDS):
            for name in order.sample(NAMES, len(NAMES)):
                layers = dense if name == "nn.Linear" else packed
                with installed(name):
                    for _ in range(4):  # after which calls are planned
                        outputs[name] = [layer(x) for layer in layers]
                    samples[name].append(host_us(layers, x))
        pairs = zip(outputs["python"], outputs["planned"], strict=True)
        same = same and all(torch.equal(a, b) for a, b in pairs)
        rows.append({"rows": batch, "host_us": samples})
        print(shown(f"{batch} rows, host us per layer", samples), flush=True)
    return {"layers": LAYERS, "size": SIZE, "cells": rows, "same": same}


def host_us(layers, x) -> float:
    """Host time per layer. The GPU is idle before, so that no launch waits."""
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    for layer in layers:
        layer(x)
    taken = time.perf_counter() - start
    torch.cuda.synchronize()
    return taken / len(layers) * 1e6


def speeds(batches: Sequence[int], count: int) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(SEED)
    config = LlamaConfig(**LLAMA_8B | {"num_hidden_layers": count})
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear) and name != "lm_head":
                setattr(module, name, quantized(child))
    torch.cuda.empty_cache()
    names = [name for name in NAMES if name != "nn.Linear"]
    rows, same = [], True
    for batch in batches:
        prompt = torch.randint(0, 128000, (batch, PROMPT), device="cuda")
        samples: dict[str, list[float]] = {name: [] for name in names}
        tokens = {}
        order = random.Random(SEED)
        for _ in range(3):
            for name in order.sample(names, len(names)):
                with installed(name):
                    generate(model, prompt)
                    took, tokens[name] = generate(model, prompt)
                samples[name].append(batch * NEW_TOKENS / took)
        same = same and torch.equal(tokens["python"], tokens["planned"])
        rows.append({"sequences": batch, "tokens_per_s": samples, "same": same})
        print(shown(f"{batch} sequences, tokens/s", samples), "same tokens:", same, flush=True)
    return {"model": "Llama of 8B shapes, random weights", "cells": rows, "same": same}


def generate(model, prompt) -> tuple[float, Any]:
    import torch

    often = {"min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS, "do_sample": False}
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = model.generate(prompt, attention_mask=torch.ones_like(prompt), pad_token_id=0, **often)
    torch.cuda.synchronize()
    return time.perf_counter() - start, found


def shown(what: str, samples: dict[str, list[float]]) -> str:
    medians = (f"{name} {statistics.median(values):.1f}" for name, values in samples.items())
    return f"{what}: {', '.join(medians)}"


if __name__ == "__main__":
    sys.exit(run(parser()))
