"""bitsandbytes' layers on the CPU as if it were a GPU: what install() puts under them is a library
that multiplies on the CPU, and the extension in C of this checkout. Needs torch 2.10 and
bitsandbytes.
"""

import contextlib
import ctypes
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import bitsandbytes
import torch

import reprolab_nf4
from reprolab_nf4 import layers, matmul, timing_table

ROOT = Path(__file__).resolve().parents[2]
BOUND = "reference/nf4_product/error_bound.cpp"
N, K = 64, 128
WAYS = {8: {"few_rows": 1.0}, 16: {"many_rows": 1.0}, 32: {timing_table.OWN: 1.0}}


def compile_extension(folder: Path) -> Path:
    """Compiles the extension as CMakeLists.txt does, but without nvcc."""
    made = folder / layers.EXTENSION.name
    headers = sysconfig.get_paths()["include"]
    options = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    sources = sorted((ROOT / "reprolab_nf4/csrc/layers").glob("*.cpp"))
    command = ["g++", *options, "-I", ROOT, "-I", headers, "-o", made, *sources]
    subprocess.run(command, check=True)
    return made


def compile_library(folder: Path) -> Path:
    made = folder / "libcpu.so"
    sources = (Path(__file__).with_name("cpu_library.cpp"), ROOT / BOUND)
    options = ["-std=c++20", "-O2", "-shared", "-fPIC", "-I", ROOT]
    subprocess.run(["g++", *options, "-o", made, *sources], check=True)
    return made


COMPILED = tempfile.TemporaryDirectory()  # until the process ends


@cache
def compiled(compile_into: Callable[[Path], Path]) -> Path:
    """The file that one of the above makes, shared by all tests of a process."""
    return compile_into(Path(COMPILED.name))


def put_cpu_in_place_of_gpu(put, extension: Path) -> None:
    """`put`: setattr, or that of pytest's monkeypatch."""

    class Native:
        """In place of bitsandbytes' CUDA library."""

    native = Native()
    put(layers, "EXTENSION", extension)
    put(reprolab_nf4, "native_library", lambda: native)
    put(matmul, "capability", lambda device: "9.0")
    put(matmul, "runs", lambda *given: True)
    put(matmul, "stream_of", lambda tensor: 0)
    for module in (matmul, layers):
        put(module, "on_device_of", lambda tensor: contextlib.nullcontext())


def table(path: Path, ways=WAYS, n: int = N, k: int = K) -> Path:
    layer = timing_table.Layer(n, k, "fp16", False, ways)
    timing_table.write(path, timing_table.Table("a GPU", "9.0", "made up", (layer,)))
    return path


class Counts:
    """The calls of the library since the last look()."""

    def __init__(self, library: Path):
        self.library = ctypes.CDLL(os.fspath(library))
        self._before = self._all()

    def _all(self) -> dict[str, int]:
        names = ("times_multiplied", "times_run", "runs_of_settled_weights", "runs_with_workspace")
        return {name: getattr(self.library, name)() for name in names}

    def look(self) -> dict[str, int]:
        now = self._all()
        counts = {name: now[name] - before for name, before in self._before.items()}
        self._before = now
        return {name: count for name, count in counts.items() if count}

    def alive(self) -> int:
        return self.library.plans_alive()


def layer(nested=False, bias=False, dtype=torch.bfloat16, n=N, k=K, kind="nf4", **more):
    linear = bitsandbytes.nn.Linear4bit(
        k, n, bias=bias, compute_dtype=dtype, quant_type=kind, compress_statistics=nested, **more
    )
    linear.support_avx512bf16_for_cpu = False  # it has another layout of codes
    with torch.no_grad():
        linear.to(dtype).weight = linear.weight._quantize("cpu")
    return linear.requires_grad_(False).eval()
