"""Products and advice on tiny models, really computed on a CPU, with what `on_cpu.py` says in the
place of the GPU and the drop-in library. Skipped where there is no torch.
"""

import gc
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import on_cpu
import pytest
from measured_on_cpu import put_timed_weights  # noqa: F401
from needs_torch import bitsandbytes, torch
from on_cpu import CPU, SMALL, stand_ins  # noqa: F401

import reprolab_nf4
from experiments.end_to_end import build
from experiments.end_to_end.rows import Row
from reprolab_nf4 import __main__ as products
from reprolab_nf4 import checkpoint, measuring, timing_table
from reprolab_nf4.advice import Shape


@pytest.fixture
def model():
    return build.from_sizes(SMALL["qwen3-32b"], CPU)


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
    counts = products.shapes_of(str(tmp_path))
    assert list(counts.values()) == [1, 3, 1]
    assert next(iter(counts)).rows == 512


def test_a_loaded_model_is_measured_with_its_own_layers(model, timed_weights):
    text = measuring.advise(on_cpu.Cpu(), model, 3, ["streaming", "one_wrong", "nix"])
    assert text.startswith(f"{type(model).__name__}: 14 layers in NF4, ")
    assert "one_wrong: left out: 1 of " in text
    assert "nix: left out: " in text
    assert "one step at batch 3: " in text and "50 tokens each: " in text
    assert text.count("waiting for the host") == 2
    layers = {layer.weight.data_ptr() for layer in build.layers(model)}
    assert {codes.data_ptr() for weights in timed_weights for codes, _ in weights} <= layers
    assert all(len({id(codes) for codes, _ in weights}) >= 2 for weights in timed_weights)


def test_products_are_timed_in_the_type_that_layers_compute_in(model, timed_weights, monkeypatch):
    seen, own = set(), bitsandbytes.matmul_4bit
    for layer in build.layers(model)[:3]:
        layer.compute_dtype = torch.float32

    def product(A, *given, **more):
        seen.add(A.dtype)
        return own(A, *given, **more)

    monkeypatch.setattr(bitsandbytes, "matmul_4bit", product)
    text = measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"])
    assert "3 of them" in text
    assert torch.float32 in seen and len(seen) == 2
    for layer in build.layers(model):
        layer.compute_dtype = torch.float32
    layers = list(measuring.layers_of(on_cpu.Cpu(), model))
    with pytest.raises(reprolab_nf4.DropinError, match="bnb_4bit_compute_dtype"):
        measuring.tune(on_cpu.Cpu(), layers, lambda shape: timed_weights)


def test_a_step_has_a_row_for_each_sequence_and_a_prompt_50(model, timed_weights, monkeypatch):
    sizes, own = set(), measuring.times
    monkeypatch.setattr(measuring, "times", lambda *given: sizes.add(given[3]) or own(*given))
    measuring.advise(on_cpu.Cpu(), model, 3, [])
    assert sizes == {3, 150}


def test_a_sample_is_the_time_of_one_matmul():
    gpu = SimpleNamespace(time_us=lambda replay, times: 6.0 * times)
    found = measuring.in_turn(gpu, {"a way": lambda: None}, products=3)
    assert found == {"a way": pytest.approx([2.0] * measuring.SAMPLES)}


def test_a_table_has_the_median_of_the_samples(monkeypatch):
    samples = [9.0, 1.0, 2.0]
    monkeypatch.setattr(measuring, "in_turn", lambda gpu, ways, n: dict.fromkeys(ways, samples))
    gpu = SimpleNamespace(new_pool=lambda: None, capture=lambda step, pool: step)
    shape, state = Shape(64, 64, 64, False, "float16"), SimpleNamespace(dtype=torch.float16)
    found = measuring.ways(gpu, shape, [(torch.zeros(1), state)], Mock(), [], 1)
    assert found == {timing_table.OWN: 2.0, timing_table.DEQUANTIZE: 2.0}


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
    (layers,) = measuring.layers_of(on_cpu.Cpu(), wrapped).values()
    assert len(layers) == 1


@pytest.mark.parametrize("wrong", ["name", None, 5])
def test_a_value_that_is_not_a_model_is_one_line(wrong, refused):
    error = refused(measuring.layers_of, on_cpu.Cpu(), wrong)
    assert error.startswith("model: ") and error.endswith(f" not {wrong!r}")


def test_a_cache_that_holds_all_layers_is_outgrown_by_copies(model, timed_weights, monkeypatch):
    monkeypatch.setattr(measuring, "CACHES", 3)
    gpu = on_cpu.Cpu()
    gpu.l2_bytes = lambda: 30000
    measuring.advise(gpu, model, 1, ["streaming"])
    for weights in timed_weights:
        assert len({codes.data_ptr() for codes, _ in weights}) == len(weights)
        assert sum(codes.numel() for codes, _ in weights) > 3 * gpu.l2_bytes()


@pytest.mark.parametrize("batch", [0, 1.5, "2", True])
def test_a_wrong_batch_or_model_is_one_line(batch, refused):
    error = refused(reprolab_nf4.advise, torch.nn.Linear(2, 2), batch)
    assert error.startswith("batch: ") and error.endswith(f" not {batch!r}")
    assert refused(reprolab_nf4.advise, torch.nn.Linear(2, 2)).startswith("model: ")


def test_advice_compares_with_products_by_the_table(model, timed_weights, monkeypatch):
    layer, used, own = build.layers(model)[0], [], reprolab_nf4.install
    monkeypatch.setattr(reprolab_nf4, "install", lambda **k: used.append(k) or own(**k))
    weights = [(layer.weight.data, layer.weight.quant_state)] * 2
    shape, compared = Shape(128, 128, 64, 0, ""), measuring.variants(["branch_tree", "streaming"])
    sampled = measuring.times(on_cpu.Cpu(), shape, weights, 3, compared)
    assert list(sampled) == [(variant, shape) for variant in (measuring.OWN, *compared)]
    assert all(len(samples) == measuring.SAMPLES for samples in sampled.values())
    assert [tuple(given.values()) for given in used] == [
        ("branch_tree", "bitsandbytes"),
        ("streaming", "bitsandbytes"),
        ("streaming", "fastest"),
        ("streaming", "exact"),
    ]
    assert measuring.variants(["branch_tree"]) == [measuring.Variant("branch_tree")]


def test_eager_times_are_those_of_layers_under_what_is_compared(model, timed_weights, monkeypatch):
    """Before each sample, layers are called until they are planned, and the calls complete."""
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
    sampled = measuring.eager_times(gpu, shape, weights, 3, [measuring.INSTALLED])
    assert list(sampled) == [(variant, shape) for variant in (measuring.OWN, measuring.INSTALLED)]
    assert all(
        len(samples) == measuring.SAMPLES and min(samples) > 0 for samples in sampled.values()
    )
    begins = [i for i, event in enumerate(events) if event == "fastest"]
    assert len(begins) == measuring.SAMPLES == events.count("undo")
    first = ["timed", *[(3, k)] * measuring.CALLS_UNTIL_PLANNED * len(weights), "timed"]
    for i in begins:
        assert events[i + 1 : i + 1 + len(first)] == first


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_a_graph_is_captured(collects, monkeypatch):
    """If the collector destroyed an older graph then, the capture would end."""
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


def test_advice_without_recorded_times_says_how_to_measure_them(model, timed_weights, monkeypatch):
    assert measuring.NO_TIMES not in measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"])
    monkeypatch.setattr(timing_table, "recorded", lambda *gpu: None)
    assert measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"]).endswith(measuring.NO_TIMES)
