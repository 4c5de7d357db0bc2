"""bitsandbytes' layers on the CPU as if it were a GPU: what install() puts under them is a library
that multiplies on the CPU, and the extension in C of this checkout.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import reprolab_nf4

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")
bitsandbytes = pytest.importorskip("bitsandbytes", reason="NOT TESTED, no bitsandbytes")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("NOT TESTED, no C exchange before torch 2.10", allow_module_level=True)

from reprolab_nf4 import choices, layers, multiplying  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
N, K = 64, 128
OWN = bitsandbytes.nn.Linear4bit.forward
PLANNED, TODAY = {"times_run": 1, "runs_of_settled_weights": 1}, {"times_multiplied": 1}
WAYS = {8: {"few_rows": 1.0}, 16: {"many_rows": 1.0}, 32: {choices.OWN: 1.0}}


def compile_extension(folder: Path) -> Path:
    """As CMakeLists.txt does, which needs nvcc for what is beside it."""
    made = folder / layers.EXTENSION.name
    headers = sysconfig.get_paths()["include"]
    options = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    sources = sorted((ROOT / "reprolab_nf4/csrc/layers").glob("*.cpp"))
    command = ["g++", *options, "-I", ROOT, "-I", headers, "-o", made, *sources]
    subprocess.run(command, check=True)
    return made


def compile_library(folder: Path) -> Path:
    made = folder / "libcpu.so"
    source = Path(__file__).with_name("cpu_library.cpp")
    subprocess.run(["g++", "-std=c++20", "-O2", "-shared", "-fPIC", "-o", made, source], check=True)
    return made


def put_cpu_in_place_of_gpu(monkeypatch, extension: Path) -> None:
    class Native:
        """In place of bitsandbytes' CUDA library."""

    native = Native()
    monkeypatch.setattr(layers, "EXTENSION", extension)
    monkeypatch.setattr(reprolab_nf4, "native_library", lambda: native)
    monkeypatch.setattr(multiplying, "capability", lambda device: "9.0")
    monkeypatch.setattr(multiplying, "runs", lambda *given: True)
    monkeypatch.setattr(multiplying, "stream_of", lambda tensor: 0)
    for module in (multiplying, layers):
        monkeypatch.setattr(module, "on_device_of", lambda tensor: contextlib.nullcontext())


def table(path: Path, ways=WAYS, n: int = N, k: int = K) -> Path:
    layer = choices.Layer(n, k, "fp16", False, ways)
    choices.write(path, choices.Table("a GPU", "9.0", "made up", (layer,)))
    return path


class Counts:
    """What the library was asked for since the last look."""

    def __init__(self, library: Path):
        self.library = ctypes.CDLL(os.fspath(library))
        self._before = self._all()

    def _all(self) -> dict[str, int]:
        names = ("times_multiplied", "times_run", "runs_of_settled_weights", "runs_with_workspace")
        return {name: getattr(self.library, name)() for name in names}

    def look(self) -> dict[str, int]:
        now = self._all()
        found = {name: now[name] - before for name, before in self._before.items()}
        self._before = now
        return {name: count for name, count in found.items() if count}

    def alive(self) -> int:
        return self.library.plans_alive()


def layer(nested=False, bias=False, dtype=torch.bfloat16, n=N, k=K, kind="nf4", **more):
    found = bitsandbytes.nn.Linear4bit(
        k, n, bias=bias, compute_dtype=dtype, quant_type=kind, compress_statistics=nested, **more
    )
    found.support_avx512bf16_for_cpu = False  # whose codes are laid out in another way
    with torch.no_grad():
        found.to(dtype).weight = found.weight.to("cpu")  # which quantizes
    return found.requires_grad_(False).eval()


@pytest.fixture(name="built", scope="session")
def put_built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layers")
    return compile_extension(folder), compile_library(folder)


@pytest.fixture(name="installed")
def put_installed(built, monkeypatch, tmp_path):
    extension, library = built
    put_cpu_in_place_of_gpu(monkeypatch, extension)
    path = table(tmp_path / "table.json")
    with reprolab_nf4.install(library, table=path) as found, torch.no_grad():
        yield found
    assert Counts(library).alive() == 0


@pytest.fixture(name="counts")
def put_counts(built, installed):
    return Counts(built[1])


def inputs(rows=3, dtype=torch.bfloat16, k=K):
    return torch.randn(rows, k).to(dtype)


def planned(*given, x=None, **more):
    """A layer whose product with x is planned."""
    found = layer(*given, **more)
    for _ in range(3):
        found(inputs() if x is None else x)
    return found


def bits(tensor):
    return tensor.detach().view(torch.int16)


def same(found, expected):
    assert type(found) is type(expected) and found.requires_grad == expected.requires_grad
    assert (found.shape, found.dtype, found.stride()) == (
        *(expected.shape, expected.dtype, expected.stride()),
    )
    return torch.equal(bits(found), bits(expected))


def called(counts, call, expected_call=None):
    """What the library was asked for by a call, whose output is that of the other."""
    expected = expected_call() if expected_call else None
    counts.look()
    found = call()
    seen = counts.look()
    assert expected is None or same(found, expected)
    return seen


def taken(counts, one, x):
    return called(counts, lambda: one(x), lambda: OWN(one, x))


def functions_of(call) -> list[str]:
    """In Python, that a call runs."""
    seen = []

    def note(frame, event, _):
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen
