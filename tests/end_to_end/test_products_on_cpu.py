"""Products and advice on tiny models, really computed on a CPU, with what `on_cpu.py` says in the
place of the GPU and the drop-in library. Skipped where there is no torch.
"""

import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
bitsandbytes = pytest.importorskip("bitsandbytes")

import checkpoints  # noqa: E402
import on_cpu  # noqa: E402
from on_cpu import CPU, SMALL, stand_ins  # noqa: E402, F401

import reprolab_nf4  # noqa: E402
from experiments.end_to_end import advise, build, checkpoint, rows, tune  # noqa: E402
from experiments.end_to_end.plan import Row  # noqa: E402
from reprolab_nf4 import choices, measuring, multiplying  # noqa: E402
from reprolab_nf4.advice import Shape  # noqa: E402


@pytest.fixture
def layer():
    return build.layers(build.from_sizes(SMALL["qwen3-32b"], CPU, seed=1))[0]


def test_in_a_row_of_ours_products_dequantize(layer):
    """As bitsandbytes 0.47.0 does; the codes may come transposed."""
    x = torch.randn((3, 5, layer.in_features), dtype=torch.float16)
    codes, state, own = layer.weight, layer.weight.quant_state, bitsandbytes.matmul_4bit
    weight = bitsandbytes.functional.dequantize_4bit(codes, state)
    wanted = torch.nn.functional.linear(x, weight)
    with rows.in_place(Row("streaming")), torch.no_grad():
        assert torch.equal(layer(x), wanted)
        for turned in (codes, codes.t()):
            assert torch.equal(bitsandbytes.matmul_4bit(x, turned, quant_state=state), wanted)
        bias = torch.ones(layer.out_features, dtype=x.dtype)
        biased = bitsandbytes.matmul_4bit(x, codes.t(), quant_state=state, bias=bias)
        assert torch.equal(biased, torch.nn.functional.linear(x, weight, bias))
    assert bitsandbytes.matmul_4bit is own


def test_layers_of_one_shape_count_together_the_largest_first():
    layers = [checkpoint.Layer("a", 256, 128, 64, False, "float16")] * 3
    layers += [
        checkpoint.Layer("b", 512, 128, 64, False, "float16"),
        checkpoint.Layer("c", 256, 128, 64, True, "float16"),
    ]
    found = advise.shapes_of(layers)
    assert list(found.values()) == [1, 3, 1]
    assert next(iter(found)).rows == 512


def test_advice_on_a_real_checkpoint(tmp_path, monkeypatch):
    counts = advise.shapes_of(checkpoint.read(checkpoints.make(tmp_path, SMALL["llama-3.3-70b"])))
    monkeypatch.setattr(measuring, "SHORTEST_US", 1)
    monkeypatch.setattr(measuring, "CACHES", 0)
    kernels = ["streaming", "one_wrong", "nix"]
    said = advise.advice(on_cpu.Cpu(), "mine", counts, 2, kernels)
    assert said.startswith("mine: 14 layers in NF4, ")
    assert "one_wrong: left out: 1 of " in said
    assert "nix: left out: there is no kernel 'nix'" in said
    assert "one step at batch 2: " in said and "50 tokens each: " in said


def test_a_loaded_model_is_measured_with_its_own_layers(monkeypatch):
    monkeypatch.setattr(measuring, "SHORTEST_US", 1)
    monkeypatch.setattr(measuring, "CACHES", 0)
    model = build.from_sizes(SMALL["qwen3-32b"], CPU, seed=1)
    asked = []
    own = measuring.times
    monkeypatch.setattr(measuring, "times", lambda *given: asked.append(given[2]) or own(*given))
    said = measuring.advise(on_cpu.Cpu(), model, 3, ["streaming", "one_wrong"])
    assert said.startswith(f"{type(model).__name__}: 14 layers in NF4, ")
    assert "one_wrong: left out: 1 of " in said and "one step at batch 3: " in said
    layers = {layer.weight.data_ptr() for layer in build.layers(model)}
    assert {codes.data_ptr() for weights in asked for codes, _ in weights} <= layers
    assert all(len({id(codes) for codes, _ in weights}) >= 2 for weights in asked)


def test_a_cache_that_holds_all_layers_is_outgrown_by_copies(monkeypatch):
    model = build.from_sizes(SMALL["qwen3-32b"], CPU, seed=1)
    gpu = on_cpu.Cpu()
    gpu.l2_bytes = lambda: 30000
    asked = []
    monkeypatch.setattr(measuring, "times", lambda *given: asked.append(given[2]) or {})
    monkeypatch.setattr(measuring, "text", lambda *given: "")
    measuring.advise(gpu, model, 1, ["streaming"])
    for weights in asked:
        assert len({codes.data_ptr() for codes, _ in weights}) == len(weights)
        assert sum(codes.numel() for codes, _ in weights) > measuring.CACHES * gpu.l2_bytes()


@pytest.mark.parametrize("batch", [0, 1.5, "2", True])
def test_a_wrong_batch_or_model_is_one_line(batch):
    with pytest.raises(reprolab_nf4.DropinError) as error:
        reprolab_nf4.advise(torch.nn.Linear(2, 2), batch)
    wanted = f"batch: give a number of sequences, 1 at least, not {batch!r}"
    assert str(error.value) == wanted
    with pytest.raises(reprolab_nf4.DropinError, match=r"^model: has no layers in NF4 on a GPU"):
        reprolab_nf4.advise(torch.nn.Linear(2, 2))


