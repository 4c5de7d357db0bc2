"""The recipes of docs/drop-in.md on a CPU, with the stand-in of `on_cpu.py` for the library.
Needs torch.
"""

import re
import shutil
from contextlib import ExitStack

import on_cpu
import pytest
from needs_torch import functional, make_checkpoint, torch
from on_cpu import SMALL, stand_ins  # noqa: F401

import reprolab_nf4
from experiments.end_to_end import build
from reprolab.json_files import ROOT

TOKENS = torch.tensor([[3, 4, 5, 6]])


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Runs the recipes of the given libraries, one after the other. Returns their `model`, and a
    list that grows with each dequantization by the installed kernel: on a CPU, in the backward
    pass alone.
    """
    text = (ROOT / "docs/drop-in.md").read_text()
    recipes = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    small = make_checkpoint(tmp_path, SMALL["llama-3.3-70b"])
    folder = tmp_path / "full"  # in 16 bits, and quantized while it is loaded
    for file in small.glob("tokenizer*"):
        shutil.copy(file, folder)
    names, calls = {}, []
    monkeypatch.setitem(on_cpu.KERNELS, "branch_tree", lambda w: calls.append(w.shape) or w)
    original = reprolab_nf4.install
    with ExitStack() as installed:
        monkeypatch.setattr(
            reprolab_nf4,
            "install",
            lambda **arguments: installed.enter_context(original(**arguments)),
        )

        def follow(*libraries):
            for library in libraries:
                (code,) = (code for code in recipes if f"from {library} import" in code)
                exec(code.replace("path/to/model", str(folder)), names)
            return names["model"], calls

        yield follow


def test_a_model_of_transformers_on_all_devices(recipe):
    model, calls = recipe("transformers")
    with torch.no_grad():
        tokens = model.generate(TOKENS, max_new_tokens=2, do_sample=False)
    assert tokens.shape[1] == TOKENS.shape[1] + 2
    # float32 has no products of ours.
    assert {layer.compute_dtype for layer in build.layers(model)} <= {torch.float16, torch.bfloat16}
    layer = build.layers(model)[0]
    functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    assert calls


def test_training_with_qlora(recipe):
    pytest.importorskip("peft", reason="NOT TESTED, no peft")
    model, calls = recipe("transformers", "peft")
    model.train()
    loss = model(TOKENS, labels=TOKENS).loss
    assert not calls
    loss.backward()
    assert calls
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    assert gradients and all("lora" in name for name in gradients)
    assert all(gradient is not None for gradient in gradients.values())
