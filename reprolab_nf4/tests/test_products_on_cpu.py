"""Products and advice on tiny models, really computed on a CPU, with what `on_cpu.py` says in the
place of the GPU and the drop-in library. Skipped where there is no torch.
"""

import gc
from contextlib import contextmanager, nullcontext
from unittest.mock import Mock

import checkpoints
import on_cpu
import pytest
import stand_in_product
from needs_torch import bitsandbytes, torch
from on_cpu import CPU, SMALL, stand_ins  # noqa: F401

import reprolab_nf4
from experiments.end_to_end import build
from experiments.end_to_end.rows import Row
from reprolab_nf4 import __main__ as products
from reprolab_nf4 import checkpoint, matmul, measuring, timing_table
from reprolab_nf4.advice import Shape


@pytest.fixture
def model():
    return build.from_sizes(SMALL["qwen3-32b"], CPU)


@pytest.fixture
def asked(monkeypatch):
    """The weights whose products were timed; caches hold none of a model's layers."""
    found, own = [], measuring.times
    monkeypatch.setattr(measuring, "times", lambda *given: found.append(given[2]) or own(*given))
    monkeypatch.setattr(measuring, "SHORTEST_US", 1)
    monkeypatch.setattr(measuring, "CACHES", 0)
    return found


def test_in_a_row_of_ours_products_dequantize(model):
    """As bitsandbytes 0.47.0 does; the codes may come transposed, if the matrix is not square."""
    layer = next(one for one in build.layers(model) if one.in_features != one.out_features)
    x = torch.randn((3, 5, layer.in_features), dtype=torch.float16)
    codes, state, own = layer.weight, layer.weight.quant_state, bitsandbytes.matmul_4bit
    weight = bitsandbytes.functional.dequantize_4bit(codes, state)
    wanted = torch.nn.functional.linear(x, weight)
    with Row("streaming").in_place(), torch.no_grad():
        assert torch.equal(layer(x), wanted)
        for turned in (codes, codes.t()):
            assert torch.equal(bitsandbytes.matmul_4bit(x, turned, quant_state=state), wanted)
        bias = torch.ones(layer.out_features, dtype=x.dtype)
        biased = bitsandbytes.matmul_4bit(x, codes.t(), quant_state=state, bias=bias)
        assert torch.equal(biased, torch.nn.functional.linear(x, weight, bias))
    assert bitsandbytes.matmul_4bit is own


def test_layers_of_one_shape_count_together_the_largest_first(tmp_path, monkeypatch):
    shapes = [Shape(256, 128, 64, nested, "float16") for nested in (False, False, False, True)]
    shapes += [Shape(512, 128, 64, False, "float16")]
    monkeypatch.setattr(checkpoint, "read", lambda folder: shapes)
    found = products.shapes_of(str(tmp_path))
    assert list(found.values()) == [1, 3, 1]
    assert next(iter(found)).rows == 512


def test_a_loaded_model_is_measured_with_its_own_layers(model, asked):
    said = measuring.advise(on_cpu.Cpu(), model, 3, ["streaming", "one_wrong", "nix"])
    assert said.startswith(f"{type(model).__name__}: 14 layers in NF4, ")
    assert "one_wrong: left out: 1 of " in said
    assert "nix: left out: there is no kernel 'nix'" in said
    assert "one step at batch 3: " in said and "50 tokens each: " in said
    assert said.count("waiting for the host") == 2
    layers = {layer.weight.data_ptr() for layer in build.layers(model)}
    assert {codes.data_ptr() for weights in asked for codes, _ in weights} <= layers
    assert all(len({id(codes) for codes, _ in weights}) >= 2 for weights in asked)


def test_products_are_timed_in_the_type_that_layers_compute_in(model, asked, monkeypatch):
    seen, own = set(), bitsandbytes.matmul_4bit
    for layer in build.layers(model)[:3]:
        layer.compute_dtype = torch.float32

    def product(A, *given, **more):
        seen.add(A.dtype)
        return own(A, *given, **more)

    monkeypatch.setattr(bitsandbytes, "matmul_4bit", product)
    said = measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"])
    assert "3 of them compute in float32" in said
    assert torch.float32 in seen and len(seen) == 2
    for layer in build.layers(model):
        layer.compute_dtype = torch.float32
    layers = list(measuring.layers_of(on_cpu.Cpu(), model))
    with pytest.raises(reprolab_nf4.DropinError, match="bnb_4bit_compute_dtype"):
        measuring.tune(on_cpu.Cpu(), layers, lambda shape: asked)


