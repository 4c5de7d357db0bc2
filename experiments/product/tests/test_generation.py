"""Generations of small models with every backend, on the CPU: matmuls of ours are planned calls of
a library that multiplies on the CPU.
"""

import json
import types
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from needs_torch import bitsandbytes, torch, transformers
from on_cpu import SMALL, Cpu, put_gpu
from torch._dynamo.backends.debugging import aot_eager
from transformers.generation.configuration_utils import CompileConfig

from experiments.end_to_end import build
from experiments.end_to_end.protocol import different
from experiments.product import generation
from experiments.product.generation import (
    BACKENDS,
    DENSE,
    OWN,
    PLANNED,
    PYTHON,
    Generations,
    Models,
    Static,
    installed,
)
from reprolab.errors import InputError
from reprolab_nf4 import layers, timing_table
from reprolab_nf4.tests.cpu_as_gpu import Bench, compile_library, put_cpu_in_place_of_gpu

# A model of each, and whether its scales are nested.
FAMILIES = [("llama-3.3-70b", False), ("qwen3-32b", True), ("gemma-3-27b", False)]
FAMILIES.append(("mistral-7b", True))

TINY = replace(SMALL["llama-3.3-70b"], hidden=64, intermediate=128, head_dim=16, vocab=96, layers=1)
PROJECTIONS = 7 * TINY.layers
PROMPT, TOKENS = 4, 10
NEARLY_TIED = 0.05  # standard deviations of logits; random ones differ by 0.3


needs_whole_graphs = pytest.mark.skipif(
    torch.__version__ < (2, 8), reason="NOT TESTED: whole graphs of 4-bit layers need torch 2.8"
)


@pytest.fixture
def cpu(monkeypatch, tmp_path):
    """Arguments of install(), for layers of 64 inputs and outputs."""
    if torch.__version__ < layers.OLDEST:
        pytest.skip("NOT TESTED: planned calls need torch 2.10")
    put_cpu_in_place_of_gpu(monkeypatch.setattr)
    times = {2: {"few_rows": 1.0}, 512: {"many_rows": 1.0}}
    layer = timing_table.Layer(64, 64, "fp16", False, times)
    table = timing_table.Table("a GPU", "9.0", "made up", (layer,))
    timing_table.write(tmp_path / "t.json", table)
    return {"library": compile_library(), "table": tmp_path / "t.json"}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    build.quiet()
    torch.set_num_threads(1)
    monkeypatch.setattr(generation, "PROMPT", PROMPT)
    monkeypatch.setattr(bitsandbytes.nn.modules, "has_avx512bf16", lambda: False, raising=False)


@pytest.mark.parametrize("nested", [False, True])
def test_backends_with_equal_products_differ_only_in_speed(cpu, nested):
    models = Models(Cpu(), TINY, nested, 2, TOKENS)
    counts = Bench("cpu", None)
    cell = Generations(Cpu(), models, "dynamic", 2, TOKENS, **cpu).measure(2)
    counted = {name: len(values) for name, values in cell["tokens_per_s"].items()}
    assert counted == dict.fromkeys(BACKENDS, 2)
    assert cell["same"] is True
    called = counts.look()
    assert called["times_run"] > 2 * (TOKENS - 1) * PROJECTIONS  # planned
    assert called["times_multiplied"] > 2 * (TOKENS - 1) * PROJECTIONS  # in Python
    weights = TINY.nf4_weights
    others = 2 * (TINY.vocab * TINY.hidden + (2 * TINY.layers + 1) * TINY.hidden)  # head, norms
    assert cell["bytes"][DENSE] == 2 * weights + others
    assert cell["bytes"][OWN] == cell["bytes"][PLANNED]
    scales = 4 * weights // 64
    if not nested:
        assert cell["bytes"][OWN] == weights // 2 + scales + others
    else:
        assert weights // 2 + others < cell["bytes"][OWN] < weights // 2 + scales + others
    for backend in BACKENDS:
        step = cell["steps"][backend]
        assert step["busy_us"] > 0 and step["launches"] > PROJECTIONS, backend
        assert step["busy_us"] == pytest.approx(step["launches"])  # a launch takes 1 us here
    rates = cell["tokens_per_s"][OWN]
    assert min(rates) <= 2e6 / cell["steps"][OWN]["wall_us"] * 1.5


def with_tokens(monkeypatch, cell, changed, change):
    """Generations whose tokens of one backend are changed in place."""
    original = cell.generate

    def generate(backend, count):
        original(backend, count)
        if backend == changed:
            cell.tokens[backend] = [[*row] for row in cell.tokens[backend]]
            change(cell.tokens[backend])

    monkeypatch.setattr(cell, "generate", generate)
    return cell


def test_other_tokens_of_the_same_products_are_detected(cpu, monkeypatch):
    def change(tokens):
        tokens[0][-1] ^= 1

    models = Models(Cpu(), TINY, False, 1, TOKENS)
    cell = Generations(Cpu(), models, "dynamic", 1, TOKENS, **cpu)
    assert with_tokens(monkeypatch, cell, PYTHON, change).measure(1)["same"] is False


def test_sequences_that_differ_from_a_dynamic_cache_are_counted(cpu, monkeypatch):
    def change(tokens):
        tokens[1][3] = (tokens[1][3] + 1) % TINY.vocab

    models = Models(Cpu(), TINY, False, 2, TOKENS)
    cell = Generations(Cpu(), models, "static", 2, TOKENS, **cpu)
    assert with_tokens(monkeypatch, cell, PLANNED, change).measure(1)["different"] == 1


