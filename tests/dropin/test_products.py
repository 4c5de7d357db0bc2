"""How bitsandbytes' products are computed once a library is installed: install(products=...). With
PyTorch's tensors on the CPU, and a stand-in for bitsandbytes.
"""

import sys
import types
import warnings
from pathlib import Path

import pytest
from test_install import chosen, native

import reprolab_nf4
from reprolab_nf4 import c_functions, choices
from reprolab_nf4.choices import DEQUANTIZE, OWN, Layer, Table

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")

N, K = 64, 128
TIMES = {
    1: {"few_rows": 1.0, "few_rows_exact": 2.0, OWN: 3.0, DEQUANTIZE: 9.0},
    4: {OWN: 1.0, "few_rows": 2.0, "few_rows_exact": 3.0, DEQUANTIZE: 9.0},
    16: {"many_rows": 1.0, OWN: 4.0, DEQUANTIZE: 2.0},
}
WEIGHTS = torch.arange(N * K).reshape(N, K).half()


@pytest.fixture
def products(put_bitsandbytes, monkeypatch, tmp_path):
    """bitsandbytes with a product of its own, a table for the GPU that the CPU is here, and what
    the operator was called with in place of what it computes.
    """
    put_bitsandbytes("0.50.2")
    import bitsandbytes
    import bitsandbytes.functional

    bitsandbytes.functional.dequantize_4bit = lambda codes, state: WEIGHTS.to(state.dtype)
    forget_module()  # which has another bitsandbytes' functions
    from reprolab_nf4 import multiplying

    def own(A, B, quant_state, out=None, bias=None):
        return "own", out, bias

    bitsandbytes.matmul_4bit = own
    choices.write(
        tmp_path / "sm_90.json",
        Table("a GPU", "9.0", "made up", (Layer(N, K, "fp16", False, TIMES),)),
    )
    monkeypatch.setattr(choices, "RECORDED", tmp_path)
    monkeypatch.setattr(multiplying, "capability", lambda device: "9.0")
    monkeypatch.setattr(torch.cuda, "device", lambda device: warnings.catch_warnings())
    monkeypatch.setattr(multiplying, "multiply", lambda *given: ("ours", *given))
    yield bitsandbytes
    forget_module()


def forget_module():
    if sys.modules.pop("reprolab_nf4.multiplying", None):
        del reprolab_nf4.multiplying


