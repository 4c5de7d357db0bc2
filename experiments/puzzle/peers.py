"""The puzzle through Python: Unsloth's `fast_dequantize`, each version of it that `make peer
VERSION=unsloth-2026.10.9` installed a row, timed as published. Every output of a sample is compared
with the reference, bit for bit, after it.

`import unsloth` needs some twenty packages and changes others, such as transformers. Its module
`unsloth.kernels.utils` is therefore imported alone: the packages around it are present, but their
`__init__.py` does not run.

Exit status: 0; 1 if an output is wrong; 3 if a row was not measured for another reason.
"""

import argparse
import importlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import bitsandbytes
import torch

from experiments.end_to_end import SEED, build, measure, reference
from experiments.end_to_end.rounds import Measured
from experiments.end_to_end.sizes import BLOCK_SIZE
from experiments.product.peers import attempt
from reprolab import result_file
from reprolab.command_line import Parser, run
from reprolab.result_file import Content
from reprolab_nf4 import measuring
from reprolab_nf4.bounds import Wrong

Dequantize = Callable[[torch.Tensor, Any], torch.Tensor]
WALL_TIME = "wall_time"
ITERATIONS, WARM_UP, SAMPLES = 1000, 2, 5
MATRICES = ("up", "gate", "down")
NESTED_BLOCK = 256  # scales
OWN_KERNEL = "one Triton kernel of its own"
POISON = -1  # in all bits: not a number in fp16 and bf16
PEERS = Path("build/peers")
NAME, ZOO = "unsloth", "unsloth_zoo"
AROUND = (NAME, f"{NAME}.kernels", ZOO, f"{ZOO}.temporary_patches")
MODULE = f"{NAME}.kernels.utils"
INSTALL = f"make peer VERSION={NAME}-2026.10.9"


class Mlp(NamedTuple):
    """As in puzzle.hpp."""

    hidden: int
    intermediate: int
    output: torch.dtype

    @property
    def name(self) -> str:
        return f"{self.hidden}x{self.intermediate}"


MLPS = (
    Mlp(2048, 8192, torch.float16),
    Mlp(1024, 4096, torch.bfloat16),
    Mlp(4096, 14336, torch.bfloat16),
)


class Matrix:
    """Random weights with nested scales, and the bits that dequantization must give."""

    def __init__(self, mlp: Mlp, seed: int, device: torch.device):
        chance = torch.Generator(device).manual_seed(seed)
        empty = torch.empty((mlp.intermediate, mlp.hidden), dtype=mlp.output, device=device)
        weight = empty.normal_(0, build.SCALE, generator=chance)
        self.codes, self.state = build.nf4(weight, BLOCK_SIZE, nested=True)
        self.expected = reference.dequantized(self.codes, self.state).to(device)

    def exchange(self, other: "Matrix") -> None:
        """Takes the other's weights, at the addresses of its own."""
        own, new = self.state, other.state
        pairs = [(self.codes, other.codes), (self.expected, other.expected)]
        pairs += [(own.absmax, new.absmax), (own.state2.absmax, new.state2.absmax)]
        for tensor, values in [*pairs, (own.offset, new.offset)]:
            tensor.copy_(values)

    def check(self, output: torch.Tensor, name: str) -> None:
        if (output.shape, output.dtype) != (self.state.shape, self.state.dtype):
            fault = f"{name}: the output is {output.dtype} of {tuple(output.shape)}"
            raise Wrong(self.expected.numel(), fault)
        bits = output.view(torch.int16).flatten()
        if count := int((bits != self.expected).sum()):
            raise Wrong(count, f"{name}: {count} of {bits.numel()} weights are wrong")


class Puzzle:
    def __init__(self, gpu: Any):
        self.gpu = gpu
        self.matrices = {mlp: self.make(mlp, SEED) for mlp in MLPS}

    def make(self, mlp: Mlp, seed: int) -> list[Matrix]:
        first = seed * len(MATRICES)
        return [Matrix(mlp, first + i, self.gpu.device) for i in range(len(MATRICES))]

    def verify(self, dequantize: Dequantize) -> None:
        for mlp in MLPS:
            self.check(mlp, self.iterate(mlp, dequantize))

    def exchange(self) -> None:
        """Gives all matrices other weights: outputs kept from the verification are then wrong."""
        for mlp, matrices in self.matrices.items():
            for matrix, other in zip(matrices, self.make(mlp, SEED + 1), strict=True):
                matrix.exchange(other)

    def iterate(self, mlp: Mlp, dequantize: Dequantize) -> list[torch.Tensor]:
        outputs = []
        for matrix in self.matrices[mlp]:
            outputs.append(dequantize(matrix.codes, matrix.state))
            self.gpu.synchronize()
        return outputs

    def check(self, mlp: Mlp, outputs: Sequence[torch.Tensor]) -> None:
        for name, matrix, output in zip(MATRICES, self.matrices[mlp], outputs, strict=True):
            matrix.check(output, f"{mlp.name}.{name}")

    def sample(self, dequantize: Dequantize) -> dict[str, float]:
        """Times in us of a whole run, by metric."""
        times = {f"{WALL_TIME}.{mlp.name}": self.wall_us(mlp, dequantize) for mlp in MLPS}
        return {WALL_TIME: sum(times.values())} | times

    def wall_us(self, mlp: Mlp, dequantize: Dequantize) -> float:
        """Compares the outputs of the last iteration and of one at random, which is kept."""
        for _ in range(WARM_UP):
            self.iterate(mlp, dequantize)
        self.poison(mlp)
        chosen, kept, outputs = random.randrange(ITERATIONS), [], []
        started = time.perf_counter()
        for i in range(ITERATIONS):
            outputs = []  # frees the previous ones, as in use without references to them
            outputs = self.iterate(mlp, dequantize)
            if i == chosen:
                kept = outputs
        us = 1e6 * (time.perf_counter() - started)
        self.check(mlp, kept)
        self.check(mlp, outputs)
        return us

    def poison(self, mlp: Mlp) -> None:
        """Fills the freed memory that the allocator will reuse for outputs: those of the kept
        iteration and of another one.
        """
        expected = [matrix.expected for matrix in self.matrices[mlp]]
        filled = [torch.full_like(tensor, POISON) for tensor in 2 * expected]
        self.gpu.synchronize()
        del filled


