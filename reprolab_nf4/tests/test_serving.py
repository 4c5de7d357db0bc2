"""The calls of serving engines on the CPU: an operator that multiplies by the weights of several
layers (q, k and v), one after the other, into slices of one output, or by all of them at once.
"""

import inspect
import sys
import types
from pathlib import Path

import pytest
from layers_on_cpu import needs_whole_graphs
from needs_torch import bitsandbytes, functional, torch

import reprolab_nf4
from reprolab_nf4 import engines, layers, shards, timing_table
from reprolab_nf4.c_functions import NoCodeError
from reprolab_nf4.imports import Awaited
from reprolab_nf4.tests import stub_vllm

OWN_PRODUCT = bitsandbytes.matmul_4bit

import cpu_as_gpu  # noqa: E402, which needs bitsandbytes
from cpu_as_gpu import K  # noqa: E402

SHARDS = (128, 64, 64)  # outputs of q, k and v
needs_overrides = pytest.mark.skipif(
    "allow_override" not in inspect.signature(torch.library.Library.impl).parameters,
    reason=f"NOT TESTED, torch {torch.__version__}: no operator can be replaced",
)


@pytest.fixture(scope="module")
def library():
    return cpu_as_gpu.compiled(cpu_as_gpu.compile_library)


@pytest.fixture
def counts(library, tmp_path, monkeypatch):
    """Counts the calls of our library after an engine has installed it by its entry point."""
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
    if reprolab_nf4._installed is not None:
        reprolab_nf4._installed.undo()
    assert bitsandbytes.matmul_4bit is OWN_PRODUCT


class Weight:
    """q, k and v as in an engine: codes in a column, a state for each, and their offsets."""

    def __init__(self, shards=SHARDS):
        torch.manual_seed(1)
        dense = [torch.randn(n, K).bfloat16() for n in shards]
        quantized = [functional.quantize_4bit(x, quant_type="nf4") for x in dense]
        self.states = [state for _, state in quantized]
        self.codes = torch.cat([codes for codes, _ in quantized])
        self.offsets = torch.tensor([0] + [len(codes) for codes, _ in quantized]).cumsum(0)
        self.exact = torch.cat([functional.dequantize_4bit(*each).float() for each in quantized])

    def is_multiplied(self, x, out) -> bool:
        """The output is rounded to bf16, and each weight may be."""
        expected, sums = x.float() @ self.exact.T, x.float().abs() @ self.exact.T.abs()
        return bool(((out - expected).abs() <= 2**-8 * (expected.abs() + sums)).all())


# Rows, and whether our library multiplies by cpu_as_gpu's table of times.
CASES = pytest.mark.parametrize(
    ("rows", "is_ours"), [(1, True), (8, True), (16, True), (20, False)]
)


@CASES
def test_the_call_of_an_engine_is_multiplied_by_our_kernels(rows, is_ours, counts):
    weight, x = Weight(), torch.randn(rows, K).bfloat16()
    out, begin = torch.full((rows, sum(SHARDS)), torch.nan).bfloat16(), 0
    counts.look()
    with torch.inference_mode():
        for i, (state, n) in enumerate(zip(weight.states, SHARDS, strict=True)):
            codes = weight.codes[weight.offsets[i] : weight.offsets[i + 1]]
            out[:, begin : begin + n] = bitsandbytes.matmul_4bit(x, codes.t(), state)
            begin += n
    assert counts.look().get("times_multiplied", 0) == is_ours * len(SHARDS)
    assert weight.is_multiplied(x, out)


@pytest.fixture
def parameter(plugin):
    """The parameter of a layer of vLLM for a Weight, and the operator on it."""

    def make(weight):
        made = torch.nn.Parameter(weight.codes, requires_grad=False)
        made.bnb_quant_state = dict(enumerate(weight.states))
        made.bnb_shard_offsets = weight.offsets
        return made

    return make


def call(parameter, x, out=None):
    """The operator, as vLLM's plugin calls it."""
    out = x.new_full((len(x), sum(SHARDS)), torch.nan) if out is None else out
    with torch.no_grad():
        torch.ops.vllm.apply_bnb_4bit(x, parameter, parameter.bnb_shard_offsets, out)
    return out


@needs_overrides
@CASES
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_whole_graphs)])
def test_vllms_layer_multiplies_by_all_shards_in_one_launch(
    compiled, rows, is_ours, plugin, parameter, counts
):
    weight, x = Weight(), torch.randn(rows, K).bfloat16()
    method = plugin.BitsAndBytesLinearMethod(types.SimpleNamespace(load_in_8bit=False))
    layer, apply = types.SimpleNamespace(weight=parameter(weight)), method.apply
    if compiled:
        torch.compiler.reset()
        apply = torch.compile(apply, fullgraph=True, backend="aot_eager")
    counts.look()
    with torch.inference_mode():
        out = apply(layer, x)
    assert counts.look().get("times_multiplied", 0) == is_ours
    assert weight.is_multiplied(x, out)
    memory = {state.absmax.untyped_storage().data_ptr() for state in weight.states}
    assert len(memory) == 1  # no scale is stored twice


@needs_overrides
def test_a_layer_of_one_shard_is_written_to_the_output(parameter, counts):
    weight, x = Weight((128,)), torch.randn(2, K).bfloat16()
    absmax, out = weight.states[0].absmax, x.new_empty(2, 128)
    counts.look()
    call(parameter(weight), x, out)
    assert counts.look() == {"times_multiplied": 1} and weight.is_multiplied(x, out)
    assert weight.states[0].absmax is absmax


