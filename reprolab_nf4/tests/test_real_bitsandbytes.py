"""The drop-in under the bitsandbytes of this environment, on a GPU: the same bits as its own."""

import functools
import re
from pathlib import Path

import pytest

import reprolab_nf4
from reprolab_nf4 import timing_table

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")
bitsandbytes = pytest.importorskip("bitsandbytes", reason="NOT TESTED, no bitsandbytes")
if not torch.cuda.is_available():
    pytest.skip("NOT TESTED, no GPU", allow_module_level=True)

from bitsandbytes import functional  # noqa: E402
from python_calls import functions_of  # noqa: E402

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
    """Weights of every type, kind of scales and block size, and bitsandbytes' outputs for them."""
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


def of_ours(run):
    """The kernels of this project that a function launches."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return {e.key for e in profile.key_averages() if "reprolab" in e.key}


def test_the_kernel_that_runs_is_ours_until_undo(built_library):
    weights = quantized((1024, 1024))
    with reprolab_nf4.install(built_library, kernel="shared_lut"):
        assert of_ours(lambda: bits(*weights))
    assert not of_ours(lambda: bits(*weights))


def test_the_documented_lines_write_bitsandbytes_bits(built_library, monkeypatch):
    monkeypatch.setattr(reprolab_nf4, "BUILT", built_library)
    text = (Path(__file__).parents[2] / "docs/drop-in.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[-1]
    names = {}
    exec(code, names)
    assert torch.equal(names["out"].view(torch.int16), bits(names["codes"], names["state"]))


def test_products_of_views_are_right_as_the_upstream_document_says(only, max_rows, capsys):
    """Runs two scripts; one crashes the GPU context by bitsandbytes' own product."""
    max_rows("few_rows")
    text = (Path(__file__).parents[2] / "docs/upstream.md").read_text()
    scripts = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[-2:]
    with torch.no_grad(), only("few_rows"):
        for script in scripts:
            exec(script, {})
    off = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(off) == 3 and max(off) < 2e-3


def layer_of(nested=False, bias=False, dtype=torch.float16, n=512, k=4096):
    torch.manual_seed(1)
    layer = bitsandbytes.nn.Linear4bit(
        k, n, bias=bias, compute_dtype=dtype, quant_type="nf4", compress_statistics=nested
    )
    return layer.to(dtype).to("cuda").requires_grad_(False).eval()


@pytest.fixture
def only(built_library, tmp_path):
    """Installs with one way of a matmul as the fastest for all up to 512 rows."""

    def install(way, products="fastest"):
        capability = ".".join(map(str, torch.cuda.get_device_capability()))
        times = {rows: {way: 1.0} for rows in (16, 512)}
        layer = timing_table.Layer(512, 4096, "fp16", False, times)
        table = timing_table.Table("this GPU", capability, "made up", (layer,))
        timing_table.write(tmp_path / "table.json", table)
        path = tmp_path / "table.json"
        return reprolab_nf4.install(built_library, products=products, table=path)

    return install


@pytest.fixture
def max_rows(built_library):
    """A product's kernel; skips the test if this GPU does not support it."""

    def most(way):
        most = 16 if way.startswith("few_rows") else 512
        try:
            reprolab_nf4.Library(built_library).workspace(way, most, 512, 4096, 64)
        except reprolab_nf4.DropinError as why:
            pytest.skip(f"NOT TESTED, {why}")
        return most

    return most