def installed_versions() -> list[str]:
    """The completely installed ones, by their metadata, the oldest first."""
    whole = (file.parent for file in PEERS.glob(f"{NAME}-*/ready"))
    files = [file for folder in whole for file in folder.glob(f"{NAME}-*.dist-info")]
    known = {file.name.removeprefix(f"{NAME}-").removesuffix(".dist-info") for file in files}
    return sorted(known, key=lambda version: [int(n) for n in version.split(".")])


def kernels(version: str) -> ModuleType:
    """The module of that version; ImportError where there is none. A later call with another
    version leaves the modules of the earlier one in use.
    """
    folder = PEERS.absolute() / f"{NAME}-{version}"
    if not (folder / NAME).is_dir():
        raise ImportError(f"no Unsloth {version} in {PEERS}")
    for name in [n for n in sys.modules if n.partition(".")[0] in (NAME, ZOO)]:
        del sys.modules[name]
    for name in AROUND:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module_from_spec(spec)
    return importlib.import_module(MODULE)


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="python -m experiments.puzzle.peers", description=__doc__)
    p.add_argument("--output", type=Path, required=True, help="the pass's result file")
    p.set_defaults(run=reproduce)
    return p


def reproduce(args: argparse.Namespace) -> int:
    versions = installed_versions()
    installed = {NAME: ", ".join(versions)} if versions else {}
    records_of = lambda gpu: measured(gpu, versions)  # noqa: E731
    return measure.write_peers(args.output, "puzzle", records_of, installed)


def measured(gpu: Any, versions: Sequence[str]) -> list[Content]:
    """A record of each version, or, without Unsloth, one that says how to install it."""
    puzzle = Puzzle(gpu)
    rows = {version: Measured() for version in versions or [""]}
    loaded: dict[str, ModuleType] = {}
    for version in rows:
        with attempt(rows[version], INSTALL):
            loaded[version] = kernels(version)
            puzzle.verify(loaded[version].fast_dequantize)
    puzzle.exchange()
    print(f"{SAMPLES} samples of {', '.join(loaded)}", file=sys.stderr)
    for version in measuring.shuffled(loaded, SAMPLES):
        if rows[version].failed:
            continue
        with attempt(rows[version], INSTALL):
            times = puzzle.sample(loaded[version].fast_dequantize)
            gpu.sensors.read()
            rows[version].keep(times, gpu.sensors)
    library = f"bitsandbytes {bitsandbytes.__version__}"
    made = dict.fromkeys(rows, f"two calls of {library}")
    # Since 2026.10; not with UNSLOTH_BNB_TRITON=0, nor after one that did not compile.
    made |= {v: OWN_KERNEL for v in loaded if getattr(loaded[v], "_USE_NF4_KERNELS", False)}
    return [record(version, one, made[version]) for version, one in rows.items()]


def record(version: str, timed: Measured, kernels: str) -> Content:
    """`kernels`: what one call launches."""
    row = {"kernel": f"{NAME}_{version}".rstrip("_")}
    row |= {"origin": {"kind": "peer", "maker": f"Unsloth {version}".rstrip()}}
    row |= {"lineage": f"fast_dequantize, called in Python: {kernels}"}
    row |= {"source_file": "", "deviation": None, "code": None}
    each = [mlp.hidden * mlp.intermediate for mlp in MLPS]
    weights = len(MATRICES) * sum(each)
    scales = [n // BLOCK_SIZE for n in each]
    read = sum(n // 2 + s + 4 * (s // NESTED_BLOCK) for n, s in zip(each, scales, strict=True))
    times = ITERATIONS * len(MATRICES)
    problem = {"name": f"three MLPs, {ITERATIONS} times", "family": "puzzle"}
    problem |= {"iterations": ITERATIONS, "launches": times * len(MLPS), "weights": weights}
    problem |= {"block_size": BLOCK_SIZE, "nested": True}
    moved = {"read": times * read, "written": 2 * ITERATIONS * weights}
    return result_file.record(row, problem, **timed.fields(), bytes=moved)


if __name__ == "__main__":
    sys.exit(run(parser()))
