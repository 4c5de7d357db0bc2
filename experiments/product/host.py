"""Host time of one 4-bit layer in eager PyTorch: what the CPU takes to launch its product, by
library; and tokens per second of an eager generate(), which that time bounds where rows are few.

    python -m experiments.product.host --rows 1,4,16 --sequences 1,4,16 --output results/host.json
    python -m experiments.product.host --cpu --output results/cpu.json

All ways are measured in one process, in turn, in rounds that are shuffled from a seed. Ours is
measured twice: as it is installed, and with every call in Python, as before PyTorch 2.10.
--cpu needs no GPU: it takes the CPU time of the thread, around products that do nothing.

Exit status: 0; 1 where tokens or outputs of the two differ; 2 for wrong usage.
"""

import argparse
import datetime
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.end_to_end.sizes import known
from records.command_line import Parser, numbers, run
from records.errors import InputError
from records.output import write_files
from records.sources import git

ROUNDS = 15
LAYERS, SIZE = 64, 1024  # launches that a stream takes without waiting; inputs and outputs of each
NEW_TOKENS, PROMPT = 64, 32
NAMES = ("nn.Linear", "bitsandbytes", "python", "planned")


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.host", description=__doc__)
    p.add_argument("--rows", help="of activations: 1,4,16; host time per layer")
    p.add_argument("--sequences", help="1,4,16; tokens per second of a Llama of 8B shapes")
    p.add_argument("--cpu", action="store_true", help="host time around products that do nothing")
    p.add_argument("--layers", type=int, default=32, help="of the model")
    p.add_argument("--output", type=Path, required=True, help="a JSON file")
    p.set_defaults(run=reproduce)
    return p


def reproduce(args: argparse.Namespace) -> int:
    batches = {
        name: numbers(f"--{name}", given, "1,4,16")
        for name in ("rows", "sequences")
        if (given := getattr(args, name)) is not None
    }
    if args.cpu == bool(batches):
        raise InputError("give --rows, --sequences or both, or --cpu alone")
    import torch

    if batches and not torch.cuda.is_available():
        raise InputError("no GPU is visible to PyTorch")
    found = origin("a CPU" if args.cpu else torch.cuda.get_device_name())
    with torch.no_grad():
        if args.cpu:
            found |= {"layers": LAYERS, "cpu": cpu_times()}
        if "rows" in batches:
            found |= {"layers": LAYERS, "size": SIZE, "rows": host_times(batches["rows"])}
        if "sequences" in batches:
            found["sequences"] = speeds(batches["sequences"], args.layers)
    write_files({args.output: (json.dumps(found, indent=1) + "\n").encode()})
    cells = found.get("rows", []) + found.get("sequences", [])
    return 0 if all(cell["same"] for cell in cells) else 1


def origin(gpu: str) -> dict[str, Any]:
    import bitsandbytes
    import torch

    now = datetime.datetime.now(datetime.UTC)
    names = {"torch": torch.__version__, "bitsandbytes": bitsandbytes.__version__}
    commit = git("rev-parse", "HEAD", say_why=True).strip()
    return {"date": f"{now:%Y-%m-%d}", "commit": commit, "gpu": gpu, "versions": names}


@contextmanager
def installed(name: str, library: Path | None = None, table: Path | None = None) -> Iterator[None]:
    """The way is in place; "python": with no call in C."""
    import reprolab_nf4
    from reprolab_nf4 import layers

    without = mock.patch.object(layers, "EXTENSION", Path("none"))
    with without if name == "python" else nullcontext():
        if name == "planned" and layers.extension() is None:
            raise InputError("_layers.abi3.so cannot be used here: make dropin; PyTorch 2.10")
        is_ours = name in ("python", "planned")
        with reprolab_nf4.install(library, table=table) if is_ours else nullcontext():
            yield


def host_times(batches: Sequence[int]) -> list[dict[str, Any]]:
    import torch

    from experiments.end_to_end import build
    from reprolab_nf4.measuring import shuffled

    made = {"bias": False, "device": "cuda", "dtype": torch.bfloat16}
    dense = [torch.nn.Linear(SIZE, SIZE, **made).eval() for _ in range(LAYERS)]
    packed = [build.quantized(layer, "cuda", torch.bfloat16).eval() for layer in dense]
    cells = []
    for batch in batches:
        x = torch.randn(batch, 1, SIZE, device="cuda", dtype=torch.bfloat16)
        samples: dict[str, list[float]] = {name: [] for name in NAMES}
        outputs = {}
        for name in shuffled(NAMES, ROUNDS):
            layers = dense if name == "nn.Linear" else packed
            with installed(name):
                for _ in range(4):  # after which calls are planned
                    outputs[name] = [layer(x) for layer in layers]
                torch.cuda.synchronize()  # so that no launch waits
                samples[name].append(us_per_layer(layers, x, time.perf_counter))
                torch.cuda.synchronize()
        pairs = zip(outputs["python"], outputs["planned"], strict=True)
        same = all(torch.equal(a, b) for a, b in pairs)
        cells.append({"rows": batch, "host_us": samples, "same": same})
        print(shown(f"{batch} rows, host us per layer", samples), flush=True)
    return cells


