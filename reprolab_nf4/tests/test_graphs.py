"""The operator of PyTorch: graphs of torch.compile, programs of torch.export, a static cache."""

import subprocess
import sys
import types
from pathlib import Path

import pytest
from cpu_as_gpu import K, N, bitsandbytes, close, outcome, stance, torch

from reprolab_nf4 import generate, matmul
from reprolab_nf4.timing_table import BITSANDBYTES, DEQUANTIZE

PRODUCTS = ("fastest", "exact", "dequantize", "bitsandbytes")
BACKENDS = {
    8: {"few_rows": 1.0, "few_rows_exact": 2.0},
    16: {BITSANDBYTES: 1.0, DEQUANTIZE: 2.0},
    32: {DEQUANTIZE: 1.0},
    64: {"many_rows": 1.0},
}
needs_whole_graphs = pytest.mark.skipif(
    torch.__version__ < generate.WHOLE_GRAPHS,
    reason=f"NOT TESTED, torch {torch.__version__}: whole graphs of 4-bit layers need 2.8",
)


@pytest.fixture(autouse=True)
def compiling(bench):
    torch.compiler.reset()
    with stance("default"):
        yield


@needs_whole_graphs
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("rows", [(3,), (3, 20, 40, 16, 600)])
@torch.no_grad()
def test_compiled_layers_are_whole_graphs_of_the_same_backends(nested, rows, bench):
    one = bench.layer(nested, bias=True)
    model = torch.nn.Sequential(one, torch.nn.Identity())
    with bench.install(backends=BACKENDS):
        compiled = torch.compile(
            model, fullgraph=True, backend="aot_eager", dynamic=len(rows) > 1 or None
        )
        for m in rows:
            x = bench.inputs(m, K)
            product = bitsandbytes.matmul_4bit(
                x, one.weight.t(), one.weight.quant_state, bias=one.bias
            )
            eager = bench.look()
            assert torch.equal(compiled(x), product)
            assert set(bench.look()) - {"runs_of_settled_weights"} == set(eager) - {
                "runs_of_settled_weights"
            }


@needs_whole_graphs
@torch.no_grad()
def test_a_layer_compiled_by_itself_and_in_training_mode(bench):
    one, x = bench.layer(), bench.inputs()
    with bench.install():
        expected = one(x)
        one.compile(backend="aot_eager", fullgraph=True)
        assert torch.equal(one(x), expected)
    two = bench.layer()
    alone = two.train()(x)
    with bench.install():
        bench.look()
        close(torch.compile(two, backend="aot_eager")(x), alone)


class ByCodes(torch.nn.Module):
    """A layer whose codes are a buffer: torch.export without strict=True fails with Params4bit."""

    def __init__(self, layer):
        super().__init__()
        self.register_buffer("codes", layer.weight.detach().as_subclass(torch.Tensor))
        self.state, self.bias = layer.weight.quant_state, layer.bias

    def forward(self, x):
        return bitsandbytes.matmul_4bit(x, self.codes.t(), self.state, bias=self.bias)


RUN = """
import sys, torch
sys.path[:0] = {path!r}
import cpu_as_gpu
from contextlib import nullcontext
from pathlib import Path
if {device!r} == "cpu":
    cpu_as_gpu.put_cpu_in_place_of_gpu(setattr)
bench, folder = cpu_as_gpu.Bench({device!r}, Path({folder!r}), {capability!r}), Path({folder!r})
for name in {names!r}:
    program = torch.export.load(folder / (name + ".pt2")).module()
    x, expected = torch.load(folder / (name + ".pt"))
    products = name.split()[0]
    with torch.no_grad(), cpu_as_gpu.stance("force_eager"):
        with bench.install(products) if {installs!r} else nullcontext():
            given = cpu_as_gpu.outcome(program, x)
    if isinstance(given, tuple):
        print(name, given[1])
    else:
        cpu_as_gpu.close(given, expected)
        print(name, "right")
"""


