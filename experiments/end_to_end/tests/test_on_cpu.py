"""The whole protocol on tiny models: transformers and bitsandbytes run on a CPU, with the stand-ins
of `on_cpu.py` for the GPU and the drop-in library. Needs torch.
"""

from contextlib import contextmanager
from itertools import count

import on_cpu
import pytest
from needs_torch import bitsandbytes, make_checkpoint, torch
from on_cpu import SMALL, stand_ins  # noqa: F401

from experiments.end_to_end import __main__ as command
from experiments.end_to_end import build, generate, measure, plan, prompts, rounds
from experiments.end_to_end.plan import Cell, choose
from experiments.end_to_end.rows import DEVIATIONS, FUSED, Row
from reprolab.results import load
from reprolab_nf4 import checkpoint, matmul, timing_table

MODEL, MATRICES = "qwen3-32b", 14
TOKENS, SHORT = 10, 8
INSTALLED = f"bitsandbytes_{bitsandbytes.__version__}"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Measures a cell: the result file's rows by kernel and mode, or its error."""
    output = tmp_path / "results/timing.json"
    monkeypatch.setattr(prompts, "lengths", lambda: [3, 5, 1])
    monkeypatch.setattr("sys.argv", ["measure"])

    def call(model=MODEL, pass_name="timing", gpu=None, failed=(), batch=3, **options):
        chosen = choose(model=model, batches=str(batch), tokens=TOKENS, **options)
        cell = Cell(chosen, pass_name, model, batch)
        bench = measure.Bench(gpu or on_cpu.Cpu(), output, {cell.text: dict(failed)})
        cell.file(output).unlink(missing_ok=True)
        faults = measure.serve([cell], bench)
        assert not command.running_of(output).exists()
        if faults:
            assert not cell.file(output).exists()
            return faults[0].removeprefix(f"{cell.text}: ")
        records = load(cell.file(output), "end_to_end", pass_name).records
        return {(r.kernel, r.problem["way"]): r for r in records}

    return call


@pytest.fixture
def wrong_later(monkeypatch):
    """A kernel whose weights are right where they are checked, and wrong afterwards."""
    monkeypatch.setitem(on_cpu.KERNELS, "wrong_later", on_cpu.WrongLater(40))


def test_the_process_measures_the_cells_that_are_missing(tmp_path, monkeypatch, capsys):
    on_cpu.put_gpu(monkeypatch)
    words = ["timing", "--output", str(tmp_path / "timing.json"), "--model", MODEL]
    words += ["--batches", "1,2", "--tokens", "2", "--generations", "1", "--kernels", "shared_lut"]
    for begun in (["batch 1", "batch 2"], ["batch 1"]):
        monkeypatch.setattr("sys.argv", ["measure", MODEL, "{}", *words])
        assert measure.main() == 0
        lines = capsys.readouterr().err.splitlines()
        assert [line.partition(": ")[0] for line in lines] == [f"{MODEL}, {b}" for b in begun]
        files = sorted((tmp_path / "parts").glob("*.json"))
        assert [f.name.split(".")[-2] for f in files] == ["batch1", "batch2"]
        files[0].unlink()


def test_a_row_has_the_median_clock_and_no_metric_with_a_sample_of_0():
    samples = {"kernel_time": [0.0, 1.0], "busy_time": [2.0, 1.0]}
    fields = rounds.Measured(samples=samples, sm_mhz=[1000, 1980, 1500]).fields()
    assert list(fields["clocks"].values()) == [1000, 1500, 1500]
    assert ["samples" in metric for metric in fields["metrics"]] == [False, True]


def test_every_row_is_timed(run):
    rows = run()
    kernels = ("branch_tree", "shared_lut", "streaming", "fused", INSTALLED)
    assert set(rows) == {(kernel, mode) for kernel in kernels for mode in ("eager", "graph")}
    for (_, mode), row in rows.items():
        assert row.outcome == "bit_exact", row.reason
        generated = TOKENS if mode == "eager" else SHORT
        assert (row.problem["tokens"], row.problem["generated"]) == (TOKENS, generated)
        lengths = {name: len(m.samples) for name, m in row.metrics.items()}
        assert lengths == {"wall_time": 3, "wall_time.step": 3}
        assert row.metrics["wall_time"].min > 5 * row.metrics["wall_time.step"].min
        assert (row.problem["way"], row.problem["launches"]) == (mode, MATRICES)
    problem = rows["branch_tree", "eager"].problem
    assert (problem["block_size"], problem["nested"], problem["output"]) == (64, False, "fp16")
    assert problem["weights"] == SMALL[MODEL].nf4_weights
    assert problem["quantized_bytes"] == problem["weights"] * 0.5625
    assert problem["memory_bytes"] > problem["quantized_bytes"] + 2 * 2 * 128 * 512
    assert rows[INSTALLED, "eager"].origin == "peer"


