"""Products of bitsandbytes' layers on the CPU, and the arguments of the library's calls."""

import contextlib
import ctypes
import re
import types
from pathlib import Path

import layers_on_cpu
import pytest
from bitsandbytes_on_cpu import bitsandbytes, torch
from layers_on_cpu import (  # noqa: F401
    OWN_PRODUCT,
    K,
    N,
    X,
    layer,
    put_called,
    put_multiplying,
    put_settled,
    replace,
)
from torch.utils.checkpoint import checkpoint

import reprolab_nf4
from reprolab_nf4 import arrays, c_functions


def test_layers_in_training_mode_stay_bitsandbytes_own(called):
    """Also if they run without gradients, or their inputs need none."""
    linear, x = layer().train(), X.clone().requires_grad_()
    expected = OWN_PRODUCT(X, linear.weight.t(), linear.weight.quant_state, bias=linear.bias)
    for use_reentrant in (True, False):
        y = checkpoint(linear, x, use_reentrant=use_reentrant)
        assert torch.equal(y, expected)
        y.sum().backward()
    with torch.no_grad():
        assert torch.equal(linear(X), expected)
    assert torch.equal(linear(X), expected)
    assert called == []
    linear.eval()(X)
    assert called == [("few_rows", 3)]


def test_a_hook_that_kept_the_forward_does_not_hide_training(called):
    linear = layer().train()
    linear.forward = linear.forward  # as accelerate's hooks keep it, in the layer itself
    with torch.no_grad():
        linear(X)
    assert called == []


def test_a_replaced_call_of_all_modules_is_called(called, monkeypatch):
    """As torch.fx does while it traces."""
    seen, linear, own = [], layer(), torch.nn.Module.__call__

    def call(self, *given):
        seen.append(self)
        return own(self, *given)

    monkeypatch.setattr(torch.nn.Module, "__call__", call)
    linear(X)
    assert seen == [linear] and len(called) == 1


def test_a_layer_inside_one_in_training_mode_does_not_end_its_training(called):
    inner, outer = layer().train(), layer().train()
    products = []
    outer.register_forward_pre_hook(lambda module, given: products.append(inner(*given)))
    with torch.no_grad():
        outer(X)
    assert len(products) == 1 and called == []


def test_a_layer_that_fails_in_training_leaves_others_alone(called):
    with pytest.raises(RuntimeError), torch.no_grad():
        layer().train()(torch.zeros(3, K + 1).half())
    layer()(X)
    assert called == [("few_rows", 3)]


def test_a_layer_that_computes_in_fp32_is_named_once(called, recwarn):
    linear = layer()
    warned = lambda: [w for w in recwarn if "bnb_4bit_compute_dtype" in str(w.message)]  # noqa: E731
    linear(X)
    assert warned() == []
    linear.compute_dtype = torch.float32
    for _ in range(2):
        linear(X)
    assert len(warned()) == 1


def changed(**attributes):
    linear = layer()
    for name, value in attributes.items():
        setattr(linear.weight.quant_state, name, value)
    return linear


def shorter_codes(state):
    state.absmax = state.absmax[:-1]


def shorter_scales(state):
    state.state2.absmax = state.state2.absmax[:-1]


def shorter_map(state):
    state.state2.code = state.state2.code[:255]


def test_faulty_arguments_go_to_bitsandbytes(called, monkeypatch, matmul):
    monkeypatch.setattr(layers_on_cpu, "OWN_PRODUCT", lambda *a, **k: "own")
    replace(monkeypatch, matmul)
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
    # The library's are ints: it would take the second for 256.
    for blocksize in (0, 2**32 + 256):
        assert product(X, codes.t(), changed(blocksize=blocksize).weight.quant_state) == "own"
        nested = layer(nested=True).weight
        nested.quant_state.state2.blocksize = blocksize
        assert product(X, nested.t(), nested.quant_state) == "own"
    for shorten in (shorter_codes, shorter_scales, shorter_map):
        nested = layer(nested=True).weight
        shorten(nested.quant_state)
        assert product(X, nested.t(), nested.quant_state) == "own"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product(X, codes.t(), state) == "own"
    assert called == []
    product(X, codes.t(), state)
    assert len(called) == 1
    # Weights that a product on another GPU has read are not settled either.
    monkeypatch.setattr(torch.Tensor, "get_device", lambda self: int(self is X))
    monkeypatch.setattr(matmul, "fits", lambda device, *given: False)
    assert product(X, codes.t(), state) == "own"


