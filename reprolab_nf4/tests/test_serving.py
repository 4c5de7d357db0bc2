"""The calls of serving engines on the CPU: an operator that multiplies by the weights of several
layers (q, k and v), one after the other, into slices of one output.
"""

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest
import stub_vllm
from layers_on_cpu import needs_whole_graphs
from needs_torch import bitsandbytes, functional, torch
from torch.torch_version import TorchVersion

import reprolab_nf4
from reprolab_nf4 import engines, layers, timing_table

OWN_PRODUCT = bitsandbytes.matmul_4bit

import cpu_as_gpu  # noqa: E402, which needs bitsandbytes
from cpu_as_gpu import ROOT, K  # noqa: E402

SHARDS = (128, 64, 64)  # outputs of q, k and v
PLUGIN = ROOT / "build/vllm_plugin"
PINNED = Path(__file__).with_name("vllm_plugin.txt")
INSTALL_IT = f"pip install --no-deps --target {PLUGIN} -r {PINNED}"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return cpu_as_gpu.compile_library(tmp_path_factory.mktemp("serving"))


@pytest.fixture
def counts(library, tmp_path, monkeypatch):
    """The calls of our library after an engine has installed it by its entry point."""
    cpu_as_gpu.put_cpu_in_place_of_gpu(monkeypatch.setattr, Path("none"))
    table = timing_table.read(cpu_as_gpu.table(tmp_path / "table.json"))
    monkeypatch.setattr(timing_table, "recorded", lambda *gpu: table)
    monkeypatch.setattr("reprolab_nf4.matmul.recorded", lambda *gpu: table)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(reprolab_nf4, "BUILT", library)
    monkeypatch.delenv(engines.VARIABLE, raising=False)
    assert layers.extension() is None
    for _ in range(2):
        engines.install_in_engine()
    assert bitsandbytes.matmul_4bit is not OWN_PRODUCT
    yield cpu_as_gpu.Counts(library)
    reprolab_nf4._installed.undo()
    assert bitsandbytes.matmul_4bit is OWN_PRODUCT


class Weight:
    """q, k and v as an engine keeps them: bytes in a column, a state each, where each begins."""

    def __init__(self):
        torch.manual_seed(1)
        dense = [torch.randn(n, K).bfloat16() for n in SHARDS]
        found = [functional.quantize_4bit(x, quant_type="nf4") for x in dense]
        self.states = [state for _, state in found]
        self.codes = torch.cat([codes for codes, _ in found])
        self.offsets = torch.tensor([0] + [len(codes) for codes, _ in found]).cumsum(0)
        self.exact = torch.cat([functional.dequantize_4bit(*each).float() for each in found])

    def is_multiplied(self, x, out) -> bool:
        """The output is rounded to bf16, and so may each weight be."""
        expected, sums = x.float() @ self.exact.T, x.float().abs() @ self.exact.T.abs()
        return bool(((out - expected).abs() <= 2**-8 * (expected.abs() + sums)).all())


# Rows, and how many of the shards our library multiplies by: cpu_as_gpu's table of times.
CASES = pytest.mark.parametrize(("rows", "ours"), [(1, 3), (8, 3), (16, 3), (20, 0)])


@CASES
def test_the_call_of_an_engine_is_multiplied_by_our_kernels(rows, ours, counts):
    weight, x = Weight(), torch.randn(rows, K).bfloat16()
    out, begin = torch.full((rows, sum(SHARDS)), torch.nan).bfloat16(), 0
    counts.look()
    with torch.inference_mode():
        for i, (state, n) in enumerate(zip(weight.states, SHARDS, strict=True)):
            codes = weight.codes[weight.offsets[i] : weight.offsets[i + 1]]
            out[:, begin : begin + n] = bitsandbytes.matmul_4bit(x, codes.t(), state)
            begin += n
    assert counts.look().get("times_multiplied", 0) == ours
    assert weight.is_multiplied(x, out)


@pytest.fixture(scope="module")
def plugin():
    """vllm-bnb-plugin's module of linear layers, under vLLM, or what stands in for it."""
    if not hasattr(torch.library, "infer_schema"):
        pytest.skip(f"NOT TESTED, torch {torch.__version__}: vLLM's operators need 2.5")
    installed = bitsandbytes.__version__
    if TorchVersion(installed) < (0, 48, 1):
        pytest.skip(f"NOT TESTED, bitsandbytes {installed}: vllm-bnb-plugin needs 0.48.1")
    path, meta_path = list(sys.path), list(sys.meta_path)
    if importlib.util.find_spec("vllm_bnb_plugin") is None:
        sys.path.append(str(PLUGIN))
    if importlib.util.find_spec("vllm_bnb_plugin") is None:
        sys.path[:] = path
        pytest.skip(f"NOT TESTED, no vllm-bnb-plugin: {INSTALL_IT}")
    if importlib.util.find_spec("vllm") is None:
        sys.meta_path.append(stub_vllm.Finder())
    yield importlib.import_module("vllm_bnb_plugin.quantization.linear")
    sys.path[:], sys.meta_path[:] = path, meta_path
    for name in list(sys.modules):
        if name.partition(".")[0] in ("vllm", "vllm_bnb_plugin"):
            del sys.modules[name]


@CASES
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_whole_graphs)])
def test_vllms_plugin_multiplies_by_our_kernels(compiled, rows, ours, plugin, counts):
    weight, x = Weight(), torch.randn(rows, K).bfloat16()
    parameter = torch.nn.Parameter(weight.codes, requires_grad=False)
    parameter.bnb_quant_state = dict(enumerate(weight.states))
    parameter.bnb_shard_offsets = weight.offsets
    method = plugin.BitsAndBytesLinearMethod(types.SimpleNamespace(load_in_8bit=False))
    layer, apply = types.SimpleNamespace(weight=parameter), method.apply
    if compiled:
        torch.compiler.reset()
        apply = torch.compile(apply, fullgraph=True, backend="aot_eager")
    counts.look()
    with torch.no_grad():
        out = apply(layer, x)
    assert counts.look().get("times_multiplied", 0) == ours
    assert weight.is_multiplied(x, out)