def test_every_dequantization_and_product_is_in_the_profile(run):
    """Each recorded operation takes 1 us here."""
    rows = run(pass_name="profile")
    row, graph = rows["shared_lut", "eager"], rows["shared_lut", "graph"]
    for name in ("kernel_time", "product_time"):
        assert row.metrics[name].median == MATRICES * TOKENS
        for r in (row, graph):
            assert r.metrics[f"{name}.step"].median == MATRICES
    assert row.metrics["busy_time"].median > 3 * MATRICES * TOKENS
    assert "kernel_time" not in graph.metrics
    assert row.bytes_moved == TOKENS * row.problem["weights"] * 2.5625
    installed = rows[INSTALLED, "eager"]
    if matmul.knows_fused_products():
        assert installed.metrics["kernel_time"].missing == "nothing was dequantized"
        assert "product_time" not in installed.metrics


def test_a_kernel_with_a_wrong_bit_has_no_time(run, monkeypatch):
    wrong = {"one_wrong": 1, "last_bit": 169}
    for (kernel, _), row in run(kernels=",".join(wrong)).items():
        if count_wrong := wrong.get(kernel):
            assert (row.outcome, row.metrics, row.mismatches) == ("mismatch", {}, count_wrong)
        else:
            assert row.outcome == "bit_exact"
    # Also where all rows have the wrong bit.
    original = bitsandbytes.functional.dequantize_4bit
    monkeypatch.setattr(
        bitsandbytes.functional,
        "dequantize_4bit",
        lambda *a, **k: on_cpu.last_bit(original(*a, **k)),
    )
    assert {(row.outcome, row.mismatches) for row in run().values()} == {("mismatch", 169)}


def test_lost_records_cost_one_row(run, monkeypatch):
    """The row may be the baseline: its tokens are known."""
    original, generations = generate.Eager.record, count()

    def lose(self, row, tokens):
        outputs, launches = original(self, row, tokens)
        is_lost = row.kernel == "branch_tree" and next(generations) == 2
        return outputs, launches[: -9 if is_lost else None]

    monkeypatch.setattr(generate.Eager, "record", lose)
    rows = run(pass_name="profile")
    row = rows.pop(("branch_tree", "eager"))
    assert (row.outcome, row.metrics) == ("not_measured", {})
    for place, other in rows.items():
        assert other.outcome == "bit_exact", (place, other.reason)
        assert {len(m.samples) for m in other.metrics.values() if m.samples} == {3}


def test_memory_that_runs_out_costs_its_row_unless_an_output_was_wrong(
    run, wrong_later, monkeypatch
):
    original, calls = generate.Eager.run, count()

    def exhaust(self, row, tokens):
        if row.kernel == "shared_lut" or (row.kernel == "wrong_later" and next(calls) == 2):
            raise torch.OutOfMemoryError
        return original(self, row, tokens)

    monkeypatch.setattr(generate.Eager, "run", exhaust)
    rows = run(kernels="shared_lut,wrong_later")
    row = rows.pop(("shared_lut", "eager"))
    assert row.outcome == "not_measured" and row.reason.startswith("out of memory: ")
    row = rows.pop(("wrong_later", "eager"))
    assert (row.outcome, row.metrics) == ("mismatch", {}) and row.mismatches > 0
    others = {r.outcome for (kernel, _), r in rows.items() if kernel != "wrong_later"}
    assert others == {"bit_exact"}


def test_products_of_bitsandbytes_and_of_a_table_may_differ(run, monkeypatch):
    """Which rows' products are negative here."""
    original, kinds = Row.in_place, ["installed", "fused"]

    @contextmanager
    def negative(row):
        with original(row), monkeypatch.context() as patch:
            multiply = bitsandbytes.matmul_4bit
            if row.kind in kinds:
                patch.setattr(bitsandbytes, "matmul_4bit", lambda *a, **k: multiply(*a, **k) * -1)
            yield

    monkeypatch.setattr(Row, "in_place", negative)
    monkeypatch.setattr(matmul, "knows_fused_products", lambda: True)
    rows = run()
    for mode in ("eager", "graph"):
        for kernel, kind in ((INSTALLED, "installed"), ("fused", "fused")):
            row = rows[kernel, mode]
            assert (row.outcome, row.deviation) == ("deviation_as_declared", DEVIATIONS[kind])
            assert row.metrics and row.mismatches > 0
    monkeypatch.setattr(matmul, "knows_fused_products", lambda: False)
    monkeypatch.setattr(timing_table, "recorded", lambda *gpu: None)
    rows = run()
    assert rows[INSTALLED, "eager"].outcome == "mismatch"
    assert rows["fused", "eager"].outcome == "unsupported"
    # Below 0.50 bitsandbytes multiplies without dequantizing at one row, not at two.
    installed = Row("as installed", "installed")
    assert installed.may_fuse(1) and not installed.may_fuse(2)
    assert not Row("streaming").may_fuse(1) and Row("fused", "fused").may_fuse(2)


def test_one_sequence_is_measured_though_bitsandbytes_does_not_dequantize(run):
    profiled = run(pass_name="profile", batch=1)
    for (kernel, _), row in profiled.items():
        assert row.outcome in ("bit_exact", "deviation_as_declared"), row.reason
        if kernel in ("branch_tree", "shared_lut", "streaming"):
            assert row.outcome == "bit_exact"
            assert row.metrics["kernel_time.step"].min >= MATRICES  # a record takes 1 us here
    assert profiled[INSTALLED, "graph"].metrics["kernel_time.step"].missing


def test_a_row_that_ended_a_process_is_left_out(run):
    rows = run(failed={"streaming": "ended by SIGABRT"})
    row = rows["streaming", "graph"]
    assert (row.outcome, row.reason) == ("launch_failed", "ended by SIGABRT")
    assert rows["shared_lut", "graph"].outcome == "bit_exact"
    assert run(failed={"branch_tree": "gone"})["shared_lut", "eager"].reason == "branch_tree: gone"


@pytest.mark.parametrize("fault", [RuntimeError("not permitted"), torch.OutOfMemoryError()])
def test_a_row_that_cannot_be_captured_has_no_graph(run, monkeypatch, fault):
    def refuse(self, step, pool, before):
        raise fault

    monkeypatch.setattr(on_cpu.Cpu, "capture", refuse)
    rows = run()
    assert rows["shared_lut", "graph"].outcome == "unsupported"
    assert rows["shared_lut", "eager"].outcome == "bit_exact"


def test_a_model_that_does_not_fit_says_what_it_needs(run):
    rows = run(gpu=on_cpu.Cpu(free_bytes=1 << 30))
    assert {r.outcome for r in rows.values()} == {"unsupported"}
    row = rows["shared_lut", "eager"]
    assert "out of memory" in row.reason and " 150 GB" in row.reason
    assert (row.problem["layers"], row.problem["launches"]) == (2, MATRICES)


def test_a_failed_measurement_is_one_line(run, tmp_path, monkeypatch):
    assert run(kernels="nix").startswith("nix: ")
    monkeypatch.setattr(build, "SCALE", 1e9)
    assert "logits" in run()
    folder = make_checkpoint(tmp_path, SMALL[MODEL])
    file, config = folder / "model.safetensors", folder / "config.json"
    content = file.read_bytes()
    file.write_bytes(content[:-100])
    assert run(str(folder)).startswith(f"{file}: ")
    file.write_bytes(content)
    config.write_text(config.read_text().replace('"qwen3"', '"no_such_model"'))
    error = run(str(folder))
    assert error.startswith(f"{folder}: cannot be loaded: ") and "\n" not in error


@pytest.mark.parametrize(
    ("model", "nested", "dtype"),
    [("gemma-2-27b", True, "bfloat16"), ("llama-3.3-70b", False, "float16")],
)
def test_a_real_checkpoint_gives_the_same_tokens_with_every_kernel(
    run, tmp_path, model, nested, dtype
):
    folder = make_checkpoint(tmp_path, SMALL[model], nested, dtype)
    layers = checkpoint.read(folder)
    assert len(layers) == MATRICES
    assert {(x.nested, x.output) for x in layers} == {(nested, dtype)}
    for pass_name in plan.PASSES:
        rows = run(str(folder), pass_name)
        assert {(name, "eager") for name in FUSED} <= rows.keys()
        for (kernel, _), row in rows.items():
            assert row.outcome == "bit_exact" or kernel == INSTALLED
            assert row.problem["model"] == folder.name
            assert row.problem["nested"] is nested
            assert row.problem["output"] == checkpoint.OUTPUTS[dtype]