def compile_on_cpu(monkeypatch):
    def backend(graph, inputs):
        return aot_eager(graph, inputs)

    how = CompileConfig(backend=backend, mode="default", fullgraph=True)
    how._compile_all_devices = True
    monkeypatch.setattr(Static, "options", Static.options | {"compile_config": how})
    torch.compiler.reset()


def test_a_16_bit_model_that_does_not_fit_is_not_measured(cpu):
    needed = TINY.bytes_needed(2, PROMPT, TOKENS)
    models = Models(Cpu(needed), TINY, False, 2, TOKENS)
    cell = Generations(Cpu(), models, "dynamic", 2, TOKENS, **cpu).measure(1)
    assert set(cell["tokens_per_s"]) == {OWN, PYTHON, PLANNED}
    with pytest.raises(InputError, match=TINY.id):
        Models(Cpu(needed - 1), TINY, False, 2, TOKENS)


def test_a_run_writes_its_cells(cpu, monkeypatch, tmp_path, capsys):
    put_gpu(monkeypatch)
    monkeypatch.setattr(generation, "COPIED_BYTES", 1000)
    monkeypatch.setattr(generation, "installed", partial(installed, **cpu))
    monkeypatch.setattr(generation, "known", lambda: {TINY.id: TINY})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    arguments = ["--model", TINY.id, "--tokens", "4", "--generations", "1"]
    arguments += ["--output", str(tmp_path / "g.json"), "--sequences", "1,2", "--nested"]
    assert generation.reproduce(generation.parser().parse_args(arguments)) == 0
    content = json.loads((tmp_path / "g.json").read_text())
    assert content["gpu"] == Cpu().facts()["name"] and content["copy_gb_s"] > 0
    cells = [(x["sequences"], x["cache"], x["nested"], x["tokens"]) for x in content["sequences"]]
    assert cells == [(1, "dynamic", True, 4), (2, "dynamic", True, 4)]
    assert "2 sequences" in capsys.readouterr().out


def test_bandwidth_counts_bytes_read_and_written(monkeypatch):
    monkeypatch.setattr(generation, "COPIED_BYTES", 50_000)

    class Slow(Cpu):
        def time_us(self, run, times):
            run()
            return 100.0 * times

    assert generation.copy_gb_s(Slow()) == pytest.approx(1.0)


def loaded(folder: Path, sizes, nested: bool, device: str):
    """A model with random weights, saved in 4 bits, by from_pretrained."""
    model, config = (getattr(transformers, name) for name in sizes.classes)
    torch.manual_seed(1)
    model(config(**sizes.config)).to(generation.DTYPE).save_pretrained(folder / "16")
    how = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=generation.DTYPE,
        bnb_4bit_use_double_quant=nested,
    )
    read = partial(
        transformers.AutoModelForCausalLM.from_pretrained,
        device_map={"": device},
        dtype=generation.DTYPE,
    )
    read(folder / "16", quantization_config=how).save_pretrained(folder / "4")
    saved = json.loads((folder / "4/config.json").read_text())["quantization_config"]
    assert saved["load_in_4bit"] is True and saved["bnb_4bit_use_double_quant"] is nested
    quantized = read(folder / "4").eval()
    states = [layer.weight.quant_state for layer in build.layers(quantized)]
    assert [state.nested for state in states] == [nested] * 7 * sizes.layers
    return types.SimpleNamespace(by_backend={OWN: quantized, PLANNED: quantized})


def largest_gap(generations) -> float:
    """Between the logits of two tokens, in their standard deviations, where a sequence's tokens
    with a static cache first differ from those with a dynamic one: 0 if none does. Compiled code
    rounds otherwise, and may decide between nearly tied tokens.
    """
    static, dynamic = generations.tokens[PLANNED], generations.dynamic
    model, ids = generations.models.by_backend[OWN], generations.batch.ids
    gaps = [0.0]
    for i, j in dict(reversed(different(static, dynamic))).items():
        told = torch.tensor(dynamic[i][:j], dtype=ids.dtype, device=ids.device)
        logits = model(torch.cat([ids[i], told])[None]).logits[0, -1].float()
        gaps.append(float((logits[dynamic[i][j]] - logits[static[i][j]]) / logits.std()))
    return max(map(abs, gaps))


@needs_whole_graphs
@pytest.mark.parametrize(("family", "nested"), FAMILIES)
def test_checkpoints_give_the_same_tokens_with_a_static_cache(
    family, nested, cpu, monkeypatch, tmp_path
):
    compile_on_cpu(monkeypatch)
    sizes = replace(SMALL[family], hidden=64, intermediate=128, head_dim=32, heads=2, kv_heads=1)
    models = loaded(tmp_path, replace(sizes, vocab=96), nested, "cpu")
    counts = Bench("cpu", None)
    generations = Generations(Cpu(), models, "static", 2, TOKENS, **cpu)
    cell = generations.measure(1)
    assert cell["graphs"][OWN] == 0 and cell["graphs"][PLANNED] >= 1
    assert counts.look()["times_multiplied"] >= TOKENS * 7 * sizes.layers
    assert largest_gap(generations) < NEARLY_TIED


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT TESTED, no GPU")
@pytest.mark.parametrize(("family", "nested"), FAMILIES)
def test_checkpoints_give_the_same_tokens_on_a_gpu(family, nested, tmp_path):
    from experiments.end_to_end.gpu import Gpu

    sizes = replace(SMALL[family], hidden=512, intermediate=1024, head_dim=128)
    models = loaded(tmp_path, sizes, nested, "cuda")
    generations = Generations(Gpu(), models, "static", 4, 16)
    cell = generations.measure(1)
    assert cell["graphs"][OWN] == 0 and cell["graphs"][PLANNED] >= 1
    assert largest_gap(generations) < NEARLY_TIED
