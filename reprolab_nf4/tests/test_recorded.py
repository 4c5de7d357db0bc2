"""The operator of PyTorch, graphs of torch.compile, and programs of torch.export."""

import io
import types

import layers_on_cpu
import pytest
from bitsandbytes_on_cpu import bitsandbytes, torch
from layers_on_cpu import (  # noqa: F401
    OWN_PRODUCT,
    TIMES,
    K,
    N,
    X,
    layer,
    needs_whole_graphs,
    put_called,
    put_multiplying,
    put_settled,
    replace,
)
from torch._dynamo.testing import CompileCounter
from torch._subclasses import FakeTensorMode
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.fx.experimental.proxy_tensor import make_fx

import reprolab_nf4
from reprolab_nf4.timing_table import DEQUANTIZE, OWN


@needs_whole_graphs
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("rows", [(3,), (3, 20, 40, 70, 16)])
def test_compiled_layers_are_whole_graphs_that_take_the_same_ways(nested, rows, called):
    eager = layer(nested)
    compiled = torch.compile(eager, fullgraph=True, backend="aot_eager", dynamic=len(rows) > 1)
    ways = {3: "few_rows", 40: "many_rows"}  # for others bitsandbytes' own, or dequantize
    for m in rows:
        x = torch.randn(m, K).half()
        called.clear()
        expected = eager(x)
        once = list(called)
        assert torch.equal(compiled(x), expected)
        assert once == [(ways.get(m), m)] * (m in ways)
        assert called == once * 2


class ByCodes(torch.nn.Module):
    """A layer whose codes are a buffer: torch.export without strict=True fails with Params4bit."""

    def __init__(self, layer):
        super().__init__()
        self.register_buffer("codes", layer.weight.detach().as_subclass(torch.Tensor))
        self.state, self.bias = layer.weight.quant_state, layer.bias

    def forward(self, input):
        return bitsandbytes.matmul_4bit(input, self.codes.t(), self.state, bias=self.bias)


def test_a_layer_may_be_compiled_in_several_graphs(called):
    """As PyTorch before 2.8 compiles it."""
    eager = layer(nested=True)
    compiled = torch.compile(eager, backend="aot_eager")
    for m in (3, 20, 40, 70):
        x = torch.randn(m, K).half()
        called.clear()
        expected, once = eager(x), list(called)
        assert torch.equal(compiled(x), expected)
        assert called == once * 2


@needs_whole_graphs
def test_compiled_layers_may_be_in_training_mode(called):
    linear = layer().train()
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), linear(X))
    torch.testing.assert_close(compiled.eval()(X), linear.eval()(X))


def exported(module, strict, rows=4):
    """After torch.export, and after saving and loading. Strict programs hold parameters."""
    shapes = ({0: torch.export.Dim("rows", min=1, max=256)},) if rows == "any" else None
    args = (torch.ones(4, K).half(),)
    program = torch.export.export(module, args, dynamic_shapes=shapes, strict=strict)
    yield program
    if strict and torch.__version__.startswith("2.9."):
        pytest.skip(f"NOT TESTED, torch {torch.__version__}: it loads no parameters of integers")
    file = io.BytesIO()
    torch.export.save(program, file)
    yield torch.export.load(io.BytesIO(file.getvalue()))


STRICT = pytest.mark.parametrize("strict", [False, pytest.param(True, marks=needs_whole_graphs)])


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@STRICT
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", ["few_rows", DEQUANTIZE, OWN])
@pytest.mark.parametrize("products", ["fastest", "dequantize"])
def test_an_exported_layer_keeps_its_weights(
    products, way, nested, strict, called, monkeypatch, matmul
):
    if products == "dequantize" and nested and torch.__version__ < (2, 7):
        what = "it exports no nested scales as bitsandbytes decodes them"
        pytest.skip(f"NOT TESTED, torch {torch.__version__}: {what}")
    replace(monkeypatch, matmul, {8: {way: 1.0}}, products)
    eager, x = layer(nested), torch.randn(4, K).half()
    expected = eager(x)
    for program in exported(eager if strict else ByCodes(eager), strict):
        output = program.module()(x)
        assert type(output) is torch.Tensor
        torch.testing.assert_close(output, expected)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@STRICT
@pytest.mark.parametrize("nested", [False, True])
def test_an_exported_layer_chooses_by_the_rows_it_runs_with(nested, strict, called):
    eager = layer(nested)
    *_, program = exported(eager if strict else ByCodes(eager), strict, rows="any")
    run = program.module()
    for m in (1, 3, 16, 20, 40, 70, 256):
        x = torch.randn(m, K).half()
        called.clear()
        expected, once = eager(x), list(called)
        torch.testing.assert_close(run(x), expected)
        assert called == once * 2