def nested(weight, i=1):
    dense = torch.randn(SHARDS[i], K).bfloat16()
    _, weight.states[i] = functional.quantize_4bit(
        dense, quant_type="nf4", compress_statistics=True
    )


def all_nested(weight):
    for i in range(len(SHARDS)):
        nested(weight, i)


def of_another_type(weight):
    weight.states[2].dtype = torch.float16


def in_another_order(weight):
    weight.states[0], weight.states[1] = weight.states[1], weight.states[0]


def with_a_scale_too_many(weight):
    absmax = weight.states[0].absmax
    weight.states[0].absmax = torch.cat([absmax, absmax[:1]])


NOT_ONE_MATRIX = (nested, all_nested, of_another_type, in_another_order, with_a_scale_too_many)


@needs_overrides
@pytest.mark.parametrize("change", NOT_ONE_MATRIX)
def test_shards_that_are_not_one_matrix_are_multiplied_one_by_one(change, parameter, counts):
    weight, x = Weight(), torch.randn(2, K).bfloat16()
    change(weight)
    made, before = parameter(weight), [state.absmax for state in weight.states]
    expected = torch.empty(2, 0).bfloat16()
    for i, state in enumerate(weight.states):
        codes = weight.codes[weight.offsets[i] : weight.offsets[i + 1]]
        if codes.numel() * 2 == state.shape.numel():
            product = bitsandbytes.matmul_4bit(x, codes.t(), state)
            expected = torch.cat([expected, product], 1)
    counts.look()
    if change is in_another_order:  # the engine's own function fails on it
        with pytest.raises(RuntimeError):
            call(made, x)
    else:
        assert torch.equal(call(made, x), expected)
        assert counts.look()["times_multiplied"] == len(SHARDS)
    assert [id(state.absmax) for state in weight.states] == list(map(id, before))


@needs_overrides
def test_an_output_with_gaps_is_written_shard_by_shard(parameter, counts):
    weight, x = Weight(), torch.randn(2, K).bfloat16()
    out = torch.full((2, sum(SHARDS) + 8), 7.0).bfloat16()
    counts.look()
    call(parameter(weight), x, out[:, :-8])
    assert counts.look()["times_multiplied"] == len(SHARDS)
    assert weight.is_multiplied(x, out[:, :-8]) and (out[:, -8:] == 7).all()


@needs_overrides
def test_scales_that_a_captured_graph_reads_stay(parameter, counts, monkeypatch):
    weight, x = Weight(), torch.randn(2, K).bfloat16()
    made, before = parameter(weight), [state.absmax for state in weight.states]
    with monkeypatch.context() as capturing:
        capturing.setattr(shards, "is_capturing", lambda tensor: True)
        call(made, x)
    assert weight.is_multiplied(x, call(made, x))
    assert [id(state.absmax) for state in weight.states] == list(map(id, before))


@needs_overrides
def test_weights_that_an_engine_loads_again_are_joined_again(parameter, counts):
    weight, x = Weight(), torch.randn(2, K).bfloat16()
    made = parameter(weight)
    first = call(made, x)
    for state in weight.states:
        state.absmax = 2 * state.absmax
    counts.look()
    assert torch.equal(call(made, x), 2 * first)
    for state in weight.states:
        state.absmax.mul_(0.5)  # in place
    assert torch.equal(call(made, x), first)
    assert counts.look()["times_multiplied"] == 2


@needs_overrides
def test_undo_leaves_the_engines_own_operator(parameter, counts):
    weight, x = Weight(), torch.randn(2, K).bfloat16()
    made = parameter(weight)
    call(made, x)
    reprolab_nf4._installed.undo()
    counts.look()
    assert weight.is_multiplied(x, call(made, x)) and counts.look() == {}
    assert not any(isinstance(finder, Awaited) for finder in sys.meta_path)
    with torch.no_grad():
        reprolab_nf4.install()
    assert call(made, x).shape == (2, sum(SHARDS)) and counts.look() == {"times_multiplied": 1}


@needs_overrides
def test_an_operator_that_is_registered_later_is_replaced(plugin, parameter, counts, monkeypatch):
    monkeypatch.delitem(sys.modules, stub_vllm.LINEAR)
    reprolab_nf4._installed.undo()
    reprolab_nf4.install()
    made, x = parameter(Weight()), torch.randn(2, K).bfloat16()
    counts.look()
    call(made, x)
    assert counts.look() == {"times_multiplied": len(SHARDS)}
    awaited = next(
        finder for finder in sys.meta_path if getattr(finder, "name", "") == stub_vllm.LINEAR
    )
    monkeypatch.setitem(sys.modules, stub_vllm.LINEAR, plugin)
    awaited._action()
    call(made, x)
    assert counts.look() == {"times_multiplied": 1}


@needs_overrides
def test_on_a_gpu_without_code_the_engines_own_function_runs(parameter, counts, monkeypatch):
    def multiply(*given, **more):
        raise NoCodeError("no code for this GPU")

    weight, x = Weight(), torch.randn(2, K).bfloat16()
    made = parameter(weight)
    monkeypatch.setattr("reprolab_nf4.matmul.multiply", multiply)
    with pytest.warns(UserWarning, match="no code"):
        out = call(made, x)
    assert weight.is_multiplied(x, out) and reprolab_nf4._installed is None
    assert weight.is_multiplied(x, call(made, x)) and counts.look() == {}


def test_an_engine_without_the_operator_is_unchanged_with_one_line(counts, monkeypatch, caplog):
    reprolab_nf4._installed.undo()
    for module in shards.ENGINES:
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    reprolab_nf4.install()
    said = [line for line in caplog.messages if "_apply_bnb_4bit" in line]
    assert len(said) == len(shards.ENGINES) and all("\n" not in line for line in said)