def test_a_small_head_is_not_copied_until_caches_are_full():
    gpu = on_cpu.Cpu()
    gpu.l2_bytes = lambda: 50 << 20
    for rows, columns in ((2, 896), (1, 64), (8, 2048)):
        assert measuring.copies_needed(gpu, Shape(rows, columns, 64, False, "float16")) <= 1024
    large = Shape(1024, 1024, 64, False, "float16")
    assert measuring.copies_needed(gpu, large) * large.rows * large.columns // 2 > 3 * (50 << 20)


def test_only_layers_that_multiply_count_and_once_in_what_wraps_them(model):
    class Wrapper(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.base_layer = layer

        @property
        def weight(self):
            return self.base_layer.weight

    first = build.layers(model)[0]
    embedding = torch.nn.Module()
    embedding.weight = first.weight
    wrapped = torch.nn.ModuleList([Wrapper(first), embedding])
    (found,) = measuring.layers_of(on_cpu.Cpu(), wrapped).values()
    assert len(found) == 1


@pytest.mark.parametrize("wrong", ["name", None, 5])
def test_what_is_no_model_is_one_line(wrong, refused):
    said = f"model: give a loaded model, a torch.nn.Module, not {wrong!r}"
    assert refused(measuring.layers_of, on_cpu.Cpu(), wrong) == said


def test_a_cache_that_holds_all_layers_is_outgrown_by_copies(model, asked, monkeypatch):
    monkeypatch.setattr(measuring, "CACHES", 3)
    gpu = on_cpu.Cpu()
    gpu.l2_bytes = lambda: 30000
    measuring.advise(gpu, model, 1, ["streaming"])
    for weights in asked:
        assert len({codes.data_ptr() for codes, _ in weights}) == len(weights)
        assert sum(codes.numel() for codes, _ in weights) > 3 * gpu.l2_bytes()


@pytest.mark.parametrize("batch", [0, 1.5, "2", True])
def test_a_wrong_batch_or_model_is_one_line(batch, refused):
    wanted = f"batch: give a number of sequences, 1 at least, not {batch!r}"
    assert refused(reprolab_nf4.advise, torch.nn.Linear(2, 2), batch) == wanted
    said = refused(reprolab_nf4.advise, torch.nn.Linear(2, 2))
    assert said.startswith("model: has no layers in NF4 on a GPU")


def test_advice_compares_with_products_by_the_table(model, asked, monkeypatch):
    layer, used, own = build.layers(model)[0], [], reprolab_nf4.install
    monkeypatch.setattr(reprolab_nf4, "install", lambda **k: used.append(k) or own(**k))
    weights = [(layer.weight.data, layer.weight.quant_state)] * 2
    shape, compared = Shape(128, 128, 64, 0, ""), measuring.variants(["branch_tree", "streaming"])
    found = measuring.times(on_cpu.Cpu(), shape, weights, 3, compared)
    assert list(found) == [(variant, shape) for variant in (measuring.OWN, *compared)]
    assert all(len(samples) == measuring.SAMPLES for samples in found.values())
    assert [tuple(given.values()) for given in used] == [
        ("branch_tree", "bitsandbytes"),
        ("streaming", "bitsandbytes"),
        ("streaming", "fastest"),
        ("streaming", "exact"),
    ]
    assert measuring.variants(["branch_tree"]) == [measuring.Variant("branch_tree")]


def test_eager_times_are_those_of_layers_under_what_is_compared(model, asked, monkeypatch):
    """Each sample follows the calls after which a layer is planned, and waits for their end."""
    layer, events, gpu = build.layers(model)[0], [], on_cpu.Cpu()
    weights = [(layer.weight.data, layer.weight.quant_state)] * 2
    n, k = layer.weight.quant_state.shape
    own, time_us, forward = reprolab_nf4.install, gpu.time_us, bitsandbytes.nn.Linear4bit.forward

    @contextmanager
    def install(**given):
        events.append(given["products"])
        with own(**given):
            yield
        events.append("undo")

    def seen(self, x):
        events.append(tuple(x.shape))
        return forward(self, x)

    monkeypatch.setattr(reprolab_nf4, "install", install)
    monkeypatch.setattr(bitsandbytes.nn.Linear4bit, "forward", seen)
    gpu.time_us = lambda run, times: events.append("timed") or time_us(run, times)
    shape = Shape(n, k, 64, False, "float16")
    found = measuring.eager_times(gpu, shape, weights, 3, [measuring.INSTALLED])
    assert list(found) == [(variant, shape) for variant in (measuring.OWN, measuring.INSTALLED)]
    assert all(len(samples) == measuring.SAMPLES and min(samples) > 0 for samples in found.values())
    begins = [i for i, event in enumerate(events) if event == "fastest"]
    assert len(begins) == measuring.SAMPLES == events.count("undo")
    first = ["timed", *[(3, k)] * measuring.CALLS_UNTIL_PLANNED * len(weights), "timed"]
    for i in begins:
        assert events[i + 1 : i + 1 + len(first)] == first


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_a_graph_is_captured(collects, monkeypatch):
    """An older graph that the collector destroys then would end the capture."""
    is_captured, destroyed = [], []

    class Older:
        def __init__(self):
            self.itself = self

        def __del__(self):
            destroyed.append(bool(is_captured))

    @contextmanager
    def captured(graph, pool):
        is_captured.append(graph)
        yield
        is_captured.clear()

    cuda = Mock(graph=captured, stream=lambda stream: nullcontext())
    monkeypatch.setattr(torch, "cuda", cuda)
    before, thresholds = gc.isenabled(), gc.get_threshold()
    try:
        (gc.enable if collects else gc.disable)()
        gc.set_threshold(1)
        measuring.Gpu().capture(lambda: [Older() for _ in range(100)], None)
        assert gc.isenabled() is collects
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if before else gc.disable)()
    assert True not in destroyed and len(destroyed) >= 50 * collects