CODES = torch.zeros(N * K // 2, 1, dtype=torch.uint8)
ABSMAX, ABSMAX2, CODE2 = (torch.ones(size) for size in (N * K // 64, 1, 256))


def state(nested=False, **different):
    facts = {"quant_type": "nf4", "shape": (N, K), "blocksize": 64, "dtype": torch.float16}
    found = types.SimpleNamespace(**facts | {"absmax": ABSMAX, "nested": nested} | different)
    if nested:
        found.offset = torch.tensor(0.5)
        found.state2 = types.SimpleNamespace(absmax=ABSMAX2, code=CODE2, blocksize=256)
    return found


def activations(*shape, dtype=torch.float16, **given):
    return torch.ones(*shape, dtype=dtype, **given)


def way_of(found):
    return (
        "dequantize" if isinstance(found, torch.Tensor) else found[1 if found[0] == "ours" else 0]
    )


@pytest.mark.parametrize(
    ("given", "ways"),
    [
        (
            "fastest",
            {1: "few_rows", 2: "own", 4: "own", 5: "many_rows", 16: "many_rows", 17: "own"},
        ),
        ("exact", {1: "few_rows_exact", 4: "few_rows_exact", 5: "dequantize", 17: "dequantize"}),
        ("dequantize", {1: "dequantize", 17: "dequantize"}),
        ("bitsandbytes", {1: "own", 17: "own"}),
    ],
)
def test_the_table_and_the_user_decide(given, ways, libraries, products):
    own = products.matmul_4bit
    with reprolab_nf4.install(libraries["ours"], products=given):
        for rows, way in ways.items():
            for shape in ((rows, K), (1, rows, K)):
                assert way_of(products.matmul_4bit(activations(*shape), CODES, state())) == way
        # What is already dequantized to another type has other weights.
        other = products.matmul_4bit(activations(1, K), CODES, state(dtype=torch.bfloat16))
        assert way_of(other) == ("dequantize" if given == "exact" else ways[1])
    assert products.matmul_4bit is own
    with reprolab_nf4.install(libraries["other"], products=given):  # has no products with codes
        expected = "own" if given in ("fastest", "bitsandbytes") else "dequantize"
        assert way_of(products.matmul_4bit(activations(1, K), CODES, state())) == expected


def test_dequantized_weights_are_multiplied_by_pytorch(libraries, products):
    x, bias = torch.randn(5, K).half(), torch.randn(N).half()
    with reprolab_nf4.install(libraries["ours"], products="dequantize"):
        found = products.matmul_4bit(x, CODES.t(), quant_state=state(), bias=bias)
    assert torch.equal(found, torch.nn.functional.linear(x, WEIGHTS, bias))


def test_kernels_get_the_scales_as_they_are(libraries, products):
    x, bias = activations(1, K), activations(N)
    with reprolab_nf4.install(libraries["ours"]):
        plain = products.matmul_4bit(x, CODES.t(), quant_state=state(), bias=bias)
        nested = products.matmul_4bit(x, CODES.t(), quant_state=state(nested=True))
    assert plain[1:3] == ("few_rows", x)
    assert plain[3].data_ptr() == CODES.data_ptr()
    assert plain[4:] == (N, ABSMAX, 64, bias, None, None, 0.0, 0, False)
    assert nested[4:] == (N, ABSMAX2, 64, None, ABSMAX, CODE2, 0.5, 256, False)


def test_without_times_for_the_gpu_bitsandbytes_chooses(libraries, products, monkeypatch, tmp_path):
    call = lambda: way_of(products.matmul_4bit(activations(1, K), CODES, state()))  # noqa: E731
    multiplying = sys.modules["reprolab_nf4.multiplying"]
    for capability in ("8.0", ""):
        monkeypatch.setattr(multiplying, "capability", lambda device, found=capability: found)
        with reprolab_nf4.install(libraries["ours"]):
            assert call() == "own"
        with reprolab_nf4.install(libraries["ours"], products="exact"):
            assert call() == "dequantize"
    # The user's own table is of another GPU, or of this one.
    with reprolab_nf4.install(libraries["ours"], table=tmp_path / "sm_90.json"):
        assert call() == "own"
    monkeypatch.setattr(multiplying, "capability", lambda device: "9.0")
    monkeypatch.setattr(choices, "RECORDED", tmp_path / "none")
    with reprolab_nf4.install(libraries["ours"], table=tmp_path / "sm_90.json"):
        assert call() == "few_rows"


def test_what_a_kernel_cannot_do_another_does(libraries, products, tmp_path):
    """The library's kernels take 99 rows, and "tree" no GPU of this kind."""
    times = {100: {"many_rows": 1.0, DEQUANTIZE: 2.0, OWN: 3.0}, 200: {"many_rows": 1.0, OWN: 2.0}}
    choices.write(
        tmp_path / "own.json",
        Table("a GPU", "9.0", "made up", (Layer(N, K, "fp16", False, times),)),
    )
    with reprolab_nf4.install(libraries["ours"], table=tmp_path / "own.json"):
        for rows, way in ((100, "dequantize"), (101, "own")):
            assert way_of(products.matmul_4bit(activations(rows, K), CODES, state())) == way
    times = {1: {"tree": 1.0, OWN: 3.0}}
    choices.write(
        tmp_path / "own.json",
        Table("a GPU", "9.0", "made up", (Layer(N, K, "fp16", False, times),)),
    )
    own = products.matmul_4bit
    installed = reprolab_nf4.install(libraries["ours"], table=tmp_path / "own.json")
    with pytest.warns(UserWarning, match="goes on by itself") as seen:
        assert way_of(products.matmul_4bit(activations(1, K), CODES, state())) == "own"
    assert len(seen) == 1 and products.matmul_4bit is own and not installed.undo()


FP32, HERE = torch.float32, torch.empty(1)


@pytest.mark.parametrize(
    ("x", "different", "more"),
    [
        (activations(1, K), {"quant_type": "fp4"}, {}),
        (activations(1, K), {"packing_format_for_cpu": True}, {}),
        (activations(1, K), {"shape": (K, N)}, {}),
        (activations(0, K), {}, {}),
        (activations(1, K, dtype=FP32), {}, {}),
        (activations(1, K), {}, {"out": HERE}),
        (activations(1, K), {}, {"bias": activations(N, dtype=FP32)}),
        (activations(1, K, requires_grad=True), {}, {}),
        (activations(1, K), {}, {"bias": activations(N, requires_grad=True)}),
    ],
)
@pytest.mark.parametrize("given", ["fastest", "exact", "dequantize"])
def test_other_formats_outputs_and_training_stay_bitsandbytes_own(
    given, x, different, more, libraries, products
):
    with reprolab_nf4.install(libraries["ours"], products=given):
        found = products.matmul_4bit(x, CODES, state(**different), **more)
        assert found == ("own", more.get("out"), more.get("bias"))
        with torch.no_grad():
            x = activations(1, K, requires_grad=True)
            assert way_of(products.matmul_4bit(x, CODES, state())) != "own"
        assert products.matmul_4bit(x, CODES, None) == ("own", None, None)


def test_a_product_that_others_deleted_is_restored(libraries, products):
    own = products.matmul_4bit
    with reprolab_nf4.install(libraries["ours"]):
        del products.matmul_4bit
    assert products.matmul_4bit is own


def test_a_bitsandbytes_without_such_a_product_is_one_line(libraries, products):
    del products.matmul_4bit
    reprolab_nf4.Library(libraries["ours"]).use("tree")
    with pytest.raises(reprolab_nf4.DropinError) as error:
        reprolab_nf4.install(libraries["ours"], products="exact")
    needed = "PyTorch 2.4, and a bitsandbytes with matmul_4bit"
    assert str(error.value) == f"products: exact: needs {needed}"
    assert chosen(libraries["ours"]) == "tree"
    assert c_functions.REPLACED[0] not in vars(native())
    reprolab_nf4.install(libraries["ours"]).undo()


def test_an_older_pytorch_keeps_its_products(libraries, products, monkeypatch):
    own = products.matmul_4bit
    monkeypatch.delattr(torch.library, "custom_op")
    with reprolab_nf4.install(libraries["ours"]):
        assert products.matmul_4bit is own
    with pytest.raises(reprolab_nf4.DropinError, match=r"needs PyTorch 2\.4"):
        reprolab_nf4.install(libraries["ours"], products="dequantize")


def test_a_product_that_others_replaced_meanwhile_stays(libraries, products):
    with reprolab_nf4.install(libraries["ours"], products="bitsandbytes"):
        products.matmul_4bit = others = object()
    assert products.matmul_4bit is others


@pytest.mark.parametrize(
    "given",
    [{"products": "fast"}, {"products": None}, {"products": 1}, {"table": Path("none.json")}],
)
def test_what_cannot_be_chosen_is_one_line_and_changes_nothing(given, libraries, products):
    own = products.matmul_4bit
    with pytest.raises(reprolab_nf4.DropinError) as error:
        reprolab_nf4.install(libraries["ours"], **given)
    wanted = "table: cannot be read: [Errno 2] No such file or directory: 'none.json'"
    if "products" in given:
        named = "fastest, exact, dequantize, bitsandbytes"
        wanted = f"products: give one of {named}, not {given['products']!r}"
    assert str(error.value) == wanted
    assert products.matmul_4bit is own
    reprolab_nf4.install(libraries["ours"]).undo()  # nothing was left installed