def with_gradient(codes):
    """Codes in a floating-point storage may need one."""
    return codes.data.flatten().view(torch.float16)[:, None].requires_grad_()


def test_inputs_that_our_kernels_cannot_take_go_to_bitsandbytes(called, monkeypatch, matmul):
    monkeypatch.setattr(layers_on_cpu, "OWN_PRODUCT", lambda *a, **k: "own")
    replace(monkeypatch, matmul)
    weight, product = layer().weight, bitsandbytes.matmul_4bit
    for x in (X.to("meta"), X.to_sparse()):
        assert product(x, weight.t(), weight.quant_state) == "own"
    assert product(X, with_gradient(weight).t(), weight.quant_state) == "own"
    with torch.autograd.forward_ad.dual_level():
        assert product(X, weight.t(), weight.quant_state) == "own"
    assert called == []


def test_the_last_block_has_a_scale_too(matmul):
    """18 weights in blocks of 4: 5 scales, and 2 of those in blocks of 4."""
    second = types.SimpleNamespace(blocksize=4)
    state = types.SimpleNamespace(shape=(3, 6), blocksize=4, state2=second)
    codes, scale_codes = (torch.zeros(size, dtype=torch.uint8) for size in (9, 5))
    for count, enough in ((5, True), (4, False)):
        assert matmul.fits(codes.device, state, codes, torch.ones(count)) is enough
    for count, enough in ((2, True), (1, False)):
        nested = (torch.ones(count), scale_codes, torch.ones(256))
        assert matmul.fits(codes.device, state, codes, *nested) is enough


def test_square_weights_are_transposed_where_bitsandbytes_does(called, monkeypatch, matmul):
    monkeypatch.setattr(layers_on_cpu, "OWN_PRODUCT", lambda *a, **k: "own")
    weight = layer(n=K).weight
    for always in (True, False):
        monkeypatch.setattr(matmul, "knows_fused_products", lambda answer=always: answer)
        replace(monkeypatch, matmul)
        as_row, as_column = (
            bitsandbytes.matmul_4bit(X, codes, weight.quant_state) for codes in (weight.t(), weight)
        )
        assert as_row is not "own" and (as_column is "own") != always  # noqa: F632


def test_a_gpu_that_a_product_has_no_code_for_gets_bitsandbytes_own(called, matmul, monkeypatch):
    def refuse(*given):
        raise reprolab_nf4.NoCodeError("no kernel image")

    given_up = []
    monkeypatch.setattr(matmul, "multiply", refuse)
    monkeypatch.setattr(matmul, "give_up", given_up.append)
    linear = layer()
    expected = OWN_PRODUCT(X, linear.weight.t(), linear.weight.quant_state, bias=linear.bias)
    assert torch.equal(linear(X), expected) and len(given_up) == 1


def test_the_offset_of_nested_scales_is_read_once_and_when_it_changed(monkeypatch):
    offset, reads, item, read = torch.tensor(0.25), [], torch.Tensor.item, arrays.Offsets().read
    monkeypatch.setattr(torch.Tensor, "item", lambda self: reads.append(self) or item(self))
    assert [read(offset) for _ in range(3)] == [0.25] * 3
    assert len(reads) == 1
    offset.copy_(torch.tensor(0.5))
    assert [read(offset) for _ in range(3)] == [0.5] * 3
    offset.data = torch.tensor(0.75)
    assert [read(offset) for _ in range(3)] == [0.75] * 3
    assert len(reads) == 3


def test_an_undo_while_another_thread_chooses_a_way_is_harmless(matmul):
    ways = matmul.Ways(None, "dequantize", None)

    class Device:
        def __hash__(self):  # called by the choice
            ways.end()
            return 0

    device = Device()
    assert ways.by_rows(device, 64, 64, 64, "fp16", False) == ()
    ways._known = {(device, 64, 64, 64, "fp16", False): ((8, "few_rows"),)}
    assert ways.by_rows(device, 64, 64, 64, "fp16", False) == ((8, "few_rows"),)