def test_a_gpu_without_recorded_times_is_told_how_to_have_some(model, asked, monkeypatch):
    assert measuring.NO_TIMES not in measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"])
    monkeypatch.setattr(timing_table, "recorded", lambda *gpu: None)
    assert measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"]).endswith(measuring.NO_TIMES)


@pytest.fixture
def command(monkeypatch, asked):
    """Calls what `make advise` and `make tune` do: its exit status."""
    monkeypatch.setattr(measuring, "Gpu", on_cpu.Cpu)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(measuring, "ROWS", (1, 16))
    monkeypatch.setattr(measuring, "SAMPLES", 2)
    monkeypatch.setattr(matmul, "capability", lambda device: "9.0")
    # Of the library's kernels the CPU has none.
    monkeypatch.setattr(matmul, "runs", lambda *given: False)
    return lambda *given: products.main(list(map(str, given)))


@pytest.mark.parametrize(
    "words", [["tune"], ["advise", "x", "--a\u202e"], ["nothing\n"], ["tune", "--output=--"], []]
)
def test_wrong_usage_is_one_line(command, words, capsys):
    assert command(*words) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("error: reprolab-nf4") and line.isprintable() and not said.out


@pytest.fixture
def folder(tmp_path):
    return checkpoints.make(tmp_path, SMALL["llama-3.3-70b"])


def test_a_checkpoint_is_tuned_or_what_is_recorded(command, folder, tmp_path, capsys, monkeypatch):
    output = f"--output={tmp_path}/table.json"
    assert command("tune", output, f"--model={folder}") == 0
    table = timing_table.read(tmp_path / "table.json")
    assert (table.gpu, table.compute_capability) == ("a CPU", "9.0")
    layers = {(x.n, x.k) for x in table.layers}
    assert layers == {(x.rows, x.columns) for x in checkpoint.read(folder)}
    for layer in table.layers:
        assert [*layer.us] == [1, 16]
        assert all([*us] == ["bitsandbytes", "dequantize"] for us in layer.us.values())
        assert all(time > 0 for us in layer.us.values() for time in us.values())
    assert f"install(table='{tmp_path}/table.json')" in capsys.readouterr().out
    # Without a checkpoint, what the tables have that come with the package, each once.
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path / "tables")
    formats = [(type, nested) for type in ("fp16", "bf16") for nested in (False, True)]
    recorded = [timing_table.Layer(64, 128, *how, {1: {"simple": 1.0}}) for how in formats]
    larger = timing_table.Layer(128, 128, "fp16", False, {1: {"simple": 1.0}})
    for name, layers in (("a", recorded), ("b", [*recorded[:2], larger])):
        table = timing_table.Table(name, "9.0", "made up", tuple(layers))
        timing_table.write(tmp_path / f"tables/{name}.json", table)
    assert command("tune", output) == 0
    tuned = timing_table.read(tmp_path / "table.json").layers
    assert (tuned[0].n, tuned[0].k) == (128, 128)
    assert [(x.n, x.k) for x in tuned[1:]] == [(64, 128)] * 4
    assert {(x.type, x.nested) for x in tuned[1:]} == set(formats)


@pytest.fixture
def kernel(monkeypatch):
    """Gives the library one kernel, of which `change` changes the weights that it multiplies by."""

    def put(change):
        monkeypatch.setattr(matmul, "runs", lambda *given: True)
        monkeypatch.setattr(on_cpu.LIBRARY, "products", lambda: ["few_rows"])

        def multiply(library, kernel, A, B, n, absmax, blocksize, bias, *more):
            weight = stand_in_product.weights(A, B, n, absmax, blocksize, *more[:4])
            return torch.nn.functional.linear(A, change(weight), bias)

        monkeypatch.setattr(matmul, "multiply", multiply)

    return put