@needs_whole_graphs
@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_exported_programs_run_or_say_why_not(bench, tmp_path):
    """Saved, loaded and run: here, and in a process with install() and in one without."""
    names = []
    for products in PRODUCTS:
        for nested in (False, True):
            one, x, name = bench.layer(nested, bias=True), bench.inputs(), f"{products} {nested}"
            expected = one(x)
            with bench.install(products):
                program = torch.export.export(ByCodes(one).eval(), (x,))
                torch.export.save(program, tmp_path / f"{name}.pt2")
                loaded = torch.export.load(tmp_path / f"{name}.pt2").module()
                for module in (program.module(), loaded, loaded):
                    close(module(x), expected)
            close(outcome(loaded, x), expected)  # by bitsandbytes' own after undo()
            torch.save((x, expected), tmp_path / f"{name}.pt")
            names.append(name)
    path = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    for installs in (True, False):
        code = RUN.format(
            path=path,
            device=bench.device,
            capability=bench._capability,
            folder=str(tmp_path),
            names=names,
            installs=installs,
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-1000:]
        for line in done.stdout.splitlines():
            is_ours = line.split()[0] in ("fastest", "exact") and not installs
            assert line.endswith(" right") or (is_ours and "reprolab_nf4" in line), line
        assert len(done.stdout.splitlines()) == len(names)


@torch.no_grad()
def test_the_operator_refuses_tensors_of_two_devices(bench):
    """As a program that was moved only in part has them."""
    one, x = bench.layer(), bench.inputs()
    with bench.install():
        state = one.weight.quant_state
        given = (x, one.weight.data.t(), N, state.absmax.to("meta"), state.code, 64, state.dtype)
        assert "move them" in outcome(matmul.operator._init_fn, *given)[1]


@torch.no_grad()
def test_an_operator_before_an_install_is_an_error(bench, monkeypatch):
    monkeypatch.setattr(matmul, "_dispatch", None)
    one, x = bench.layer(), bench.inputs()
    state = one.weight.quant_state
    given = (x, one.weight.data.t(), N, state.absmax, state.code, 64, state.dtype)
    assert "install()" in outcome(matmul.operator, *given)[1]


@torch.no_grad()
def test_the_operators_schema_for_the_compiler(bench):
    one, x = bench.layer(nested=True), bench.inputs()
    state = one.weight.quant_state
    with bench.install():
        given = (x, one.weight.data.t(), N, state.absmax, state.code, 64, state.dtype, None)
        given += (state.state2.absmax, state.state2.code, state.offset, state.state2.blocksize)
        torch.library.opcheck(matmul.operator, given)


SIZES = {"hidden_size": N, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 64}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
TOKENS = torch.tensor([[3, 4, 5, 6], [7, 8, 9, 10]])


@needs_whole_graphs
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("family", ["Llama", "Qwen3", "Gemma2"])
def test_a_decoding_step_is_one_graph_with_the_same_tokens(
    family, nested, bench, tmp_path, monkeypatch
):
    transformers = pytest.importorskip("transformers", reason="NOT TESTED, no transformers")
    from torch._dynamo.backends.debugging import aot_eager
    from transformers.generation.configuration_utils import CompileConfig

    if nested and family != "Llama":
        pytest.skip("one family has both")
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
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=how, device_map={"": bench.device}, dtype=torch.float16
    )
    graphs = []

    def backend(graph, inputs):  # a function: generate() deep-copies other objects
        graphs.append(graph)
        return aot_eager(graph, inputs)

    def tokens(**given):
        given |= {"cache_implementation": "static", "max_new_tokens": 6, "do_sample": False}
        return model.generate(TOKENS.to(model.device), **given)

    compiles = CompileConfig(backend=backend, mode="default", fullgraph=True)
    compiles._compile_all_devices = True
    tokens(compile_config=compiles)
    assert not graphs  # as transformers without install()
    with bench.install(backends={2: {"few_rows": 1.0}, 64: {"many_rows": 1.0}}):
        expected = tokens(disable_compile=True)
        generated = tokens(compile_config=compiles)
    assert graphs and torch.equal(generated, expected)


def test_a_transformers_that_cannot_be_imported_is_not_needed(bench, monkeypatch):
    def import_module(name):
        raise ValueError("numpy.dtype size changed, may indicate binary incompatibility")

    monkeypatch.setattr(generate, "importlib", types.SimpleNamespace(import_module=import_module))
    assert generate.replaced() == []
