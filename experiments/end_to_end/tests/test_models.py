"""Models that are built from their sizes, on a CPU: shapes, types of weights, tokens of a step with
a static cache; and their weights by the reference. Needs torch.
"""

import json
import re
import shutil
from contextlib import ExitStack

import on_cpu
import pytest
from needs_torch import bitsandbytes, make_checkpoint, torch, transformers
from on_cpu import CPU, FAMILIES, REAL, SMALL, stand_ins  # noqa: F401
from safetensors import torch as safetensors

import reprolab_nf4
from experiments.end_to_end import build, generate, reference
from experiments.end_to_end.rows import Row
from reprolab.errors import InputError
from reprolab.json_files import ROOT

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
    assert torch.nn.Linear is build.LINEAR and len(sizes_seen) == MATRICES
    assert model.lm_head.weight.dtype == torch.float16
    assert model.lm_head.weight is not model.get_input_embeddings().weight


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


def test_every_bit_of_the_reference_is_bitsandbytes_own():
    """On the golden vectors, which it made on a GPU."""
    content = (ROOT / "tests/golden/golden_seed1.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    cases, tensors = json.loads(header["__metadata__"]["index"]), safetensors.load(content)
    for case in cases:
        prefix = f"{case['name']}.weight."
        stored = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        state = bitsandbytes.functional.QuantState.from_dict(stored, CPU)
        codes, wanted = (tensors[f"{case['name']}.{name}"] for name in ("weight", "dequantized"))
        bits = reference.dequantized(codes, state)
        assert torch.equal(bits, wanted.view(torch.int16).flatten()), case
        with pytest.raises(ValueError, match="codes"):
            reference.dequantized(codes[1:], state)
    kinds = {(case["dtype"], case["nested"]) for case in cases}
    assert kinds == {(dtype, nested) for dtype in ("float16", "bfloat16") for nested in (0, 1)}


def test_training_as_the_documents_show_it(tmp_path, monkeypatch):
    """The recipes of docs/drop-in.md: a dequantization by the installed kernel is of the backward
    pass alone, on a CPU.
    """
    pytest.importorskip("peft", reason="NOT TESTED, no peft")
    text, calls, names = (ROOT / "docs/drop-in.md").read_text(), [], {}
    recipes = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    small = make_checkpoint(tmp_path, SMALL["llama-3.3-70b"])
    for file in small.glob("tokenizer*"):
        shutil.copy(file, tmp_path / "full")  # in 16 bits, and quantized while it is loaded
    monkeypatch.setitem(on_cpu.KERNELS, "branch_tree", lambda w: calls.append(w.shape) or w)
    original = reprolab_nf4.install
    with ExitStack() as stack:
        install = lambda **given: stack.enter_context(original(**given))  # noqa: E731
        monkeypatch.setattr(reprolab_nf4, "install", install)
        for library in ("transformers", "peft"):
            (code,) = (code for code in recipes if f"from {library} import" in code)
            code = code.replace('"auto"', '"cpu"')  # which would be a GPU where there is one
            exec(code.replace("path/to/model", str(tmp_path / "full")), names)
        model, tokens = names["model"], torch.tensor([[3, 4, 5, 6]])
        model.train()
        loss = model(tokens, labels=tokens).loss
        assert not calls
        loss.backward()
    assert calls
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    assert gradients and all("lora" in name for name in gradients)
    assert all(gradient is not None for gradient in gradients.values())
