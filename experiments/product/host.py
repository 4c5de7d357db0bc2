"""Host time of one 4-bit layer in eager PyTorch: what the CPU takes to launch its matmul, by
library; tokens per second of generate(), which that time bounds for few sequences; and the time
of a layer under vLLM's plugin.

    python -m experiments.product.host --rows 1,4,16 --sequences 1,4,16 --output results/host.json
    python -m experiments.product.host --sequences 1,4 --cache static --output results/host.json
    python -m experiments.product.host --requests 1,8 --output results/serving.json
    python -m experiments.product.host --cpu --output results/cpu.json

All ways are measured in one process. Ours is measured twice: as installed, and with every call in
Python, as before PyTorch 2.10. Each cell is written as soon as it is measured. If the file exists,
missing cells are added.
--cpu needs no GPU: it takes the CPU time of the thread, around matmuls that do nothing.

Exit status: 0; 1 if tokens or outputs of both measurements of ours differ, or outputs are wrong; 2
for wrong usage.
"""

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.end_to_end.sizes import known
from experiments.product.ways import DENSE, OWN, PLANNED, PYTHON, WAYS, installed, shown
from reprolab.command_line import Parser, numbers, run
from reprolab.errors import InputError
from reprolab.json_files import read_json
from reprolab.output import check_place, write_files
from reprolab.provenance import checkout

ROUNDS = 15
LAYERS, SIZE = 64, 1024  # launches that a stream takes without waiting; N and K of each
GENERATIONS, TOKENS = 5, 64
LISTS = ("rows", "sequences", "requests")  # of cells, by option


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.product.host", description=__doc__)
    p.add_argument("--rows", default="", help="of activations: 1,4,16; host time per layer")
    p.add_argument("--sequences", default="", help="1,4,16; tokens per second of a model")
    p.add_argument("--requests", default="", help="1,8,64; a layer's time under vLLM's plugin")
    p.add_argument("--cpu", action="store_true", help="host time around matmuls that do nothing")
    p.add_argument("--nested", action="store_true", help="double-quantized scales")
    p.add_argument("--model", default="llama-3.1-8b", help="of data/models, with random weights")
    p.add_argument("--layers", type=int, help="of the model, if not all")
    p.add_argument("--cache", choices=("dynamic", "static"), default="dynamic")
    p.add_argument("--generations", type=int, default=GENERATIONS, help="of each way")
    p.add_argument("--tokens", type=int, default=TOKENS, help="new ones of each sequence")
    p.add_argument("--output", type=Path, required=True, help="a JSON file")
    p.set_defaults(run=reproduce)
    return p


def reproduce(args: argparse.Namespace) -> int:
    batches = {name: numbers(f"--{name}", getattr(args, name), "1,4,16") for name in LISTS}
    if args.cpu == any(batches.values()):
        raise InputError("give --rows, --sequences, --requests or several, or --cpu alone")
    if any(0 in given for given in batches.values()):
        raise InputError("--rows, --sequences and --requests: give 1 at least")
    for name, least in (("layers", 1), ("generations", 1), ("tokens", 2)):
        if (given := getattr(args, name)) is not None and given < least:
            raise InputError(f"--{name}: give {least} at least, not {given}")
    if args.model not in known():
        raise InputError(f"--model: give one of {', '.join(known())}, not '{args.model}'")
    import torch

    if not args.cpu and not torch.cuda.is_available():
        raise InputError("no GPU is visible to PyTorch")
    check_place(args.output)
    file = File(args.output, origin("a CPU" if args.cpu else torch.cuda.get_device_name()))
    with torch.no_grad():
        if args.cpu:
            file.add("cpu", cpu_times(file))
        if batches["rows"]:
            file.add("rows", host_times(file, batches["rows"], args.nested))
        if batches["sequences"]:
            file.add("sequences", speeds(file, batches["sequences"], args))
        if batches["requests"]:
            file.add("requests", served(file, batches["requests"], args.model))
    cells = [cell for name in LISTS for cell in file.content.get(name, [])]
    return 0 if all(cell.get("same", True) and not cell.get("wrong") for cell in cells) else 1


