"""A static cache of transformers' generate(), compiled for a small model in NF4 on the CPU."""

import types
from pathlib import Path

import pytest
import stand_in_product
from layers_on_cpu import needs_whole_graphs
from needs_torch import bitsandbytes, torch, transformers
from torch._dynamo.backends.debugging import aot_eager
from transformers.generation.configuration_utils import CompileConfig

from reprolab_nf4 import generate, layers, matmul
from reprolab_nf4.timing_table import Layer, Table

SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 64}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
TIMES = {2: {"few_rows": 1.0}, 64: {"many_rows": 1.0}}
TOKENS = torch.tensor([[3, 4, 5, 6], [7, 8, 9, 10]])


@pytest.fixture(params=[("Llama", False), ("Llama", True), ("Qwen3", False), ("Gemma2", True)])
def model(request, tmp_path, monkeypatch):
    """A model of a family, with random weights, quantized while it is loaded, with plain or nested
    scales.
    """
    family, nested = request.param
    # The layout of codes for such CPUs is left to bitsandbytes.
    monkeypatch.setattr(bitsandbytes.nn.modules, "has_avx512bf16", lambda: False, raising=False)
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(**SIZES)
    getattr(transformers, f"{family}ForCausalLM")(config).half().save_pretrained(tmp_path)
    how = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float16,
        bnb_4bit_use_double_quant=nested,
    )
    return transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=how, device_map={"": "cpu"}, dtype=torch.float16
    )


@pytest.fixture
def called(monkeypatch):
    """The rows of products by few_rows and many_rows, which PyTorch computes here."""
    calls = []

    def multiply(library, kernel, A, B, n, absmax, blocksize, bias, *more):
        calls.append((kernel, A.numel() // A.shape[-1]))
        weight = stand_in_product.weights(A, B, n, absmax, blocksize, *more[:4])
        return torch.nn.functional.linear(A, weight, bias)

    monkeypatch.setattr(matmul, "multiply", multiply)
    monkeypatch.setattr(matmul, "capability", lambda device: "9.0")
    monkeypatch.setattr(matmul, "runs", lambda *given: True)
    monkeypatch.setattr(layers, "EXTENSION", Path("none"))  # no call is planned
    table = Table("a GPU", "9.0", "made up", (Layer(64, 64, "fp16", False, TIMES),))
    ways = matmul.Ways(None, "fastest", table)
    for owner, name, ours in ways.replaced(bitsandbytes):
        monkeypatch.setattr(owner, name, ours)
    torch.compiler.reset()
    return calls


def tokens(model, compiled):
    """Tokens with a static cache; on a CPU, generate() compiles only on request."""
    graphs = []

    def backend(graph, inputs):  # a function: generate() deep-copies other objects
        graphs.append(graph)
        return aot_eager(graph, inputs)

    how = CompileConfig(backend=backend, mode="default", fullgraph=True)
    how._compile_all_devices = True
    given = {"compile_config": how} if compiled else {"disable_compile": True}
    given |= {"cache_implementation": "static", "max_new_tokens": 6, "do_sample": False}
    return model.generate(TOKENS, **given), len(graphs)


def test_a_transformers_that_cannot_be_imported_is_not_needed(monkeypatch):
    def import_module(name):
        raise ValueError("numpy.dtype size changed, may indicate binary incompatibility")

    monkeypatch.setattr(generate, "importlib", types.SimpleNamespace(import_module=import_module))
    assert generate.replaced() == []


@needs_whole_graphs
def test_a_step_is_one_graph_with_the_same_tokens(model, called, monkeypatch):
    expected, _ = tokens(model, compiled=False)
    in_steps = [way for way in called if way == ("few_rows", 2)]
    assert in_steps and ("many_rows", 8) in called
    assert tokens(model, compiled=True)[1] == 0  # as transformers without install()
    for owner, name, ours in generate.replaced():
        monkeypatch.setattr(owner, name, ours)
    called.clear()
    generated, graphs = tokens(model, compiled=True)
    assert graphs >= 1
    assert torch.equal(generated, expected)
    assert [way for way in called if way == ("few_rows", 2)] == in_steps