def test_the_device_is_changed_only_where_another_is_current(matmul, monkeypatch):
    tensor = torch.zeros(1)
    for current, changed in ((1, False), (0, True)):
        with monkeypatch.context() as two_gpus:
            two_gpus.setattr(torch.Tensor, "get_device", lambda self: 1)
            two_gpus.setattr(torch.cuda, "current_device", lambda answer=current: answer)
            context = matmul.on_device_of(tensor)
        assert isinstance(context, torch.cuda.device_of) == changed


@pytest.mark.parametrize(
    ("settled", "nested", "size"), [(False, False, 0), (True, True, 0), (True, False, 100)]
)
def test_calls_pass_the_parameters_of_the_header(settled, nested, size, matmul, monkeypatch):
    calls = []

    def function(*given):
        arguments = dict(zip(c_functions.MULTIPLY_PARAMETERS, given, strict=True))
        if arguments["workspace"]:  # its contents do not matter
            arguments["workspace"] = len(ctypes.string_at(arguments["workspace"], size))
        arguments["A"] = (arguments["A"] % 16, ctypes.string_at(arguments["A"], 2 * 3 * K))
        calls.append(arguments)

    facts = {"workspace": lambda self, *product: size, "multiply": {"bf16": function}}
    library = type("Library", (), facts)()
    monkeypatch.setattr(matmul, "on_device_of", lambda tensor: contextlib.nullcontext())
    monkeypatch.setattr(matmul, "stream_of", lambda tensor: 77)
    codes, absmax = torch.zeros(N * K // 2, 1, dtype=torch.uint8), torch.ones(N * K // 64)
    bias = torch.ones(N, dtype=torch.bfloat16)
    second = (torch.zeros(N * K // 64, dtype=torch.uint8), torch.ones(256), 0.5, 256)
    x = torch.randn(3 * K + 4).bfloat16()[4:].view(1, 3, K)  # not aligned to 16 bytes
    more = second if nested else (None, None, 0.0, 0)
    rest = (N, absmax, 64, bias, *more, settled)
    out = matmul.multiply(library, "many_rows", x, codes, *rest)
    assert out.shape == (1, 3, N) and out.dtype == torch.bfloat16
    (given,) = calls
    assert given.pop("A") == (0, x.contiguous().view(torch.uint8).numpy().tobytes())
    assert given == {
        **{"kernel": b"many_rows", "B": codes.data_ptr(), "absmax": absmax.data_ptr()},
        "absmax_codes": second[0].data_ptr() if nested else None,
        "code2": second[1].data_ptr() if nested else None,
        **{"offset": 0.5 if nested else 0.0, "bias": bias.data_ptr(), "out": out.data_ptr()},
        **{"m": 3, "n": N, "k": K, "blocksize": 64, "blocksize2": 256 if nested else 0},
        **{"weights_ready": int(settled), "workspace": size or None, "stream": 77},
    }
    # Codes that are copied first are not settled.
    moved = torch.zeros(N * K // 2 + 8, dtype=torch.uint8)[8:].view(-1, 1)
    matmul.multiply(library, "many_rows", x, moved, *rest)
    assert calls[1]["B"] % 16 == 0 and calls[1]["weights_ready"] == 0


def test_the_scripts_for_bitsandbytes_maintainers_run(called, capsys, monkeypatch):
    """On the CPU, where both bitsandbytes' own product and its replacement are correct."""
    text = (Path(__file__).parents[2] / "docs/upstream.md").read_text()
    scripts = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[-2:]
    for script in scripts:
        assert len(script.splitlines()) <= 11
        for product in (bitsandbytes.matmul_4bit, OWN_PRODUCT):
            monkeypatch.setattr(bitsandbytes, "matmul_4bit", product)
            exec(script.replace('"cuda"', '"cpu"'), {})
    off = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(off) == 6 and max(off) < 2e-3
