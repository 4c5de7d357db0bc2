"""The operator of PyTorch, and graphs of torch.compile, with bitsandbytes' layers on the CPU."""

import contextlib
import ctypes
import io
import sys
import types
from pathlib import Path

import pytest

import reprolab_nf4
from reprolab_nf4 import c_functions
from reprolab_nf4.choices import DEQUANTIZE, OWN, Layer, Table

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")
bitsandbytes = pytest.importorskip("bitsandbytes", reason="NOT TESTED, no bitsandbytes")

import stand_in_product  # noqa: E402
from torch._dynamo.testing import CompileCounter  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.distributed._functional_collectives import AsyncCollectiveTensor  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

OWN_PRODUCT = bitsandbytes.matmul_4bit
N, K = 64, 128
TIMES = {
    8: {"few_rows": 1.0},
    16: {OWN: 1.0},
    32: {DEQUANTIZE: 1.0},
    64: {"many_rows": 1.0},
}


@pytest.fixture
def multiplying():
    from reprolab_nf4 import multiplying

    return multiplying


@pytest.fixture
def settled():
    """What each of the operator's calls said of its weights."""
    return []


@pytest.fixture
def called(monkeypatch, multiplying, settled):
    """The operator's calls, once bitsandbytes' product is replaced. The CPU is the GPU here."""
    calls = []

    def multiply(kernel, A, B, n, absmax, blocksize, bias, *more):
        assert type(A) is torch.Tensor  # others have no memory of their own
        calls.append((kernel, A.shape[0]))
        settled.append(more[4:] == (True,))
        weight = stand_in_product.weights(A, B, n, absmax, blocksize, *more[:4])
        return torch.nn.functional.linear(A, weight, bias)

    monkeypatch.setattr(multiplying, "multiply", multiply)
    monkeypatch.setattr(multiplying, "capability", lambda device: "9.0")
    monkeypatch.setattr(multiplying, "runs", lambda *given: True)
    from reprolab_nf4 import layers

    monkeypatch.setattr(layers, "EXTENSION", Path("none"))  # no call is planned
    replace(monkeypatch, multiplying)
    torch.compiler.reset()
    return calls


def replace(monkeypatch, multiplying, times=TIMES, products="fastest"):
    table = Table("a GPU", "9.0", "made up", (Layer(N, K, "fp16", False, times),))
    ways = multiplying.Ways(None, products, table)
    monkeypatch.setattr(bitsandbytes, "matmul_4bit", OWN_PRODUCT)
    for owner, name, ours in ways.replaced(bitsandbytes):
        monkeypatch.setattr(owner, name, ours)


def layer(nested=False, scale=1.0, n=N):
    found = bitsandbytes.nn.Linear4bit(
        K, n, compute_dtype=torch.float16, quant_type="nf4", compress_statistics=nested
    )
    with torch.no_grad():
        found.weight.mul_(scale)
    found.half().weight = found.weight.to("cpu")  # which quantizes
    found.support_avx512bf16_for_cpu = False  # whose layout of codes stays bitsandbytes' own
    return found.requires_grad_(False).eval()


X = torch.randn(3, K).half()


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("rows", [(3,), (3, 20, 40, 70, 16)])
def test_compiled_layers_are_whole_graphs_that_take_the_same_ways(nested, rows, called):
    eager = layer(nested)
    compiled = torch.compile(eager, fullgraph=True, backend="aot_eager", dynamic=len(rows) > 1)
    ways = {3: "few_rows", 40: "many_rows"}  # the others are bitsandbytes' own, or dequantize
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


def test_layers_in_training_mode_stay_bitsandbytes_own(called):
    """Also where they run without gradients, and where their inputs need none."""
    found, x = layer().train(), X.clone().requires_grad_()
    expected = OWN_PRODUCT(X, found.weight.t(), found.weight.quant_state, bias=found.bias)
    for use_reentrant in (True, False):
        y = checkpoint(found, x, use_reentrant=use_reentrant)
        assert torch.equal(y, expected)
        y.sum().backward()
    with torch.no_grad():
        assert torch.equal(found(X), expected)
    assert torch.equal(found(X), expected)
    assert called == []
    found.eval()(X)
    assert called == [("few_rows", 3)]