KERNELS = (
    *("few_rows", "few_rows_exact", "many_rows", "many_rows_rounded", "many_rows_exact"),
    *("few_rows_99kib", "few_rows_exact_99kib"),
    "simple",
)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", KERNELS)
def test_products_are_those_of_the_dequantized_weights(only, max_rows, way, nested, dtype):
    most = max_rows(way)
    layer = layer_of(nested, bias=True, dtype=dtype)
    weight = functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    for rows in (1, 3, 8, 9, 100, 512):
        if rows > most:
            continue
        x = torch.randn((2, rows, 4096), device="cuda").to(dtype)[:1]
        expected = torch.nn.functional.linear(x.double(), weight.double(), layer.bias.double())
        products = "exact" if way in reprolab_nf4.Library().exact_products() else "fastest"
        with torch.no_grad(), only(way, products):
            output = layer(x)
            assert any("nf4_product" in name for name in of_ours(lambda x=x: layer(x)))
            assert torch.equal(output, layer(x))  # repeatable for any contents of the workspace
        off = (output.double() - expected).abs().max() / expected.abs().max()
        assert off < (4e-3 if dtype == torch.float16 else 3e-2), rows


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", KERNELS)
def test_products_in_graphs_of_two_streams_at_once(only, max_rows, way, nested):
    most = max_rows(way)
    layers = [layer_of(nested) for _ in range(3)]
    xs = [torch.randn((min(most, 64), 4096), device="cuda").half() for _ in range(2)]
    with torch.no_grad(), only(way):
        expected = [[layer(x) for layer in layers] for x in xs]
        streams, graphs, outputs = [torch.cuda.Stream() for _ in xs], [], []
        for x, stream in zip(xs, streams, strict=True):
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                outputs.append([layer(x) for layer in layers])
            graphs.append(graph)
    for _ in range(20):
        for y in (y for of_graph in outputs for y in of_graph):
            y.zero_()
        torch.cuda.synchronize()
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        for ours, theirs in zip(outputs, expected, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", KERNELS)
def test_planned_layers_on_two_streams_at_once(only, max_rows, way, nested, monkeypatch):
    from reprolab_nf4 import layers

    most = max_rows(way)
    model = [layer_of(nested, bias=True) for _ in range(3)]
    xs = [torch.randn((rows, 4096), device="cuda").half() for rows in (1, min(most, 64))]
    with monkeypatch.context() as without, torch.no_grad():
        without.setattr(layers, "EXTENSION", Path("none"))
        with only(way):
            expected = [[layer(x) for layer in model] for x in xs]
    streams = [torch.cuda.Stream() for _ in xs]
    with torch.no_grad(), only(way):
        for _ in range(50):
            torch.cuda.synchronize()
            outputs = []
            for x, stream in zip(xs, streams, strict=True):
                with torch.cuda.stream(stream):
                    outputs.append([layer(x) for layer in model])
            torch.cuda.synchronize()
            for ours, theirs in zip(outputs, expected, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # of planned layers
            captured = [layer(xs[0]) for layer in model]
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(a, b) for a, b in zip(captured, expected[0], strict=True))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", KERNELS)
def test_a_product_waits_for_codes_that_the_previous_kernel_writes(only, max_rows, way, nested):
    max_rows(way)
    layer, x = layer_of(nested), torch.randn((4, 4096), device="cuda").half()
    with torch.no_grad(), only(way):
        expected = []
        for _ in range(2):
            torch.cuda.synchronize()
            expected.append(layer(x))
            layer.weight.bitwise_not_()
        assert not torch.equal(*expected)
        for i in range(40):
            assert torch.equal(layer(x), expected[i % 2])
            assert torch.equal(layer(x), expected[i % 2])  # by settled weights
            layer.weight.bitwise_not_()


def test_a_capture_cannot_begin_with_nested_scales(only, max_rows):
    max_rows("few_rows")
    layer, x = layer_of(nested=True), torch.randn((2, 4096), device="cuda").half()
    with torch.no_grad(), only("few_rows"):
        with (
            pytest.raises(reprolab_nf4.DropinError, match="run the model once before"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            layer(x)
        assert torch.isfinite(layer(x)).all()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "way", ["few_rows", "many_rows", timing_table.DEQUANTIZE, timing_table.OWN]
)
def test_compiled_models_are_whole_graphs(only, max_rows, way, nested, mode):
    if way in KERNELS:
        max_rows(way)
    model = torch.nn.Sequential(*[layer_of(nested, n=4096) for _ in range(3)])
    x = torch.randn((4, 4096), device="cuda").half()
    torch.compiler.reset()
    with torch.no_grad(), only(way):
        expected = model(x)
        compiled = torch.compile(model, fullgraph=True, mode=mode)
        for _ in range(4):  # warms up, records, replays
            output = compiled(x).clone()
            # The compiler may multiply 16-bit weights by other kernels than PyTorch.
            torch.testing.assert_close(output, expected, rtol=1e-2, atol=1e-2)
            assert way not in KERNELS or torch.equal(output, expected)


def test_a_tuned_table_is_taken(built_library, tmp_path, monkeypatch):
    from reprolab_nf4 import measuring

    monkeypatch.setattr(reprolab_nf4, "BUILT", built_library)
    monkeypatch.setattr(measuring, "ROWS", (1, 64))
    model = torch.nn.Sequential(layer_of(), layer_of(nested=True))
    reprolab_nf4.tune(model, tmp_path / "table.json")
    table = timing_table.read(tmp_path / "table.json")
    assert [(x.n, x.k, x.nested) for x in table.layers] == [(512, 4096, False), (512, 4096, True)]
    with torch.no_grad(), reprolab_nf4.install(table=tmp_path / "table.json"):
        assert torch.isfinite(model[0](torch.ones((64, 4096), device="cuda").half())).all()


def test_training_is_bitsandbytes_own(only):
    layer, x = layer_of(), torch.randn((4, 4096), device="cuda").half().requires_grad_()
    with torch.no_grad():
        plain = layer(x)
    own = layer(x)
    own.sum().backward()
    grad, x.grad = x.grad, None
    for way in ("few_rows", timing_table.DEQUANTIZE):
        for products in ("fastest", "exact", "dequantize"):
            with only(way, products):
                output = layer(x)
                output.sum().backward()
                with torch.no_grad():  # as reentrant checkpoints run layers at first
                    in_training_mode = layer.train()(x)
            assert torch.equal(output, own) and torch.equal(x.grad, grad)
            assert torch.equal(in_training_mode, plain)
            layer.eval()
            x.grad = None


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NOT TESTED, one GPU")
def test_products_run_where_their_tensors_are(only, max_rows):
    max_rows("few_rows")
    layers = [layer_of(nested=True).to(f"cuda:{i}") for i in (0, 1)]
    with torch.no_grad(), only("few_rows"):
        for i in (1, 0, 1):
            x = torch.ones((4, 4096), device=f"cuda:{i}").half()
            output = layers[i](x)
            assert output.device == x.device
            assert torch.equal(output.cpu(), layers[0](x.to("cuda:0")).cpu())


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NOT TESTED, one GPU")
@pytest.mark.parametrize("rows", [1, 16])
def test_layers_on_each_gpu_are_planned_whichever_is_current(only, max_rows, rows):
    max_rows("few_rows")
    with torch.no_grad(), only("few_rows"):
        for gpu in (0, 1):
            layer = layer_of(nested=True, bias=True).to(f"cuda:{gpu}")
            x = torch.randn((rows, 4096), device=f"cuda:{gpu}").half()
            expected = layer(x)
            for current in (1 - gpu, gpu, 1 - gpu):
                with torch.cuda.device(current):
                    outputs = [layer(x) for _ in range(3)]
                    # None or, for a GPU that was not current once, what allocates the output there.
                    assert set(functions_of(functools.partial(layer, x))) <= {"<lambda>"}
                    outputs.append(layer(x))
                    assert torch.cuda.current_device() == current
                torch.cuda.synchronize(gpu)
                assert all(torch.equal(output, expected) for output in outputs)