class File:
    """The result file, which is written after each cell. Continues a file of the same origin."""

    def __init__(self, path: Path, content: dict[str, Any]):
        self.path, self.content = path, content
        if not path.exists():
            return
        there = read_json(path)
        origins = {"commit": "at another commit", "gpu": "on another GPU"}
        for name, other in (origins | {"versions": "with other versions"}).items():
            if not isinstance(there, dict) or there.get(name) != content[name]:
                raise InputError(
                    f"{path}: was measured {other}; remove it or give another --output"
                )
        self.content = there

    def has(self, kind: str, **cell: Any) -> bool:
        return any(cell.items() <= there.items() for there in self.content.get(kind, []))

    def add(self, kind: str, cells: Iterable[dict[str, Any]]) -> None:
        for cell in cells:
            self.content.setdefault(kind, []).append(cell)
            write_files({self.path: (json.dumps(self.content, indent=1) + "\n").encode()})


def origin(gpu: str) -> dict[str, Any]:
    import bitsandbytes
    import torch
    import transformers

    now = datetime.datetime.now(datetime.UTC)
    packages = (torch, bitsandbytes, transformers)
    versions = {package.__name__: package.__version__ for package in packages}
    return {
        "date": f"{now:%Y-%m-%d}",
        "commit": checkout().commit,
        "gpu": gpu,
        "versions": versions,
    }


def host_times(file: File, batches: Sequence[int], nested: bool) -> Iterator[dict[str, Any]]:
    import torch

    from experiments.end_to_end import build
    from reprolab_nf4.measuring import shuffled

    made = {"bias": False, "device": "cuda", "dtype": torch.bfloat16}
    dense = [torch.nn.Linear(SIZE, SIZE, **made).eval() for _ in range(LAYERS)]
    packed = [build.quantized(layer, "cuda", torch.bfloat16, nested).eval() for layer in dense]
    for batch in batches:
        key = {"rows": batch, "nested": nested, "layers": LAYERS, "size": SIZE}
        if file.has("rows", **key):
            continue
        x = torch.randn(batch, 1, SIZE, device="cuda", dtype=torch.bfloat16)
        samples: dict[str, list[float]] = {way: [] for way in WAYS}
        outputs = {}
        for way in shuffled(WAYS, ROUNDS):
            layers = dense if way == DENSE else packed
            with installed(way):
                for _ in range(4):  # until calls are planned
                    outputs[way] = [layer(x) for layer in layers]
                torch.cuda.synchronize()  # so that no launch waits
                samples[way].append(us_per_layer(layers, x, time.perf_counter))
                torch.cuda.synchronize()
        pairs = zip(outputs[PYTHON], outputs[PLANNED], strict=True)
        same = all(torch.equal(a, b) for a, b in pairs)
        print(shown(f"{batch} rows, {scales(nested)}, host us per layer", samples), flush=True)
        yield key | {"host_us": samples, "same": same}


def cpu_times(file: File) -> Iterator[dict[str, Any]]:
    """Around products that do nothing, in the library of the tests; nn.Linear has 8 x 8 weights."""
    import torch

    from reprolab_nf4.measuring import shuffled
    from reprolab_nf4.tests import cpu_as_gpu

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        cpu_as_gpu.put_cpu_in_place_of_gpu(setattr, cpu_as_gpu.compile_extension(folder))
        library = cpu_as_gpu.compile_library(folder)
        table = cpu_as_gpu.table(folder / "table.json")
        counts = cpu_as_gpu.Counts(library)
        dense = [torch.nn.Linear(8, 8, bias=False).eval() for _ in range(LAYERS)]
        x = torch.randn(1, 1, cpu_as_gpu.K, dtype=torch.bfloat16)
        for nested in (False, True):
            key = {"nested": nested, "layers": LAYERS}
            if file.has("cpu", **key):
                continue
            packed = [cpu_as_gpu.layer(nested) for _ in range(LAYERS)]
            samples: dict[str, list[float]] = {way: [] for way in WAYS}
            for way in shuffled(WAYS, ROUNDS):
                given = (dense, x[..., :8].float()) if way == DENSE else (packed, x)
                with without_product(way), installed(way, library, table):
                    us_per_layer(*given, time.thread_time, 4)  # until calls are planned
                    counts.library.do_nothing(1)
                    samples[way].append(us_per_layer(*given, time.thread_time, 4))
                    counts.library.do_nothing(0)
            print(shown(f"{scales(nested)}, CPU us per layer", samples), flush=True)
            yield key | {"cpu_us": samples}