def test_a_hook_that_kept_the_forward_does_not_hide_training(called):
    found = layer().train()
    found.forward = found.forward  # as accelerate's hooks keep it, in the layer itself
    with torch.no_grad():
        found(X)
    assert called == []


def test_a_layer_that_fails_in_training_leaves_others_alone(called):
    with pytest.raises(RuntimeError), torch.no_grad():
        layer().train()(torch.zeros(3, K + 1).half())
    layer()(X)
    assert called == [("few_rows", 3)]


def test_compiled_layers_may_be_in_training_mode(called):
    found = layer().train()
    compiled = torch.compile(found, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), found(X))
    torch.testing.assert_close(compiled.eval()(X), found.eval()(X))


def test_a_layer_that_computes_in_fp32_is_named_once(called, recwarn):
    found = layer()
    found(X)
    assert not recwarn
    found.compute_dtype = torch.float32
    for _ in range(2):
        found(X)
    assert len(recwarn) == 1 and "bnb_4bit_compute_dtype" in str(recwarn[0].message)


def exported(module, strict, rows=4):
    """After torch.export, and as a file has it."""
    shapes = ({0: torch.export.Dim("rows", min=1, max=256)},) if rows == "any" else None
    args = (torch.ones(4, K).half(),)
    program = torch.export.export(module, args, dynamic_shapes=shapes, strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    return program, torch.export.load(io.BytesIO(file.getvalue()))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", ["few_rows", DEQUANTIZE, OWN])
@pytest.mark.parametrize("products", ["fastest", "dequantize"])
def test_an_exported_layer_keeps_its_weights(
    products, way, nested, strict, called, monkeypatch, multiplying
):
    replace(monkeypatch, multiplying, {8: {way: 1.0}}, products)
    eager, x = layer(nested), torch.randn(4, K).half()
    expected = eager(x)
    for program in exported(eager if strict else ByCodes(eager), strict):
        found = program.module()(x)
        assert type(found) is torch.Tensor
        torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_an_exported_layer_chooses_by_the_rows_it_runs_with(nested, strict, called):
    eager = layer(nested)
    run = exported(eager if strict else ByCodes(eager), strict, rows="any")[1].module()
    for m in (1, 3, 16, 20, 40, 70, 256):
        x = torch.randn(m, K).half()
        called.clear()
        expected, once = eager(x), list(called)
        torch.testing.assert_close(run(x), expected)
        assert called == once * 2


def test_a_graph_that_varies_in_rows_is_compiled_once(called):
    counter = CompileCounter()
    compiled = torch.compile(layer(), fullgraph=True, backend=counter, dynamic=True)
    for m in (3, 20, 40, 70):
        compiled(torch.randn(m, K).half())
    assert counter.frame_count == 1
    assert called == [("few_rows", 3), ("many_rows", 40)]


@pytest.mark.parametrize("nested", [False, True])
def test_the_operator_checks_its_arrays_when_it_runs(nested, called, multiplying, monkeypatch):
    """What a recorded program is given later is not what was checked when it was recorded."""
    monkeypatch.setattr(sys.modules[__name__], "OWN_PRODUCT", lambda *a, **k: torch.zeros(0))
    for ways in (TIMES, {8: {DEQUANTIZE: 1.0}}):
        replace(monkeypatch, multiplying, ways)
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
    assert [way for way, _ in called] == ["few_rows"]


def test_a_program_that_runs_before_an_install_says_so(multiplying, monkeypatch):
    monkeypatch.setattr(multiplying, "_dispatch", None)
    weight = layer().weight
    state = weight.quant_state
    given = (X, weight.data, N, state.absmax, state.code, 64, torch.float16)
    with pytest.raises(reprolab_nf4.DropinError, match=r"install\(\)"):
        torch.ops.reprolab_nf4.matmul_4bit(*given)


def test_layers_that_share_compiled_code_have_nested_scales_of_their_own(called):
    layers = [layer(nested=True, scale=10.0**i) for i in range(3)]
    compiled = torch.compile(lambda layer, x: layer(x), fullgraph=True, backend="aot_eager")
    for one in layers:
        torch.testing.assert_close(compiled(one, X), one(X))
    one.weight = layers[0].weight
    torch.testing.assert_close(compiled(one, X), one(X))
    assert len(called) == 8


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_layers_take_the_ways_of_what_is_installed_now(
    dynamic, called, monkeypatch, multiplying
):
    compiled = torch.compile(layer(), fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for way in ("few_rows", "simple", "few_rows"):
        replace(monkeypatch, multiplying, {8: {way: 1.0}})
        compiled(X)
    assert called == [("few_rows", 3), ("simple", 3), ("few_rows", 3)]
    monkeypatch.setattr(bitsandbytes, "matmul_4bit", OWN_PRODUCT)
    compiled(X)
    assert len(called) == 3


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("nested", [False, True])
def test_what_is_recorded_or_transformed_is_the_product(nested, called):
    weight = layer(nested).weight
    codes, state = weight.detach().as_subclass(torch.Tensor), weight.quant_state

    def product(x):
        return bitsandbytes.matmul_4bit(x, codes, state)

    expected = product(X)
    traced, made = torch.jit.trace(product, X), make_fx(product)(X)
    for found in (traced(X), made(X), torch.vmap(product)(X[:, None])[:, 0]):
        torch.testing.assert_close(found, expected)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        assert product(fake.from_tensor(X)).shape == (3, N)


def test_tensors_of_other_classes_are_not_asked_for_memory(called):
    found = layer()
    expected = found(X)
    assert torch.equal(found(AsyncCollectiveTensor(X)), expected)
    assert called == [("few_rows", 3)] * 2


def changed(**attributes):
    found = layer()
    for name, value in attributes.items():
        setattr(found.weight.quant_state, name, value)
    return found


def test_what_is_amiss_stays_bitsandbytes_own(called, monkeypatch, multiplying):
    monkeypatch.setattr(sys.modules[__name__], "OWN_PRODUCT", lambda *a, **k: "own")
    replace(monkeypatch, multiplying)
    good, product = layer(), bitsandbytes.matmul_4bit
    codes, state = good.weight, good.weight.quant_state
    elsewhere = torch.zeros(N, device="meta")
    for bias in (torch.zeros(1), torch.zeros(3, N), torch.zeros(N - 1), elsewhere):
        assert product(X, codes.t(), state, bias=bias.half()) == "own"
    absmax = state.absmax
    strided = torch.stack([absmax, absmax], 1)[:, 0]
    for wrong in (absmax.half(), absmax[1:], absmax.to("meta"), strided):
        assert product(X, codes.t(), changed(absmax=wrong).weight.quant_state) == "own"
    assert product(X, codes.data[1:], state) == "own"
    assert product(X, codes.t(), changed(shape=torch.Size((0, K))).weight.quant_state) == "own"
    nested = layer(nested=True).weight
    nested.quant_state.state2.code = nested.quant_state.state2.code.half()
    assert product(X, nested.t(), nested.quant_state) == "own"
    nested = layer(nested=True).weight
    nested.quant_state.absmax = torch.stack([nested.quant_state.absmax] * 2, 1)[:, 0]
    assert product(X, nested.t(), nested.quant_state) == "own"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product(X, codes.t(), state) == "own"
    assert called == []
    product(X, codes.t(), state)
    assert len(called) == 1
    # Nor are weights that another GPU's product has read.
    monkeypatch.setattr(torch.Tensor, "get_device", lambda self: int(self is X))
    monkeypatch.setattr(multiplying, "fits", lambda device, *given: False)
    assert product(X, codes.t(), state) == "own"


def test_square_weights_are_transposed_where_bitsandbytes_does(called, monkeypatch, multiplying):
    monkeypatch.setattr(sys.modules[__name__], "OWN_PRODUCT", lambda *a, **k: "own")
    found = layer(n=K).weight
    for always in (True, False):
        monkeypatch.setattr(multiplying, "knows_fused_products", lambda found=always: found)
        replace(monkeypatch, multiplying)
        as_row, as_column = (
            bitsandbytes.matmul_4bit(X, codes, found.quant_state) for codes in (found.t(), found)
        )
        assert as_row is not "own" and (as_column is "own") != always  # noqa: F632


def test_a_gpu_that_a_product_has_no_code_for_gets_bitsandbytes_own(
    called, multiplying, monkeypatch
):
    def refuse(*given):
        raise reprolab_nf4.NoCodeError("no kernel image")

    given_up = []
    monkeypatch.setattr(multiplying, "multiply", refuse)
    monkeypatch.setattr(multiplying, "give_up", given_up.append)
    found = layer()
    expected = OWN_PRODUCT(X, found.weight.t(), found.weight.quant_state, bias=found.bias)
    assert torch.equal(found(X), expected) and len(given_up) == 1


def in_place(of):
    return lambda layer: of(layer).add_(0)


def in_other_memory(of):
    def change(layer):
        of(layer).data = of(layer).data.clone()

    return change


def in_place_of_others(layer):
    """New scales elsewhere in the same memory."""
    state = layer.weight.quant_state
    state.absmax = torch.cat([state.absmax, state.absmax]).chunk(2)[1]


CODES, ABSMAX = (lambda layer: layer.weight), (lambda layer: layer.weight.quant_state.absmax)
SECOND = (
    lambda layer: layer.weight.quant_state.state2.absmax,
    lambda layer: layer.weight.quant_state.state2.code,
)
CHANGES = [
    (change(of), nested)
    for change in (in_place, in_other_memory)
    for of, nested in [*((of, n) for n in (False, True) for of in (CODES, ABSMAX))]
    + [(of, True) for of in SECOND]
]


@pytest.mark.parametrize(("change", "nested"), [*CHANGES, (in_place_of_others, False)])
def test_weights_are_settled_after_a_product_until_they_change(change, nested, called, settled):
    changed, other = layer(nested), layer(nested)
    for one in (changed, changed, changed, other):
        one(X)
    assert settled == [False, True, True, False]
    settled.clear()
    change(changed)
    for one in (other, changed, changed, other):
        one(X)
    assert settled == [True, False, True, True]


def test_new_weights_at_the_address_of_others_are_not_settled(called, settled):
    memory, found = bytearray(N * K // 2), layer()
    for _ in range(2):
        found.weight.data = torch.frombuffer(memory, dtype=torch.uint8).view(-1, 1)
        found(X), found(X)
    assert settled == [False, True] * 2
    # Nor are other scales in the same memory.
    settled.clear()
    state = found.weight.quant_state
    for half in torch.cat([state.absmax, state.absmax]).chunk(2):
        state.absmax = half
        found(X), found(X)
    assert settled == [False, True] * 2


def test_weights_are_settled_for_their_own_sizes(called, settled, multiplying, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "OWN_PRODUCT", lambda *a, **k: "own")
    replace(monkeypatch, multiplying)
    codes, product = layer().weight, bitsandbytes.matmul_4bit
    for _ in range(2):
        product(X, codes.t(), codes.quant_state)
    assert settled == [False, True]
    codes.quant_state.blocksize //= 2  # for which the scales are too few
    assert product(X, codes.t(), codes.quant_state) == "own"


def test_weights_whose_writes_are_not_counted_are_never_settled(called, settled):
    with torch.inference_mode():
        made = layer()
        assert made.weight.quant_state.absmax.is_inference()
        made(X), made(X)
    # Compiled, there is no count of writes to the weights.
    found = layer()
    compiled = torch.compile(found, fullgraph=True, backend="aot_eager")
    for one in (found, found, compiled, compiled, found):
        one(X)
    assert settled == [False, False, False, True, False, False, True]


def test_a_product_that_is_captured_or_fails_settles_nothing(
    called, settled, multiplying, monkeypatch
):
    before, within = layer(), layer()
    before(X)
    with monkeypatch.context() as capturing:
        capturing.setattr(multiplying, "is_capturing", lambda tensor: True)
        before(X), within(X), within(X)
    assert settled == [False, True, False, False]

    def fail(*given):
        raise reprolab_nf4.DropinError("no memory")

    with monkeypatch.context() as failing, pytest.raises(reprolab_nf4.DropinError):
        failing.setattr(multiplying, "multiply", fail)
        within(X)
    within(X), within(X)
    assert settled[4:] == [False, True]


def test_what_the_compiler_knows_of_the_operator(called, multiplying):
    weight = layer().weight
    state = weight.quant_state
    x = torch.randn(2, 3, K, dtype=torch.float16)
    given = (x, weight.data, N, state.absmax, state.code, 64, torch.float16)
    torch.library.opcheck(multiplying.operator, given)
    meta = [t.to("meta") if isinstance(t, torch.Tensor) else t for t in given]
    found = torch.ops.reprolab_nf4.matmul_4bit(*meta)
    assert found.shape == (2, 3, N) and found.dtype == torch.float16


def test_the_offset_of_nested_scales_is_read_once_and_when_it_changed(multiplying, monkeypatch):
    found, reads, item = torch.tensor(0.25), [], torch.Tensor.item
    monkeypatch.setattr(torch.Tensor, "item", lambda self: reads.append(self) or item(self))
    assert [multiplying.read_offset(found) for _ in range(3)] == [0.25] * 3
    assert len(reads) == 1
    found.copy_(torch.tensor(0.5))
    assert [multiplying.read_offset(found) for _ in range(3)] == [0.5] * 3
    found.data = torch.tensor(0.75)
    assert [multiplying.read_offset(found) for _ in range(3)] == [0.75] * 3
    assert len(reads) == 3


def test_the_device_is_changed_only_where_another_is_current(multiplying, monkeypatch):
    tensor = torch.zeros(1)
    for current, changed in ((1, False), (0, True)):
        with monkeypatch.context() as two_gpus:
            two_gpus.setattr(torch.Tensor, "get_device", lambda self: 1)
            two_gpus.setattr(torch.cuda, "current_device", lambda found=current: found)
            found = multiplying.on_device_of(tensor)
        assert isinstance(found, torch.cuda.device_of) == changed


@pytest.mark.parametrize(
    ("settled", "nested", "size"), [(False, False, 0), (True, True, 0), (True, False, 100)]
)
def test_the_library_gets_what_its_header_says(settled, nested, size, multiplying, monkeypatch):
    calls = []

    def function(*given):
        found = dict(zip(c_functions.MULTIPLY_PARAMETERS, given, strict=True))
        if found["workspace"]:  # what it holds does not matter
            found["workspace"] = len(ctypes.string_at(found["workspace"], size))
        found["A"] = (found["A"] % 16, ctypes.string_at(found["A"], 2 * 3 * K))
        calls.append(found)

    facts = {"workspace": lambda self, *product: size, "multiply": {"bf16": function}}
    library = type("Library", (), facts)()
    monkeypatch.setattr(multiplying, "_library", library)
    monkeypatch.setattr(multiplying, "on_device_of", lambda tensor: contextlib.nullcontext())
    monkeypatch.setattr(multiplying, "stream_of", lambda tensor: 77)
    codes, absmax = torch.zeros(N * K // 2, 1, dtype=torch.uint8), torch.ones(N * K // 64)
    bias = torch.ones(N, dtype=torch.bfloat16)
    second = (torch.zeros(N * K // 64, dtype=torch.uint8), torch.ones(256), 0.5, 256)
    x = torch.randn(3 * K + 1).bfloat16()[1:].view(1, 3, K)  # where 16 bytes cannot be read at once
    more = second if nested else (None, None, 0.0, 0)
    out = multiplying.multiply("many_rows", x, codes, N, absmax, 64, bias, *more, settled)
    assert out.shape == (1, 3, N) and out.dtype == torch.bfloat16
    (given,) = calls
    assert given.pop("A") == (0, x.contiguous().view(torch.uint8).numpy().tobytes())
    assert given == {
        **{"kernel": b"many_rows", "B": codes.data_ptr(), "absmax": absmax.data_ptr()},
        "absmax_codes": second[0].data_ptr() if nested else None,
        "code2": second[1].data_ptr() if nested else None,
        **{"offset": 0.5 if nested else 0.0, "bias": bias.data_ptr(), "out": out.data_ptr()},
        **{"m": 3, "n": N, "k": K, "blocksize": 64, "blocksize2": 256 if nested else 0},
        **{"weights_are_settled": int(settled), "workspace": size or None, "stream": 77},
    }
    # Codes that have to be copied first are not settled.
    moved = torch.zeros(N * K // 2 + 1, dtype=torch.uint8)[1:].view(-1, 1)
    multiplying.multiply("many_rows", x, moved, N, absmax, 64, bias, *more, settled)
    assert calls[1]["B"] % 16 == 0 and calls[1]["weights_are_settled"] == 0