def test_advice_compares_with_products_by_the_table(layer, monkeypatch):
    monkeypatch.setattr(measuring, "SHORTEST_US", 1)
    used = []
    own = reprolab_nf4.install
    monkeypatch.setattr(reprolab_nf4, "install", lambda **k: used.append(k) or own(**k))
    weights, shape = (
        [(layer.weight.data, layer.weight.quant_state)] * 2,
        Shape(128, 128, 64, 0, ""),
    )
    compared = measuring.variants(["branch_tree", "streaming"])
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


def test_a_gpu_without_recorded_times_is_told_how_to_have_some(monkeypatch):
    monkeypatch.setattr(measuring, "SHORTEST_US", 1)
    monkeypatch.setattr(measuring, "CACHES", 0)
    model = build.from_sizes(SMALL["qwen3-32b"], CPU, seed=1)
    assert measuring.NO_TIMES not in measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"])
    monkeypatch.setattr(choices, "recorded", lambda compute_capability: None)
    assert measuring.advise(on_cpu.Cpu(), model, 1, ["streaming"]).endswith(measuring.NO_TIMES)


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """Calls `make tune`'s command: its exit status, and the table that it wrote."""
    import experiments.end_to_end

    gpu = types.SimpleNamespace(Gpu=on_cpu.Cpu)
    monkeypatch.setitem(sys.modules, "experiments.end_to_end.gpu", gpu)
    monkeypatch.setattr(experiments.end_to_end, "gpu", gpu, raising=False)
    for name, value in {"CACHES": 0, "SHORTEST_US": 1, "SAMPLES": 1, "ROWS": (1, 16)}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(multiplying, "capability", lambda device: "9.0")
    # Of the library's kernels the CPU has none.
    monkeypatch.setattr(multiplying, "runs", lambda *given: False)
    output = tmp_path / "table.json"

    def run(*options):
        status = tune.run(tune.parser(), [f"--output={output}", *options])
        return status, choices.read(output) if status == 0 else None

    return run


def test_a_checkpoint_is_tuned(tuned, tmp_path, capsys):
    folder = checkpoints.make(tmp_path, SMALL["llama-3.3-70b"])
    status, table = tuned(f"--model={folder}")
    assert status == 0 and (table.gpu, table.compute_capability) == ("a CPU", "9.0")
    layers = {(x.n, x.k) for x in table.layers}
    assert layers == {(x.rows, x.columns) for x in advise.shapes_of(checkpoint.read(folder))}
    for layer in table.layers:
        assert [*layer.us] == [1, 16]
        assert all([*us] == ["bitsandbytes", "dequantize"] for us in layer.us.values())
        assert all(time > 0 for us in layer.us.values() for time in us.values())
    assert 'reprolab_nf4.install(table="' in capsys.readouterr().out


def test_without_a_checkpoint_the_models_are_tuned(tuned):
    status, table = tuned()
    assert status == 0
    matrices = {matrix for model in SMALL.values() for matrix in model.matrices()}
    assert len(table.layers) == 4 * len(matrices)
    assert {(x.type, x.nested) for x in table.layers} == {
        (type, nested) for type in ("fp16", "bf16") for nested in (False, True)
    }


def test_what_cannot_be_tuned_is_one_line(tuned, capsys, monkeypatch):
    assert tuned("--model=none") == (2, None)
    assert capsys.readouterr().err.startswith("error: MODEL: there is no folder 'none'")

    def exhaust(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nMore of it")

    monkeypatch.setattr(tune, "copies", exhaust)
    assert tuned() == (2, None)
    assert capsys.readouterr().err.endswith("error: out of memory: free some of this GPU's\n")


@pytest.fixture
def advised(tmp_path, monkeypatch):
    """Calls `make advise`'s command: its exit status."""
    import experiments.end_to_end

    gpu = types.SimpleNamespace(Gpu=on_cpu.Cpu)
    monkeypatch.setitem(sys.modules, "experiments.end_to_end.gpu", gpu)
    monkeypatch.setattr(experiments.end_to_end, "gpu", gpu, raising=False)
    monkeypatch.setattr(measuring, "CACHES", 0)
    folder = str(checkpoints.make(tmp_path, SMALL["llama-3.3-70b"]))
    return lambda *options: advise.run(advise.parser(), [*options, "--", folder])


@pytest.mark.parametrize(
    ("batch", "line"),
    [
        ("x", "error: BATCH: give one number, not 'x'\n"),
        ("2,4", "error: BATCH: give one number, not '2,4'\n"),
        ("-1", "error: BATCH: give one number, not '-1'\n"),
        ("0", "error: BATCH: 1 at least\n"),
    ],
)
def test_advice_for_no_batch(advised, capsys, batch, line):
    assert (advised(f"--batch={batch}"), capsys.readouterr().err) == (2, line)


def test_advice_that_does_not_fit(advised, capsys, monkeypatch):
    def exhaust(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nMore of it")

    line = "error: out of memory: batch 64 does not fit on this GPU; give a smaller BATCH"

    def refused():
        status, (progress, *_, last) = advised("--batch=64"), capsys.readouterr().err.splitlines()
        return status, last, "0 of 4 shapes, about 1 min left: products with" in progress

    for module, function in ((measuring, "times"), (advise, "copies")):
        with monkeypatch.context() as patch:
            patch.setattr(module, function, exhaust)
            assert refused() == (2, line, True)
    # A kernel is not left out for it.
    monkeypatch.setitem(on_cpu.KERNELS, "streaming", exhaust)
    assert refused() == (2, line, True)


def test_advice_without_the_library(advised, capsys, monkeypatch):
    def refuse():
        raise reprolab_nf4.DropinError("none.so: no such file; run make dropin")

    monkeypatch.setattr(reprolab_nf4, "install", refuse)
    assert advised() == 2
    assert capsys.readouterr().err == "error: none.so: no such file; run make dropin\n"
