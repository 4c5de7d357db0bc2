"""Stand-ins for the GPU and for the drop-in library where tests run the experiment on a CPU:
models, bitsandbytes and transformers are real, a recorded kernel is an operation of PyTorch, and a
kernel of the drop-in library is a function of the weights that bitsandbytes' own gives.
"""

import ctypes
import sys
import time
import types
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from made import CLOCKS, GPU
from needs_torch import bitsandbytes, functional, torch
from torch.utils._python_dispatch import TorchDispatchMode

import reprolab_nf4
from experiments import end_to_end
from experiments.end_to_end import build, rows, sizes
from experiments.end_to_end.protocol import Launch
from reprolab_nf4 import matmul, native, timing_table

CPU = torch.device("cpu")
TINY = {"hidden": 128, "intermediate": 256, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 32}
TINY["vocab"] = 512
REAL = dict(sizes.known())
FAMILIES = ("gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b", "mistral-7b")
SMALL = {name: replace(REAL[name], **TINY) for name in FAMILIES}
MARK = "aten.digamma.default"
# Where there is a GPU, bitsandbytes loads its library for CUDA, whose functions for the CPU round
# ties away from zero.
CPU_LIBRARY = ctypes.CDLL(str(Path(bitsandbytes.__file__).with_name("libbitsandbytes_cpu.so")))
ONE = torch.ones(1)


class Recorder(TorchDispatchMode):
    """Records each operation as one launch of 1 us, one after the other."""

    def __init__(self):
        super().__init__()
        self.launches = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if not any(x.alias_info for x in function._schema.returns):  # a view runs nothing
            begin = 1000 * len(self.launches)
            self.launches.append(Launch(str(function), begin, begin + 1000))
        return function(*args, **(kwargs or {}))


class Cpu:
    device, kind = torch.device("cpu"), "cpu"

    def __init__(self, free_bytes=1 << 40):
        self.sensors = types.SimpleNamespace(
            read=lambda: None, sm_mhz=1980, clocks=lambda: dict(CLOCKS)
        )
        self.free = free_bytes

    def facts(self):
        return dict(GPU)

    def free_bytes(self):
        return self.free

    def name(self):
        return "a CPU"

    def l2_bytes(self):
        return GPU["l2_bytes"]

    def forget(self):
        pass

    def synchronize(self):
        pass

    def mark(self):
        torch.digamma(ONE)

    def mark_name(self):
        return MARK

    def time_us(self, run, times):
        started = time.perf_counter()
        for _ in range(times):
            run()
        return 1e6 * (time.perf_counter() - started)

    def new_pool(self):
        return None

    def capture(self, step, pool, before=lambda: None):
        before()
        step()
        return step

    def records(self, run):
        with Recorder() as recorder:
            result = run()
        return result, recorder.launches


def put_gpu(monkeypatch):
    """Replaces gpu.py, which needs a GPU."""
    stand_in = types.SimpleNamespace(Gpu=Cpu)
    monkeypatch.setitem(sys.modules, "experiments.end_to_end.gpu", stand_in)
    monkeypatch.setattr(end_to_end, "gpu", stand_in, raising=False)


def flipped(weight):
    """Like a kernel that decodes one weight of a matrix wrongly."""
    weight = weight.clone()
    weight.view(-1)[0] = 40.0
    return weight


def last_bit(weight):
    """Like a kernel that rounds otherwise, which tokens do not show."""
    weight = weight.clone()
    weight.view(torch.int16).view(-1)[::97] ^= 1
    return weight


class WrongLater:
    """Like a kernel that is right in its first calls, which are checked, and then wrong."""

    def __init__(self, calls):
        self.left = calls

    def __call__(self, weight):
        self.left -= 1
        return flipped(weight) if self.left < 0 else weight


KERNELS = {
    "branch_tree": lambda weight: weight,
    "shared_lut": lambda weight: weight,
    "streaming": lambda weight: weight,
    "one_wrong": flipped,
    "last_bit": last_bit,
}


LIBRARY = types.SimpleNamespace(
    built=lambda: ("13.0.88", "90"),
    products=lambda: ["few_rows"],
    exact_products=lambda: [],
)
TABLE = timing_table.Table(
    "a GPU",
    "9.0",
    "made up",
    (timing_table.Layer(128, 128, "fp16", False, {512: {"few_rows": 1.0}}),),
)


@contextmanager
def install(library=None, kernel=None, products="fastest"):
    """In place of reprolab_nf4.install()."""
    if kernel is not None and kernel not in KERNELS:
        raise ValueError(f"there is no kernel '{kernel}'")
    dequantize, multiply = functional.dequantize_4bit, bitsandbytes.matmul_4bit
    change = KERNELS[kernel or "branch_tree"]
    functional.dequantize_4bit = lambda *a, **k: change(dequantize(*a, **k))
    if products != "bitsandbytes":
        dispatcher = matmul.Dispatcher(LIBRARY, products, None)
        bitsandbytes.matmul_4bit = matmul.put_in_place_of(multiply, dispatcher)
    try:
        yield types.SimpleNamespace(kernels=lambda: list(KERNELS), library=LIBRARY)
    finally:
        functional.dequantize_4bit, bitsandbytes.matmul_4bit = dequantize, multiply


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    build.quiet()
    torch.set_num_threads(1)
    # Its layout of weights for such CPUs is one that dequantize_4bit does not know.
    monkeypatch.setattr(bitsandbytes.nn.modules, "has_avx512bf16", lambda: False, raising=False)
    monkeypatch.setattr("bitsandbytes.backends.cpu.ops.lib", CPU_LIBRARY)
    monkeypatch.setattr(reprolab_nf4, "install", install)
    monkeypatch.setattr(reprolab_nf4, "Library", lambda: LIBRARY)
    monkeypatch.setattr(native, "native_library", lambda: None)
    # A CPU has one backend of products, whatever the table.
    monkeypatch.setattr(timing_table, "recorded", lambda *gpu: TABLE)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a CPU")
    code = {"target": "sm_90", "sha256": {"library.so": "0" * 64}}
    monkeypatch.setattr(rows, "code_of", lambda row, gpu: code)
    monkeypatch.setattr(sizes, "known", lambda: SMALL)
    monkeypatch.setenv("REPROLAB_COMMIT", "a" * 40)