@needs_whole_graphs
def test_a_graph_that_varies_in_rows_is_compiled_once(called):
    counter = CompileCounter()
    compiled = torch.compile(layer(), fullgraph=True, backend=counter, dynamic=True)
    for m in (3, 20, 40, 70):
        compiled(torch.randn(m, K).half())
    assert counter.frame_count == 1
    assert called == [("few_rows", 3), ("many_rows", 40)]


@pytest.mark.parametrize("nested", [False, True])
def test_the_operator_checks_its_arrays_when_it_runs(nested, called, matmul, monkeypatch):
    """A recorded program may later run with other tensors than those that were checked."""
    monkeypatch.setattr(layers_on_cpu, "OWN_PRODUCT", lambda *a, **k: torch.zeros(0))
    for ways in (TIMES, {8: {DEQUANTIZE: 1.0}}):
        replace(monkeypatch, matmul, ways)
        weight = layer(nested).weight
        state = weight.quant_state
        second = state.state2 if nested else types.SimpleNamespace(absmax=None, code=None)
        good = {
            **{"A": X, "B": weight.data, "n": N, "absmax": state.absmax, "code": state.code},
            **{"blocksize": 64, "dtype": torch.float16, "absmax2": second.absmax},
            **{"code2": second.code, "offset": state.offset, "blocksize2": 256},
        }
        short = ("B", "absmax", "absmax2", "code2") if nested else ("B", "absmax")
        run = torch.ops.reprolab_nf4.matmul_4bit
        assert run(**good).shape == (3, N)
        for name in short:
            assert run(**good | {name: good[name][:-1]}).shape == (0,), name
        assert run(**good | {"absmax": good["absmax"].to(torch.float64)}).shape == (0,)
        for bias in (torch.zeros(1).half(), torch.zeros(N)):
            assert run(**good | {"bias": bias}).shape == (0,)
    assert [way for way, _ in called] == ["few_rows"]


def test_a_program_that_runs_before_an_install_fails(matmul, monkeypatch):
    monkeypatch.setattr(matmul, "_dispatch", None)
    weight = layer().weight
    state = weight.quant_state
    given = (X, weight.data, N, state.absmax, state.code, 64, torch.float16)
    with pytest.raises(reprolab_nf4.DropinError, match=r"install\(\)"):
        torch.ops.reprolab_nf4.matmul_4bit(*given)


@needs_whole_graphs
def test_layers_that_share_compiled_code_have_nested_scales_of_their_own(called):
    layers = [layer(nested=True, scale=10.0**i) for i in range(3)]
    compiled = torch.compile(lambda layer, x: layer(x), fullgraph=True, backend="aot_eager")
    for one in layers:
        torch.testing.assert_close(compiled(one, X), one(X))
    one.weight = layers[0].weight
    torch.testing.assert_close(compiled(one, X), one(X))
    assert len(called) == 8


@needs_whole_graphs
def test_compiled_products_settle_no_weights(called, settled):
    """Graphs do not count writes to the weights."""
    linear = layer()
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager")
    for one in (linear, linear, compiled, compiled, linear):
        one(X)
    assert settled == [False, True, False, False, True]


@needs_whole_graphs
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_layers_use_the_ways_of_the_current_installation(
    dynamic, called, monkeypatch, matmul
):
    compiled = torch.compile(layer(), fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for way in ("few_rows", "simple", "few_rows"):
        replace(monkeypatch, matmul, {8: {way: 1.0}})
        compiled(X)
    assert called == [("few_rows", 3), ("simple", 3), ("few_rows", 3)]
    monkeypatch.setattr(bitsandbytes, "matmul_4bit", OWN_PRODUCT)
    compiled(X)
    assert len(called) == 3


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("nested", [False, True])
def test_recorded_and_transformed_calls_are_the_product(nested, called):
    weight = layer(nested).weight
    codes, state = weight.detach().as_subclass(torch.Tensor), weight.quant_state

    def product(x):
        return bitsandbytes.matmul_4bit(x, codes, state)

    expected = product(X)
    traced, made = torch.jit.trace(product, X), make_fx(product)(X)
    for output in (traced(X), made(X), torch.vmap(product)(X[:, None])[:, 0]):
        torch.testing.assert_close(output, expected)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        assert product(fake.from_tensor(X)).shape == (3, N)


def test_memory_of_tensor_subclasses_is_not_read(called):
    linear = layer()
    expected = linear(X)
    assert torch.equal(linear(AsyncCollectiveTensor(X)), expected)
    assert called == [("few_rows", 3)] * 2


def test_the_operators_schema_for_the_compiler(called, matmul):
    weight = layer().weight
    state = weight.quant_state
    x = torch.randn(2, 3, K, dtype=torch.float16)
    given = (x, weight.data, N, state.absmax, state.code, 64, torch.float16)
    torch.library.opcheck(matmul.operator, given)
    meta = [t.to("meta") if isinstance(t, torch.Tensor) else t for t in given]
    output = torch.ops.reprolab_nf4.matmul_4bit(*meta)
    assert output.shape == (2, 3, N) and output.dtype == torch.float16
