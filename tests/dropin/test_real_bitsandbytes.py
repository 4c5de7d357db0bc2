"""The drop-in under the bitsandbytes of this environment, on a GPU: the same bits as its own."""

import re
from pathlib import Path

import pytest

import reprolab_nf4

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")
bitsandbytes = pytest.importorskip("bitsandbytes", reason="NOT TESTED, no bitsandbytes")
if not torch.cuda.is_available():
    pytest.skip("NOT TESTED, no GPU", allow_module_level=True)

from bitsandbytes import functional  # noqa: E402

TYPES = (torch.float16, torch.bfloat16)


def quantized(shape, block_size=64, nested=False, dtype=torch.float16):
    torch.manual_seed(1)
    weights = torch.randn(shape, device="cuda").to(dtype)
    return functional.quantize_4bit(
        weights, blocksize=block_size, compress_statistics=nested, quant_type="nf4"
    )


def bits(codes, state, out=None):
    return functional.dequantize_4bit(codes, state, out=out).view(torch.int16).clone()


@pytest.fixture(scope="module")
def cases():
    """Weights of every type, kind of scales and block size, and what bitsandbytes makes of them."""
    made = []
    for dtype in TYPES:
        for nested in (False, True):
            for block_size in (64, 128, 256, 512, 1024, 2048, 4096):
                for shape in ((1024, 1024), (33, 65)):
                    weights = quantized(shape, block_size, nested, dtype)
                    made.append((weights, bits(*weights)))
    return made


def test_every_kernel_writes_bitsandbytes_bits(built_library, cases):
    with reprolab_nf4.install(built_library) as installed:
        for kernel in installed.kernels():
            installed.use(kernel)
            for weights, expected in cases:
                assert torch.equal(bits(*weights), expected), f"{kernel}: {weights[1].as_dict()}"
    for weights, expected in cases:
        assert torch.equal(bits(*weights), expected)


def kernels_run(weights):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        bits(*weights)
        torch.cuda.synchronize()
    return {event.key for event in profile.key_averages()}


def test_the_kernel_that_runs_is_ours_until_undo(built_library):
    weights = quantized((1024, 1024))
    with reprolab_nf4.install(built_library, kernel="shared_lut"):
        assert any("reprolab::nf4" in name for name in kernels_run(weights))
    assert not any("reprolab::nf4" in name for name in kernels_run(weights))


def test_what_the_document_shows_writes_bitsandbytes_bits(built_library, monkeypatch):
    monkeypatch.setattr(reprolab_nf4, "BUILT", built_library)
    text = (Path(__file__).parents[2] / "docs/drop-in.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[-1]
    names = {}
    exec(code, names)
    assert torch.equal(names["out"].view(torch.int16), bits(names["codes"], names["state"]))


def test_double_quantization_in_one_kernel(built_library):
    library = reprolab_nf4.Library(built_library)
    for dtype, function in zip(TYPES, reprolab_nf4.NESTED, strict=True):
        codes, state = quantized((1024, 1024), nested=True, dtype=dtype)
        out = torch.empty(state.shape, dtype=dtype, device="cuda")
        getattr(library, function)(
            codes.data_ptr(),
            state.absmax.data_ptr(),
            state.state2.code.data_ptr(),
            state.state2.absmax.data_ptr(),
            state.offset.item(),
            out.data_ptr(),
            state.blocksize,
            state.state2.blocksize,
            out.numel(),
            torch.cuda.current_stream().cuda_stream,
        )
        assert torch.equal(out.view(torch.int16), bits(codes, state))


@pytest.mark.parametrize("tokens", [3, 4, 5])
def test_products_of_enough_rows_dequantize(built_library, tokens):
    layer = bitsandbytes.nn.Linear4bit(
        1024, 512, compute_dtype=torch.float16, quant_type="nf4", compress_statistics=True
    )
    layer = layer.half().to("cuda")
    x = torch.randn((tokens, 1024), device="cuda").half()
    weight = functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    multiplied = torch.nn.functional.linear(x, weight, layer.bias)
    with torch.no_grad():
        own = layer(x)
        with reprolab_nf4.install(built_library, dequantize_from=4):
            found = layer(x)
        assert torch.equal(found, multiplied if tokens >= 4 else own)
        assert torch.equal(layer(x), own)
    x.requires_grad_()
    with reprolab_nf4.install(built_library, dequantize_from=4):
        layer(x).sum().backward()
    assert torch.allclose(x.grad, weight.sum(0).expand_as(x), rtol=1e-2, atol=1e-2)