def without_product(way: str):
    """Replaces the product of bitsandbytes by an empty output; changes nothing for other ways."""
    import bitsandbytes

    def empty(A, B, quant_state, bias=None):
        return A.new_empty((*A.shape[:-1], quant_state.shape[0]))

    is_own = way == OWN
    return mock.patch.object(bitsandbytes, "matmul_4bit", empty) if is_own else nullcontext()


def us_per_layer(layers, x, clock: Callable[[], float], times: int = 1) -> float:
    started = clock()
    for _ in range(times):
        for layer in layers:
            layer(x)
    return 1e6 * (clock() - started) / (times * len(layers))


def speeds(
    file: File, batches: Sequence[int], args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Tokens per second of a model with random weights."""
    from experiments.end_to_end import build
    from experiments.end_to_end.gpu import Gpu
    from experiments.product.generation import Generations, Models, copy_gb_s

    sizes = known()[args.model]
    sizes = replace(sizes, layers=args.layers or sizes.layers)
    key = {"model": sizes.id, "layers": sizes.layers, "nested": args.nested, "cache": args.cache}
    key |= {"tokens": args.tokens}
    todo = [batch for batch in batches if not file.has("sequences", sequences=batch, **key)]
    if not todo:
        return
    build.quiet()
    gpu = Gpu()
    file.content.setdefault("copy_gb_s", copy_gb_s(gpu))
    models = Models(gpu, sizes, args.nested, max(todo), args.tokens)
    for way, why in models.missing.items():
        print(f"{way}: not measured: {why}", flush=True)
    for batch in todo:
        cell = Generations(gpu, models, args.cache, batch, args.tokens).measure(args.generations)
        title = f"{sizes.id}, {batch} sequences, {scales(args.nested)}, {args.cache} cache"
        print(shown(f"{title}, tokens/s", cell["tokens_per_s"]), flush=True)
        print(f"  {agreement(cell)}", flush=True)
        yield {"sequences": batch} | key | cell


def served(file: File, batches: Sequence[int], model: str) -> Iterator[dict[str, Any]]:
    from experiments.end_to_end.gpu import Gpu
    from experiments.product.serving import Served, plugin

    gpu, sizes = Gpu(), known()[model]
    with plugin(gpu) as (method, facts):
        for part in Served.parts:
            key = {"model": model, "part": part} | facts
            todo = [batch for batch in batches if not file.has("requests", requests=batch, **key)]
            layers = Served(gpu, method, sizes, part, max(todo)) if todo else None
            for batch in todo:
                cell = layers.measure(batch)
                print(shown(f"{model}, {part}, {batch} requests, us", cell["us"]), flush=True)
                yield {"requests": batch} | key | cell
            del layers
            gpu.forget()


def agreement(cell: dict[str, Any]) -> str:
    if "same" in cell:
        return "the same tokens with calls in Python" if cell["same"] else "other tokens"
    return f"first difference from a dynamic cache: {cell['difference'] or 'none'}"


def scales(nested: bool) -> str:
    return "nested scales" if nested else "plain scales"


if __name__ == "__main__":
    sys.exit(run(parser()))
