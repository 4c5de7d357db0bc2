"""What the tests install, and the layers that they call: on a GPU the library of `make dropin`, on
a CPU one that computes products there, with the extension in C of this checkout, as if the CPU were
a GPU. Needs torch and bitsandbytes.
"""

import contextlib
import ctypes
import os
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

from reprolab_nf4.tests.bitsandbytes_on_cpu import bitsandbytes, torch

# isort: split
# What follows needs both; the line above skips the tests where there is neither.
import reprolab_nf4
from reprolab_nf4 import layers, library, matmul, native, timing_table
from reprolab_nf4.timing_table import BITSANDBYTES

ROOT = Path(__file__).resolve().parents[2]
torch.set_num_threads(1)
N, K = 64, 128
BACKENDS = {8: {"few_rows": 1.0}, 16: {"many_rows": 1.0}, 32: {BITSANDBYTES: 1.0}}
COMPILED = tempfile.TemporaryDirectory()  # until the process ends


@cache
def compile_extension() -> Path:
    """Compiles the extension as CMakeLists.txt does, but without nvcc."""
    made = Path(COMPILED.name) / layers.EXTENSION.name
    headers = sysconfig.get_paths()["include"]
    options = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    sources = sorted((ROOT / "reprolab_nf4/csrc/layers").glob("*.cpp"))
    command = ["g++", *options, "-I", ROOT, "-I", headers, "-o", made, *sources]
    subprocess.run(command, check=True)
    return made


@cache
def compile_library() -> Path:
    made = Path(COMPILED.name) / "libcpu.so"
    source = Path(__file__).with_name("cpu_library.cpp")
    options = ["-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I", ROOT]
    subprocess.run(["g++", *options, "-o", made, source], check=True)
    return made


def put_cpu_in_place_of_gpu(put) -> None:
    """`put`: setattr, or that of pytest's monkeypatch."""

    class Native:
        """In place of bitsandbytes' CUDA library."""

    lib = Native()
    put(layers, "EXTENSION", compile_extension())
    put(library, "BUILT", compile_library())
    put(native, "native_library", lambda: lib)
    put(matmul, "capability", lambda device: "9.0")
    put(matmul, "runs", lambda *given: True)
    put(matmul, "stream_of", lambda tensor: 0)
    put(torch.cuda, "get_device_name", lambda device: "a GPU")


class Bench:
    """A device, what is installed there, and the calls of its library."""

    def __init__(self, device: str, folder: Path, capability: str = "9.0"):
        self.device, self._folder, self._capability = device, folder, capability
        self.library = ctypes.CDLL(os.fspath(library.BUILT))
        # PyTorch before 2.10 plans no calls: there the numbers alone are compared.
        self.counts_calls = hasattr(self.library, "times_run") and layers.extension() is not None
        for name in ("workspace_of_last_run", "stream_of_last_run") if self.counts_calls else ():
            getattr(self.library, name).restype = ctypes.c_void_p
        self._before = self._all()

    def install(self, products="fastest", backends=BACKENDS, **more):
        layer = timing_table.Layer(N, K, "fp16", False, backends)
        table = timing_table.Table("a GPU", self._capability, "made up", (layer,))
        timing_table.write(self._folder / "table.json", table)
        return reprolab_nf4.install(products=products, table=self._folder / "table.json", **more)

    def _all(self) -> dict[str, int]:
        names = ("times_multiplied", "times_run", "times_refused", "runs_of_settled_weights")
        return {name: getattr(self.library, name)() for name in names if self.counts_calls}

    def look(self) -> dict[str, int]:
        """The calls of the library since the last look."""
        now = self._all()
        counts = {name: now[name] - before for name, before in self._before.items()}
        self._before = now
        return {name: count for name, count in counts.items() if count}

    def path(self) -> str:
        """That of the one product since the last look(); "" on a GPU, which does not count."""
        seen = self.look()
        if seen.get("times_refused"):
            return "refused"
        if seen.get("times_run"):
            return "planned"
        return ("ours" if seen else "theirs") * self.counts_calls

    def layer(self, nested=False, bias=False, dtype=torch.bfloat16, n=N, k=K, kind="nf4", **more):
        linear = bitsandbytes.nn.Linear4bit(
            k,
            n,
            bias=bias,
            compute_dtype=dtype,
            quant_type=kind,
            compress_statistics=nested,
            **more,
        )
        linear.support_avx512bf16_for_cpu = False  # it has another layout of codes
        linear = linear.to(dtype)
        if self.device == "cpu":
            with torch.no_grad():
                linear.weight = linear.weight._quantize("cpu")
        return linear.to(self.device).requires_grad_(False).eval()

    def inputs(self, *shape, dtype=torch.bfloat16):
        return torch.randn(*(shape or (3, K))).to(dtype).to(self.device)


def stance(name: str):
    """Of torch.compile: bitsandbytes compiles some of its products on a CPU, for each shape."""
    has_it = hasattr(torch.compiler, "set_stance")
    return torch.compiler.set_stance(name) if has_it else contextlib.nullcontext()


def reset() -> None:
    """After a test: nothing is installed."""
    if (installed := reprolab_nf4.installation.installed()) is not None:
        installed.undo()


def outcome(call, *given):
    """What the call returns, or its error."""
    try:
        with torch.no_grad():
            return call(*given)
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]


def close(ours, alone, exact=False) -> None:
    """Asserts that both are the same values of the same type: to the bit, or within the rounding of
    weights and outputs to bf16.
    """
    if not isinstance(alone, torch.Tensor):
        assert type(ours) is type(alone), (ours, alone)
        if isinstance(alone, tuple) and any(isinstance(each, torch.Tensor) for each in alone):
            for both in zip(ours, alone, strict=True):
                close(*both, exact=exact)
        else:
            assert ours == alone
        return
    assert isinstance(ours, torch.Tensor), ours
    facts = ("dtype", "shape", "device", "requires_grad")
    for name in facts:
        assert getattr(ours, name) == getattr(alone, name), name
    assert ours.stride() == alone.stride()
    if exact:
        assert torch.equal(ours, alone)
    elif alone.numel():
        off = (ours.float() - alone.float()).abs().max()
        assert off <= 2**-6 * max(1.0, float(alone.float().abs().max()))
