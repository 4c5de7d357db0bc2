"""Models that are built from their sizes, on a CPU: shapes, types of weights, and tokens of a step
with a static cache. Needs torch.
"""

import on_cpu
import pytest
from needs_torch import torch, transformers
from on_cpu import CPU, FAMILIES, REAL, SMALL, stand_ins  # noqa: F401

from experiments.end_to_end import build, generate
from experiments.end_to_end.rows import Row
from reprolab.errors import InputError

MATRICES, TOKENS = 14, 10


@pytest.mark.parametrize("name", REAL)
def test_the_real_models_have_the_shapes_of_models_json(name):
    """On the device meta, which needs no memory for the whole model."""
    real = REAL[name]
    model_class, config = (getattr(transformers, n) for n in real.classes)
    with torch.device("meta"):
        model = model_class(config(**real.config))
    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    shapes = [tuple(m.weight.shape) for m in layers if m is not model.lm_head]
    assert sum(a * b for a, b in shapes) == real.nf4_weights
    assert sorted(shapes) == sorted([*real.matrices()] * real.layers)
    assert model.lm_head.weight.shape == (real.vocab, real.hidden)
    assert not any(m.bias is not None for m in layers)


def test_no_layer_but_the_head_ever_has_fp16_weights(monkeypatch):
    sizes_seen = []
    original = build.quantized

    def quantized(layer, *args):
        assert layer.weight.is_meta
        sizes_seen.append(tuple(layer.weight.shape))
        return original(layer, *args)

    monkeypatch.setattr(build, "quantized", quantized)
    model = build.from_sizes(SMALL["llama-3.3-70b"], CPU)
    assert torch.nn.Linear is build.LINEAR
    assert len(sizes_seen) == MATRICES
    assert model.lm_head.weight.dtype == torch.float16
    assert model.lm_head.weight is not model.get_input_embeddings().weight
    again = build.from_sizes(SMALL["llama-3.3-70b"], CPU)
    for a, b in zip(build.layers(model), build.layers(again), strict=True):
        assert torch.equal(a.weight, b.weight)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_static_step_gives_the_tokens_that_transformers_generates(name):
    gpu, model = on_cpu.Cpu(), build.from_sizes(SMALL[name], CPU)
    batch = generate.batch_of([[5, 6, 7], [8] * 11, [9, 10]], TOKENS, CPU)
    row, graph = Row("streaming"), generate.Graph(model, batch, gpu)
    graph.prepare(row)
    eager = generate.Eager(model, batch, gpu).run(row, TOKENS)
    assert graph.run(row, TOKENS).tokens == eager.tokens
    # A second run does not depend on the first.
    few = graph.run(row, 4)
    assert few.tokens == [row[:4] for row in eager.tokens]
    assert few.wall_us > (TOKENS - 1) * few.step_us
    assert len({token for row in eager.tokens for token in row}) > 6  # not one token over and over


def test_prompts_longer_than_a_window_are_refused():
    model = build.from_sizes(SMALL["gemma-3-27b"], CPU)
    batch = generate.batch_of([[5] * 1020], TOKENS, CPU)
    with pytest.raises(InputError, match=r"10\d\d tokens are more than the model's window"):
        generate.Graph(model, batch, on_cpu.Cpu())
