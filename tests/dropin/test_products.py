"""Products of bitsandbytes that dequantize their weights: install(dequantize_from=...)."""

import math
import sys
import types

import pytest
from test_install import chosen, native

import reprolab_nf4


@pytest.fixture
def products(put_bitsandbytes, monkeypatch):
    """bitsandbytes with a product of its own, and as much of torch as another one takes."""
    put_bitsandbytes("0.50.2")
    import bitsandbytes
    import bitsandbytes.functional

    def own(A, B, quant_state, out=None, bias=None):
        return "own", out, bias

    linear = types.SimpleNamespace(linear=lambda *given: ("linear", *given))
    torch = types.ModuleType("torch")
    torch.nn = types.SimpleNamespace(functional=linear)
    torch.is_grad_enabled = lambda: Activations.grad_enabled
    monkeypatch.setitem(sys.modules, "torch", torch)
    bitsandbytes.matmul_4bit = own
    bitsandbytes.functional.dequantize_4bit = lambda codes, state: types.SimpleNamespace(
        to=lambda dtype: f"{codes} in {dtype}"
    )
    return bitsandbytes


class Activations:
    dtype, requires_grad, grad_enabled = "fp16", False, False

    def __init__(self, *shape):
        self.shape, self.numel = shape, lambda: math.prod(shape)


CODES = types.SimpleNamespace(data=types.SimpleNamespace(view=lambda *shape: f"codes {shape}"))
NF4 = types.SimpleNamespace(quant_type="nf4")


@pytest.mark.parametrize(
    ("given", "dequantizes"), [(None, False), (1, True), (6, True), (7, False)]
)
def test_products_of_enough_rows_dequantize(given, dequantizes, libraries, products):
    x, own = Activations(2, 3, 128), products.matmul_4bit
    with reprolab_nf4.install(libraries["ours"], dequantize_from=given):
        found = products.matmul_4bit(x, CODES, quant_state=NF4, bias="bias")
    linear = ("linear", x, "codes (-1, 1) in fp16", "bias")
    assert found == (linear if dequantizes else ("own", None, "bias"))
    assert products.matmul_4bit is own


@pytest.mark.parametrize(
    ("state", "out", "requires_grad", "grad_enabled", "dequantizes"),
    [
        (types.SimpleNamespace(quant_type="fp4"), None, False, False, False),
        (types.SimpleNamespace(quant_type="nf4", packing_format_for_cpu=True), *[None] * 3, False),
        (None, None, False, False, False),
        (NF4, "here", False, False, False),
        (NF4, None, True, True, False),
        (NF4, None, True, False, True),
        (NF4, None, False, True, True),
    ],
)
def test_other_formats_outputs_and_training_stay_bitsandbytes_own(
    state, out, requires_grad, grad_enabled, dequantizes, libraries, products, monkeypatch
):
    monkeypatch.setattr(Activations, "requires_grad", requires_grad)
    monkeypatch.setattr(Activations, "grad_enabled", grad_enabled)
    with reprolab_nf4.install(libraries["ours"], dequantize_from=1):
        found = products.matmul_4bit(Activations(2, 128), CODES, state, out=out, bias="bias")
    assert (found[0] == "linear") if dequantizes else (found == ("own", out, "bias"))


def test_a_product_that_others_deleted_is_restored(libraries, products):
    own = products.matmul_4bit
    with reprolab_nf4.install(libraries["ours"], dequantize_from=1):
        del products.matmul_4bit
    assert products.matmul_4bit is own


def test_a_bitsandbytes_without_such_a_product_is_one_line(libraries, products):
    del products.matmul_4bit
    reprolab_nf4.Library(libraries["ours"]).use("tree")
    with pytest.raises(reprolab_nf4.DropinError) as error:
        reprolab_nf4.install(libraries["ours"], dequantize_from=1)
    assert str(error.value) == "dequantize_from: this bitsandbytes has no matmul_4bit"
    assert chosen(libraries["ours"]) == "tree"
    assert reprolab_nf4.REPLACED[0] not in vars(native())


def test_a_product_that_others_replaced_meanwhile_stays(libraries, products):
    with reprolab_nf4.install(libraries["ours"]):
        products.matmul_4bit = others = object()
    assert products.matmul_4bit is others


@pytest.mark.parametrize("given", [0, -1, 1.5, "2", True])
def test_a_wrong_number_of_rows_is_one_line_and_changes_nothing(given, libraries, products):
    own = products.matmul_4bit
    with pytest.raises(reprolab_nf4.DropinError) as error:
        reprolab_nf4.install(libraries["ours"], dequantize_from=given)
    wanted = f"dequantize_from: give a number of rows, 1 at least, not {given!r}"
    assert str(error.value) == wanted
    assert products.matmul_4bit is own
    reprolab_nf4.install(libraries["ours"]).undo()  # nothing was left installed