def cpu_times() -> list[dict[str, Any]]:
    """Around products that do nothing, in the library of the tests; nn.Linear's is of 8 x 8."""
    import torch

    from reprolab_nf4.measuring import shuffled
    from reprolab_nf4.tests import cpu_as_gpu

    cells = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        cpu_as_gpu.put_cpu_in_place_of_gpu(setattr, cpu_as_gpu.compile_extension(folder))
        library = cpu_as_gpu.compile_library(folder)
        table = cpu_as_gpu.table(folder / "table.json")
        counts = cpu_as_gpu.Counts(library)
        dense = [torch.nn.Linear(8, 8, bias=False).eval() for _ in range(LAYERS)]
        x = torch.randn(1, 1, cpu_as_gpu.K, dtype=torch.bfloat16)
        for nested in (False, True):
            packed = [cpu_as_gpu.layer(nested) for _ in range(LAYERS)]
            samples: dict[str, list[float]] = {name: [] for name in NAMES}
            for name in shuffled(NAMES, ROUNDS):
                given = (dense, x[..., :8].float()) if name == "nn.Linear" else (packed, x)
                with without_product(name), installed(name, library, table):
                    us_per_layer(*given, time.thread_time, 4)  # after which calls are planned
                    counts.library.do_nothing(1)
                    samples[name].append(us_per_layer(*given, time.thread_time, 4))
                    counts.library.do_nothing(0)
            cells.append({"nested": nested, "cpu_us": samples})
            scales = "nested" if nested else "plain"
            print(shown(f"{scales} scales, CPU us per layer", samples), flush=True)
    return cells


def without_product(name: str):
    """bitsandbytes' forward, around an empty output; for others, nothing changes."""
    import bitsandbytes

    def empty(A, B, quant_state, bias=None):
        return A.new_empty((*A.shape[:-1], quant_state.shape[0]))

    is_own = name == "bitsandbytes"
    return mock.patch.object(bitsandbytes, "matmul_4bit", empty) if is_own else nullcontext()


def us_per_layer(layers, x, clock: Callable[[], float], times: int = 1) -> float:
    started = clock()
    for _ in range(times):
        for layer in layers:
            layer(x)
    return 1e6 * (clock() - started) / (times * len(layers))


def speeds(batches: Sequence[int], count: int) -> list[dict[str, Any]]:
    """Tokens per second of Llama-3.1-8B with random weights and so many layers."""
    import torch

    from experiments.end_to_end import build
    from experiments.end_to_end.generate import Eager, batch_of
    from experiments.end_to_end.gpu import Gpu
    from reprolab_nf4.measuring import shuffled

    gpu, llama = Gpu(), replace(known()["llama-3.1-8b"], layers=count)
    model = build.from_sizes(llama, gpu.device, torch.bfloat16)
    names, cells = NAMES[1:], []  # without nn.Linear
    for batch in batches:
        prompts = torch.randint(0, 128000, (batch, PROMPT)).tolist()
        mode = Eager(model, batch_of(prompts, NEW_TOKENS, gpu.device), gpu)
        samples: dict[str, list[float]] = {name: [] for name in names}
        tokens = {}
        for name in shuffled(names, 3):
            with installed(name):
                mode.generate(NEW_TOKENS)
                found = mode.generate(NEW_TOKENS)
            tokens[name] = found.tokens
            samples[name].append(1e6 * batch * NEW_TOKENS / found.wall_us)
        same = tokens["python"] == tokens["planned"]
        cells.append({"sequences": batch, "tokens_per_s": samples, "same": same})
        print(shown(f"{batch} sequences, tokens/s", samples), "same tokens:", same, flush=True)
    return cells


def shown(what: str, samples: dict[str, list[float]]) -> str:
    medians = (f"{name} {statistics.median(values):.1f}" for name, values in samples.items())
    return f"{what}: {', '.join(medians)}"


if __name__ == "__main__":
    sys.exit(run(parser()))
