"""The operator of PyTorch: graphs of torch.compile, programs of torch.export, a static cache."""

import subprocess
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import cpu_as_gpu
import pytest
from cpu_as_gpu import K, N, bitsandbytes, close, outcome, stance, torch

from reprolab_nf4 import installation, matmul
from reprolab_nf4.timing_table import BITSANDBYTES, DEQUANTIZE

PRODUCTS = ("fastest", "exact", "dequantize", "bitsandbytes")
BACKENDS = {
    8: {"few_rows": 1.0, "few_rows_exact": 2.0},
    16: {BITSANDBYTES: 1.0, DEQUANTIZE: 2.0},
    32: {DEQUANTIZE: 1.0},
    64: {"many_rows": 1.0},
}
needs_whole_graphs = pytest.mark.skipif(
    torch.__version__ < installation.WHOLE_GRAPHS,
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


def layer_of(bench, nested):
    """The same layer and input in every process."""
    torch.manual_seed(1)
    return bench.layer(nested, bias=True), bench.inputs()


def programs(role, device, capability, folder):
    """In a process of its own, which an illegal access on a GPU ends: exports a layer and saves the
    program, or loads it; runs it, with install() unless the role is "alone"; prints what comes out.
    """
    if device == "cpu":
        cpu_as_gpu.put_cpu_in_place_of_gpu(setattr)
    bench, exports = cpu_as_gpu.Bench(device, Path(folder), capability), role == "export"
    for products in PRODUCTS:
        for nested, strict in ((False, True), (True, True), (True, False)):
            name = f"{products}, nested {nested}, strict {strict}"
            one, x = layer_of(bench, nested)
            expected, file = one(x), Path(folder) / f"{name}.pt2"
            with nullcontext() if role == "alone" else bench.install(products):
                if exports:
                    module = torch.nn.Sequential(one) if strict else ByCodes(one)
                    with stance("default"):
                        program = torch.export.export(module.eval(), (x,), strict=strict)
                    torch.export.save(program, file)
                runs = [torch.export.load(file).module()]
                runs += [program.module()] if exports else []
                found = [outcome(run, x) for run in runs * 2]
            found += [outcome(runs[0], x)] * exports  # by bitsandbytes' own after undo()
            for given in found:
                close(given, given if isinstance(given, tuple) else expected)
            print(f"{name}:", *{x[1] if isinstance(x, tuple) else "right" for x in found})


@needs_whole_graphs
def test_exported_programs_run_or_say_why_not(bench, tmp_path):
    """Saved, loaded and run: here, and in a process with install() and in one without."""
    for role in ("export", "installed", "alone"):
        given = (role, bench.device, bench._capability, str(tmp_path))
        code = f"import torch, test_graphs\nwith torch.no_grad(): test_graphs.programs{given!r}"
        path = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
        code = f"import sys; sys.path[:0] = {path!r}; {code}"
        command = [sys.executable, "-W", "ignore", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{role}: {done.stdout}{done.stderr[-1000:]}"
        lines = [line for line in done.stdout.splitlines() if line.split(",")[0] in PRODUCTS]
        for line in lines:
            is_ours = line.split(",")[0] in ("fastest", "exact") and role == "alone"
            assert line.endswith("install() before the program runs" if is_ours else " right"), line
        assert len(lines) == 3 * len(PRODUCTS)


@torch.no_grad()
def test_the_operator_refuses_tensors_of_two_devices(bench):
    """As a program that was moved only in part has them."""
    one, x = bench.layer(), bench.inputs()
    with bench.install():
        state = one.weight.quant_state
        given = (x, one.weight.data.t(), N, state.absmax.to("meta"), state.code, 64, state.dtype)
        assert "move them" in outcome(matmul.operator._init_fn, *given)[1]


@torch.no_grad()
def test_the_operators_schema_for_the_compiler(bench):
    one, x = bench.layer(nested=True), bench.inputs()
    state = one.weight.quant_state
    with bench.install():
        given = (x, one.weight.data.t(), N, state.absmax, state.code, 64, state.dtype, None)
        given += (state.state2.absmax, state.state2.code, state.offset, state.state2.blocksize)
        torch.library.opcheck(matmul.operator, given)


def test_a_transformers_that_cannot_be_imported_is_not_needed(bench, monkeypatch):
    def import_module(name):
        raise ValueError("numpy.dtype size changed, may indicate binary incompatibility")

    monkeypatch.setattr(
        installation, "importlib", types.SimpleNamespace(import_module=import_module)
    )
    assert installation.compiling_generate() == []
