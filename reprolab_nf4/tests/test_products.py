"""How bitsandbytes' products are computed once a library is installed: install(products=...). With
PyTorch's tensors on the CPU, and a stand-in for bitsandbytes.
"""

import contextlib
import types
import warnings
from pathlib import Path

import pytest
from test_install import chosen, native

import reprolab_nf4
from reprolab_nf4 import c_functions, timing_table
from reprolab_nf4.timing_table import DEQUANTIZE, OWN, Layer, Table

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")
from torch.torch_version import TorchVersion  # noqa: E402

# Imported once, under the real bitsandbytes where there is one that works with this PyTorch: of
# several modules, PyTorch's operator would be the last one's.
with contextlib.suppress(ImportError):
    import reprolab_nf4.layers  # and matmul

N, K = 64, 128
TIMES = {
    1: {"few_rows": 1.0, "few_rows_exact": 2.0, OWN: 3.0, DEQUANTIZE: 9.0},
    4: {OWN: 1.0, "few_rows": 2.0, "few_rows_exact": 3.0, DEQUANTIZE: 9.0},
    16: {"many_rows": 1.0, OWN: 4.0, DEQUANTIZE: 2.0},
}
WEIGHTS = torch.arange(N * K).reshape(N, K).half()
CODES = torch.zeros(N * K // 2, 1, dtype=torch.uint8)
SCALE_CODES = torch.zeros(N * K // 64, dtype=torch.uint8)
ABSMAX, ABSMAX2, CODE2 = (torch.ones(size) for size in (N * K // 64, 1, 256))


def write(path, times):
    layer = Layer(N, K, "fp16", False, times)
    timing_table.write(path, Table("a GPU", "9.0", "made up", (layer,)))
    return path


@pytest.fixture
def products(put_bitsandbytes, monkeypatch, tmp_path):
    """bitsandbytes with a product of its own, a table for the GPU that the CPU is here, and what
    the operator was called with in place of what it computes.
    """
    put_bitsandbytes("0.50.2")
    import bitsandbytes
    import bitsandbytes.functional

    bitsandbytes.functional.dequantize_4bit = lambda codes, state: WEIGHTS.to(state.dtype)
    from reprolab_nf4 import matmul

    def own(A, B, quant_state, out=None, bias=None):
        return "own", out, bias

    bitsandbytes.matmul_4bit = own
    bitsandbytes.nn = types.SimpleNamespace(Linear4bit=type("Linear4bit", (torch.nn.Linear,), {}))
    write(tmp_path / "sm_90.json", TIMES)
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path)
    monkeypatch.setattr(matmul, "functional", bitsandbytes.functional)
    monkeypatch.setattr(matmul, "capability", lambda device: "9.0")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(torch.cuda, "device", lambda device: warnings.catch_warnings())
    monkeypatch.setattr(matmul, "multiply", lambda library, *given: ("ours", *given))
    return bitsandbytes


@pytest.fixture
def install(libraries, products):
    return lambda library="ours", **given: reprolab_nf4.install(libraries[library], **given)


def state(nested=False, **different):
    facts = {"quant_type": "nf4", "shape": (N, K), "blocksize": 64, "dtype": torch.float16}
    absmax = SCALE_CODES if nested else ABSMAX
    quant_state = types.SimpleNamespace(**facts | {"absmax": absmax, "nested": nested} | different)
    if nested:
        quant_state.offset = torch.tensor(0.5)
        quant_state.state2 = types.SimpleNamespace(absmax=ABSMAX2, code=CODE2, blocksize=256)
    return quant_state


def activations(*shape, dtype=torch.float16, **given):
    return torch.ones(*shape, dtype=dtype, **given)


@pytest.fixture
def way(products):
    """The way in which a number of rows is multiplied."""

    def call(rows=1, shape=(), **different):
        x = activations(*(shape or (rows, K)))
        product = products.matmul_4bit(x, CODES, state(**different))
        if isinstance(product, torch.Tensor):
            return "dequantize"
        return product[1 if product[0] == "ours" else 0]

    return call


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
def test_the_table_and_the_user_decide(given, ways, install, products, way):
    own = products.matmul_4bit
    with install(products=given):
        for rows, wanted in ways.items():
            assert way(rows) == way(shape=(1, rows, K)) == wanted
        # Weights that were first rounded to another type are other weights.
        other = "dequantize" if given == "exact" else ways[1]
        assert way(dtype=torch.bfloat16) == other
    assert products.matmul_4bit is own
    with install("other", products=given):  # has no products of 4-bit weights
        assert way() == ("own" if given in ("fastest", "bitsandbytes") else "dequantize")


def test_kernels_get_the_scales_as_they_are(install, products):
    x, bias = activations(1, K), activations(N)
    with install():
        plain = products.matmul_4bit(x, CODES.t(), quant_state=state(), bias=bias)
        nested = products.matmul_4bit(x, CODES.t(), quant_state=state(nested=True))
    assert plain[1:3] == ("few_rows", x)
    assert plain[3].data_ptr() == CODES.data_ptr()
    assert plain[4:] == (N, ABSMAX, 64, bias, None, None, 0.0, 0, False, None)
    assert nested[4:] == (N, ABSMAX2, 64, None, SCALE_CODES, CODE2, 0.5, 256, False, None)


def test_without_times_for_the_gpu_bitsandbytes_chooses(install, way, monkeypatch, tmp_path):
    matmul, table = reprolab_nf4.matmul, tmp_path / "sm_90.json"
    for capability in ("8.0", ""):
        monkeypatch.setattr(matmul, "capability", lambda device, answer=capability: answer)
        for given, wanted in (({}, "own"), ({"products": "exact"}, "dequantize")):
            with install(**given):
                assert way() == wanted
    monkeypatch.setattr(matmul, "capability", lambda device: "9.0")
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path / "none")
    with install(table=table):
        assert way() == "few_rows"


@pytest.mark.parametrize(("recorded", "taken"), [("9.0", "recorded"), ("8.6", "no")])
def test_a_table_of_another_architecture_is_not_used_and_warns(
    recorded, taken, install, way, monkeypatch, tmp_path
):
    monkeypatch.setattr(reprolab_nf4.matmul, "capability", lambda _: recorded)
    text = (tmp_path / "sm_90.json").read_text()
    (tmp_path / "other.json").write_text(
        text.replace("9.0", "8.0").replace('"few_rows"', '"simple"')
    )
    output = (
        f"is of compute capability 8.0, this GPU of {recorded}: {taken} times are taken; make tune"
    )
    with install(table=tmp_path / "other.json"), pytest.warns(UserWarning, match=output) as seen:
        assert [way() for _ in range(2)] == ["few_rows" if taken == "recorded" else "own"] * 2
    assert len(seen) == 1


def test_the_next_fastest_kernel_runs_unsupported_shapes(install, products, way, tmp_path):
    """The library's kernels support up to 99 rows, and "tree" does not support this GPU."""
    times = {100: {"many_rows": 1.0, DEQUANTIZE: 2.0, OWN: 3.0}, 200: {"many_rows": 1.0, OWN: 2.0}}
    with install(table=write(tmp_path / "own.json", times)):
        assert (way(100), way(101)) == ("dequantize", "own")
    table, own = write(tmp_path / "own.json", {1: {"tree": 1.0, OWN: 3.0}}), products.matmul_4bit
    installed = install(table=table)
    with pytest.warns(UserWarning, match="goes on by itself") as seen:
        assert way() == "own"
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
@pytest.mark.parametrize("given", ["fastest", "dequantize"])
def test_other_formats_outputs_and_training_stay_bitsandbytes_own(
    given, x, different, more, install, products, way
):
    with install(products=given):
        product = products.matmul_4bit(x, CODES, state(**different), **more)
        assert product == ("own", more.get("out"), more.get("bias"))
        assert products.matmul_4bit(x, CODES, None) == ("own", None, None)
        with torch.no_grad():
            x = activations(1, K, requires_grad=True)
            assert products.matmul_4bit(x, CODES, state())[0] != "own"


def test_generate_compiles_models_unless_switched_off(install, monkeypatch):
    transformers = pytest.importorskip("transformers", reason="NOT TESTED, no transformers")
    quantizer = transformers.quantizers.quantizer_bnb_4bit.Bnb4BitHfQuantizer
    monkeypatch.setattr(torch.ops.bitsandbytes, "dequantize_4bit", None, raising=False)
    before = dict(vars(quantizer))
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.7.1"))
    with install():  # a graph would break at each layer
        assert dict(vars(quantizer)) == before
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.8.0"))
    with install():
        assert quantizer.is_compileable is True
    assert dict(vars(quantizer)) == before and quantizer.is_compileable is not True
    for given in ({"compile_generate": False}, {"products": "bitsandbytes"}):
        with install(**given):
            assert dict(vars(quantizer)) == before
    # A version that decides by itself is unchanged.
    monkeypatch.setattr(quantizer, "is_compileable", False)
    with install():
        assert quantizer.is_compileable is False


def test_layers_have_their_own_call_again_after_undo(install, products):
    layer = products.nn.Linear4bit
    before = dict(vars(layer))
    with install():
        assert layer.__call__ is not torch.nn.Linear.__call__
    assert dict(vars(layer)) == before


@pytest.mark.parametrize("given", ["fastest", "dequantize"])
def test_after_undo_kept_functions_call_bitsandbytes(given, install, products, way):
    installed = install(products=given)
    ours, own = products.matmul_4bit, []
    products.matmul_4bit = lambda *given, **more: own.append(given) or ours(*given, **more)
    assert way() != "own"
    with pytest.warns(UserWarning, match="matmul_4bit"):
        installed.undo()
    assert way() == "own" and len(own) == 2


def test_undo_keeps_a_product_that_others_replaced(install, products):
    own = products.matmul_4bit
    with install():
        del products.matmul_4bit
    assert products.matmul_4bit is own
    with install(products="bitsandbytes"):
        products.matmul_4bit = others = object()
    assert products.matmul_4bit is others


def test_an_old_pytorch_or_bitsandbytes_keeps_its_products(
    install, products, libraries, monkeypatch, refused
):
    own = products.matmul_4bit
    with monkeypatch.context() as older:
        older.delattr(torch.library, "custom_op")
        with install():
            assert products.matmul_4bit is own
        assert "PyTorch 2.4" in refused(install, products="dequantize")
    del products.matmul_4bit
    reprolab_nf4.Library(libraries["ours"]).use("tree")
    assert "matmul_4bit" in refused(install, products="exact")
    # Nothing was changed, or left installed.
    assert chosen(libraries["ours"]) == "tree"
    assert c_functions.REPLACED[0] not in vars(native())
    install().undo()


@pytest.mark.parametrize(
    "given",
    [
        *({"products": wrong} for wrong in ("fast", None, 1, ["exact"])),
        {"compile_generate": 1},
        *({"table": Path("none.json")} | more for more in ({}, {"products": "bitsandbytes"})),
    ],
)
def test_a_wrong_choice_is_one_line_and_changes_nothing(given, install, products, refused):
    own = products.matmul_4bit
    noun = "none.json" if "table" in given else next(iter(given))
    assert refused(install, **given).startswith(f"{noun}: ")
    assert products.matmul_4bit is own
    install().undo()  # nothing was left installed