SHAPES = [
    Shape(128, 512, 64, nested, output)
    for nested in (False, True)
    for output in ("float16", "bfloat16")
]


def test_a_right_kernel_is_tuned(command, kernel):
    kernel(lambda weight: weight)
    table = measuring.tune(on_cpu.Cpu(), SHAPES, lambda shape: products.copies(on_cpu.Cpu(), shape))
    assert "left out" not in table.source
    assert all("few_rows" in us for layer in table.layers for us in layer.us.values())


def test_a_program_that_was_exported_takes_no_way_that_tune_tried(command, kernel, monkeypatch):
    kernel(lambda weight: weight)
    monkeypatch.setattr(matmul, "_dispatch", None)
    measuring.tune(on_cpu.Cpu(), SHAPES[:1], lambda shape: products.copies(on_cpu.Cpu(), shape))
    codes, state = products.copies(on_cpu.Cpu(), SHAPES[0])[0]
    given = (torch.ones(1, 512).half(), codes, 128, state.absmax, state.code, 64, torch.float16)
    with pytest.raises(reprolab_nf4.DropinError, match="not installed"):
        torch.ops.reprolab_nf4.matmul_4bit(*given)


def one_step_dropped(weight):
    return torch.cat([weight[:, :448], torch.zeros_like(weight[:, 448:])], 1)


def one_scale_halved(weight):
    weight = weight.clone()
    weight[3, 64:128] /= 2
    return weight


def wrong_in_fp16(weight):
    return one_scale_halved(weight) if weight.dtype == torch.float16 else weight


def test_a_kernel_that_is_wrong_for_a_later_layer_keeps_no_time(command, kernel):
    kernel(wrong_in_fp16)
    first, second = SHAPES[1], SHAPES[0]
    gpu = on_cpu.Cpu()
    table = measuring.tune(gpu, [first, second], lambda shape: products.copies(gpu, shape))
    assert "; left out: few_rows: " in table.source
    assert not any("few_rows" in us for layer in table.layers for us in layer.us.values())


@pytest.mark.parametrize("change", [one_step_dropped, one_scale_halved])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_kernel_is_left_out(shape, change, command, kernel):
    kernel(change)
    table = measuring.tune(
        on_cpu.Cpu(), [shape], lambda shape: products.copies(on_cpu.Cpu(), shape)
    )
    assert "; left out: few_rows: 128 x 512 weights: " in table.source
    assert not any("few_rows" in us for layer in table.layers for us in layer.us.values())


def test_advice_for_a_checkpoint(command, folder, capsys):
    assert command("advise", "--batch=3", "--", folder) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{folder.name}: 14 layers in NF4, ")
    assert "one step at batch 3: " in said.out
    assert said.err.startswith("0 of 4 shapes, about 1 min left: products")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["tune", "--output=x", "--model=none"], "MODEL: there is no folder 'none'; give a "),
        (["advise", "none"], "MODEL: there is no folder 'none'; give a checkpoint's, downloaded "),
        (["advise", "--batch=x", "FOLDER"], "BATCH: give one number, not 'x'"),
        (["advise", "--batch=-1", "FOLDER"], "BATCH: give one number, not '-1'"),
        (["advise", "--batch=0", "FOLDER"], "BATCH: 1 at least"),
    ],
)
def test_what_cannot_be_measured_is_one_line(command, folder, capsys, given, line):
    assert command(*(folder if word == "FOLDER" else word for word in given)) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {line}") and said.count("\n") == 1


def test_what_does_not_fit_is_one_line(command, folder, capsys, monkeypatch):
    def exhaust(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nMore of it")

    def last_line(*given):
        assert command(*given) == 2
        return capsys.readouterr().err.splitlines()[-1]

    advise = ("advise", "--batch=64", folder)
    smaller = "error: out of memory: batch 64 does not fit on this GPU; give a smaller BATCH"
    with monkeypatch.context() as patch:
        patch.setattr(products, "copies", exhaust)
        assert last_line(*advise) == smaller
        assert last_line("tune", "--output=x") == "error: out of memory: free some of this GPU's"
    # A kernel is not left out for it.
    monkeypatch.setitem(on_cpu.KERNELS, "streaming", exhaust)
    assert last_line(*advise) == smaller


def test_advice_without_the_library(command, folder, capsys, monkeypatch):
    def refuse():
        raise reprolab_nf4.DropinError("none.so: no such file; run make dropin")

    monkeypatch.setattr(reprolab_nf4, "install", refuse)
    assert command("advise", folder) == 2
    assert capsys.readouterr().err == "error: none.so: no such file; run make dropin\n"
