"""The whole protocol on tiny models: transformers and bitsandbytes run on a CPU, with the stand-ins
of `on_cpu.py` for the GPU and the drop-in library. Needs torch.
"""

import json
import re
from contextlib import contextmanager
from itertools import count

import checkpoints
import on_cpu
import pytest
from needs_torch import bitsandbytes, torch
from on_cpu import CPU, FAMILIES, REAL, SMALL, stand_ins  # noqa: F401

from experiments.end_to_end import __main__ as command
from experiments.end_to_end import build, generate, measure, plan, rounds
from experiments.end_to_end.plan import Cell, Job, choose
from experiments.end_to_end.rows import DEVIATIONS, FUSED, Row
from reprolab.errors import InputError
from reprolab.results import load
from reprolab.sources import Sources
from reprolab_nf4 import checkpoint, matmul, timing_table

MODEL, MATRICES = "qwen3-32b", 14
TOKENS, SHORT = 10, 8
INSTALLED = f"bitsandbytes_{bitsandbytes.__version__}"
TWO = r"(-?[\d.]+) and (-?[\d.]+)"


@pytest.fixture
def run(tmp_path):
    """Measures a cell: the result file's rows by kernel and mode, or the error of the job."""
    short = tmp_path / "short.jsonl"
    short.write_text('{"tokens": [5, 6, 7]}\n{"tokens": [8, 9, 10, 11, 12]}\n{"tokens": [13]}\n')

    def call(model=MODEL, pass_name="timing", gpu=None, failed=None, batch=3, **options):
        options = {"prompts_file": str(short)} | options
        chosen = choose(model=model, batches=str(batch), tokens=str(TOKENS), **options)
        file = tmp_path / "cell.json"
        file.unlink(missing_ok=True)
        cell = Cell(chosen, pass_name, model, batch)
        job = Job(cell, file, ["python"], Sources("a" * 40, False))
        if failed:
            job.failed_rows.write_text(json.dumps(failed))
        faults = measure.serve([job], gpu or on_cpu.Cpu())
        assert not job.running.exists()
        if faults:
            assert not file.exists()
            return faults[0].removeprefix(f"{cell.text}: ")
        assert not job.failed_rows.exists()
        return {
            (r.kernel, r.problem["way"]): r for r in load(file, "end_to_end", pass_name).records
        }

    return call


@pytest.fixture
def wrong_later(monkeypatch):
    """A kernel whose weights are right where they are checked, and wrong afterwards."""
    monkeypatch.setitem(on_cpu.KERNELS, "wrong_later", on_cpu.WrongLater(40))


def test_the_process_measures_the_cells_that_are_missing(tmp_path, monkeypatch, capsys):
    on_cpu.put_gpu(monkeypatch)
    output = tmp_path / "timing.json"
    words = ["timing", "--output", str(output), "--model", MODEL, "--batches", "1,2"]
    words += ["--tokens", "2", "--generations", "1", "--kernels", "shared_lut"]
    monkeypatch.setattr("sys.argv", ["measure", *words])
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    args = command.parser().parse_args(words)
    for done in (0, 1):
        assert measure.main(args) == 0
        files = sorted((tmp_path / "parts").glob("*.json"))
        assert [f.name.split(".")[2] for f in files] == ["batch1", "batch2"]
        assert ("1 of 1 cells" in capsys.readouterr().err) is bool(done)
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
        assert row.reason.startswith(f"{3 * generated} tokens compared each time, ")
        assert (row.problem["tokens"], row.problem["generated"]) == (TOKENS, generated)
        lengths = {name: len(m.samples) for name, m in row.metrics.items()}
        assert lengths == {"wall_time": 3, "wall_time.step": 3}
        assert row.summary_of("wall_time").min > 5 * row.summary_of("wall_time.step").min
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
        assert row.summary_of(name).median == MATRICES * TOKENS
        for r in (row, graph):
            assert r.summary_of(f"{name}.step").median == MATRICES
    assert row.summary_of("busy_time").median > 3 * MATRICES * TOKENS
    assert "kernel_time" not in graph.metrics
    assert row.bytes_moved == TOKENS * row.problem["weights"] * 2.5625
    installed = rows[INSTALLED, "eager"]
    if matmul.knows_fused_products():
        assert installed.metrics["kernel_time"].missing == "nothing was dequantized"
        assert "product_time" not in installed.metrics


def test_a_kernel_with_a_wrong_bit_has_no_time(run, monkeypatch):
    wrong = {"one_wrong": 1, "last_bit": 169}
    rows = run(kernels=",".join(wrong))
    for (kernel, _), row in rows.items():
        if count_wrong := wrong.get(kernel):
            assert (row.outcome, row.metrics) == ("mismatch", {})
            assert row.mismatches == count_wrong
            assert row.reason.startswith(f"{count_wrong} weights of 128 x 128 ")
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


def test_a_varying_baseline_verifies_no_difference(run, wrong_later, monkeypatch):
    """As if cuBLAS chose another kernel from its second generation on."""
    original, left = generate.Eager.run, iter([True])

    def varies(mode, row, tokens):
        generated = original(mode, row, tokens)
        if row.kernel == "branch_tree":
            generated.tokens[0][0] += not next(left, False)
        return generated

    monkeypatch.setattr(generate.Eager, "run", varies)
    rows = run(kernels="wrong_later,streaming")
    remark = "differ from run to run"
    for kernel in ("branch_tree", "wrong_later"):
        row = rows[kernel, "eager"]
        assert (row.outcome, row.metrics, row.ranked) == ("not_verified", {}, False)
        assert "tokens differ" in row.reason and row.reason.endswith(remark)
    row = rows["streaming", "eager"]  # gave the first tokens each time
    assert row.outcome == "bit_exact" and len(row.metrics["wall_time"].samples) == 3
    assert row.reason.endswith(remark)
    assert {rows[k, "graph"].outcome for k in ("branch_tree", "streaming")} == {"bit_exact"}


@pytest.mark.parametrize(
    ("mode", "kernel", "sample"), [("eager", "branch_tree", 2), ("graph", "shared_lut", 0)]
)
def test_lost_records_cost_one_row(run, monkeypatch, mode, kernel, sample):
    """The row may be the baseline: its tokens are known."""
    original, generations = generate.MODES[mode].record, count()

    def lose(self, row, tokens):
        outputs, launches = original(self, row, tokens)
        is_lost = row.kernel == kernel and next(generations) == sample
        return outputs, launches[: -9 if is_lost else None]

    monkeypatch.setattr(generate.MODES[mode], "record", lose)
    rows = run(pass_name="profile")
    row = rows.pop((kernel, mode))
    assert (row.outcome, row.metrics) == ("not_measured", {})
    assert row.reason.startswith("CUPTI recorded ")
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
    assert row.outcome == "not_measured"
    assert row.reason.startswith("out of memory: ")
    row = rows.pop(("wrong_later", "eager"))
    assert (row.outcome, row.metrics) == ("mismatch", {}) and row.mismatches > 0
    assert "tokens differ" in row.reason
    assert row.reason.endswith("the baseline does not differ")
    assert {r.outcome for (kernel, _), r in rows.items() if kernel != "wrong_later"} == {
        "bit_exact"
    }


def test_bitsandbytes_own_products_may_differ(run, monkeypatch):
    original = bitsandbytes.matmul_4bit
    monkeypatch.setattr(bitsandbytes, "matmul_4bit", lambda *a, **k: original(*a, **k) * -1)
    monkeypatch.setattr(matmul, "knows_fused_products", lambda: True)
    rows = run()
    for mode in ("eager", "graph"):
        row = rows[INSTALLED, mode]
        assert (row.outcome, row.deviation) == ("deviation_as_declared", DEVIATIONS["installed"])
        assert row.metrics and row.mismatches > 0
        # Each row chose the token of its largest logit.
        logits = re.search(rf"; their logits: {TWO} by branch_tree, {TWO} here$", row.reason)
        expected, instead, other, chosen = map(float, logits.groups())
        assert expected > instead and chosen > other
    assert "logits" not in run(pass_name="profile")[INSTALLED, "eager"].reason
    monkeypatch.setattr(matmul, "knows_fused_products", lambda: False)
    assert run()[INSTALLED, "eager"].outcome == "mismatch"


def test_one_sequence_is_measured_though_bitsandbytes_does_not_dequantize(run, monkeypatch):
    timed, profiled = run(batch=1), run(pass_name="profile", batch=1)
    assert timed.keys() == profiled.keys()
    for (kernel, mode), row in profiled.items():
        assert row.outcome in ("bit_exact", "deviation_as_declared"), row.reason
        assert timed[kernel, mode].problem["batch"] == 1
        if kernel in ("branch_tree", "shared_lut", "streaming"):
            assert row.outcome == "bit_exact"
            assert row.summary_of("kernel_time.step").min >= MATRICES  # a record takes 1 us here
    metric = profiled[INSTALLED, "graph"].metrics["kernel_time.step"]
    assert metric.missing  # it dequantizes nothing
    # Below 0.50 it does not at one row either, but at two.
    monkeypatch.setattr(matmul, "knows_fused_products", lambda: False)
    installed = Row("as installed", "installed")
    assert installed.may_fuse(1) and not installed.may_fuse(2)
    assert not Row("streaming").may_fuse(1) and Row("fused", "fused").may_fuse(2)


def test_a_key_of_one_layer_may_be_zero():
    """The key of a single sequence's padding token, whose embedding is zero."""
    model = build.from_sizes(SMALL["llama-3.3-70b"], CPU)
    graph = generate.Graph(model, generate.batch_of([[5, 6, 7]], 4, CPU), on_cpu.Cpu())
    graph.decode(4)
    first, second = graph.cache.layers
    first.keys[:, :, 3:6] = 0
    graph.require_written(3)
    second.keys[:, :, 5] = 0
    with pytest.raises(InputError, match="does not write"):
        graph.require_written(3)


def test_products_by_a_table_may_differ_and_need_one(run, monkeypatch):
    original = Row.in_place

    @contextmanager
    def wrong(row):
        with original(row), monkeypatch.context() as patch:
            multiply = bitsandbytes.matmul_4bit
            if row.kind == "fused":
                patch.setattr(bitsandbytes, "matmul_4bit", lambda *a, **k: multiply(*a, **k) * -1)
            yield

    monkeypatch.setattr(Row, "in_place", wrong)
    row = run()["fused", "eager"]
    assert (row.outcome, row.deviation) == ("deviation_as_declared", DEVIATIONS["fused"])
    monkeypatch.setattr(timing_table, "recorded", lambda *gpu: None)
    row = run()["fused", "graph"]
    assert row.outcome == "unsupported"
    assert "no times" in row.reason and "9.0" in row.reason


def test_a_row_that_ended_a_process_is_left_out(run):
    rows = run(failed={"streaming": "ended by SIGABRT"})
    row = rows["streaming", "graph"]
    assert (row.outcome, row.reason) == ("launch_failed", "ended by SIGABRT")
    assert rows["shared_lut", "graph"].outcome == "bit_exact"
    assert run(failed={"branch_tree": "gone"})["shared_lut", "eager"].reason == "branch_tree: gone"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (
            RuntimeError("operation not permitted\nmore of it"),
            "cannot be captured in a CUDA graph: operation not permitted",
        ),
        (
            torch.OutOfMemoryError(),
            "out of memory: about 3 GB are needed, the GPU has 150 GB",
        ),
    ],
)
def test_a_row_that_cannot_be_captured_has_no_graph(run, monkeypatch, fault, reason):
    def refuse(self, step, pool, before):
        raise fault

    monkeypatch.setattr(on_cpu.Cpu, "capture", refuse)
    rows = run()
    row = rows["shared_lut", "graph"]
    assert (row.outcome, row.reason) == ("unsupported", reason)
    assert rows["shared_lut", "eager"].outcome == "bit_exact"


def test_a_model_that_does_not_fit_says_what_it_needs(run):
    rows = run(gpu=on_cpu.Cpu(free_bytes=1 << 30))
    assert {r.outcome for r in rows.values()} == {"unsupported"}
    row = rows["shared_lut", "eager"]
    assert "out of memory" in row.reason and " 150 GB" in row.reason
    assert (row.problem["layers"], row.problem["launches"]) == (2, MATRICES)


def test_a_checkpoint_that_does_not_fit(run, tmp_path, monkeypatch):
    def exhaust(name, device):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(build, "from_checkpoint", exhaust)
    (tmp_path / "mine").mkdir()
    with (tmp_path / "mine/model.safetensors").open("wb") as weights:
        weights.truncate(44_400_000_000)  # a sparse file
    error = run(str(tmp_path / "mine"))
    assert "not testable" in error and " 44.4 GB" in error and " 150 GB" in error


def test_a_failed_measurement_is_one_line(run, tmp_path, monkeypatch):
    assert run(kernels="nix").startswith("nix: ")
    monkeypatch.setattr(build, "SCALE", 1e9)
    assert "logits" in run()
    folder = checkpoints.make(tmp_path, SMALL[MODEL])
    file, config = folder / "model.safetensors", folder / "config.json"
    content, text = file.read_bytes(), config.read_text()
    file.write_bytes(content[:-100])
    error = run(str(folder))
    assert error.startswith(f"{file}: ") and "cannot be read" in error
    file.write_bytes(content)
    config.write_text(text.replace('"qwen3"', '"no_such_model"'))
    error = run(str(folder))
    assert error.startswith(f"{folder}: cannot be loaded: ") and "\n" not in error
    config.write_text(text)
    (folder / "tokenizer.json").write_text("{")
    assert run(str(folder)).startswith(f"{folder}: its tokenizer: ")


@pytest.mark.parametrize(
    ("model", "nested", "dtype"),
    [
        ("gemma-2-27b", True, "bfloat16"),
        ("gemma-3-27b", True, "float16"),
        ("qwen3-32b", False, "bfloat16"),
        ("llama-3.3-70b", True, "float16"),
    ],
)
def test_a_real_checkpoint_gives_the_same_tokens_with_every_kernel(
    run, tmp_path, model, nested, dtype
):
    folder = checkpoints.make(tmp_path, SMALL[model], nested, dtype)
    layers = checkpoint.read(folder)
    assert len(layers) == MATRICES
    assert {(x.nested, x.output) for x in layers} == {(nested, dtype)}
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"question": "What is 6 x 7 ?"}\n{"question": "What ?"}\n')
    for pass_name in plan.PASSES:
        rows = run(str(folder), pass_name, prompts_file=str(prompts))
        assert {(name, "eager") for name in FUSED} <= rows.keys()
        for (kernel, _), row in rows.items():
            assert row.outcome == "bit_exact" or kernel == INSTALLED
            assert row.problem["model"] == folder.name
            assert row.problem["nested"] is nested
            assert row.problem["output"] == checkpoint.OUTPUTS[dtype]


def test_a_replay_that_keeps_its_place_in_the_cache_has_no_time(run, monkeypatch):
    """As if transformers took the position from the host: it would be that of the capture."""
    original = generate.Graph.step

    def stuck(self):
        original(self)
        for layer in self.cache.layers:
            layer.keys[:, :, self.batch.longest + 1 :] = 0

    monkeypatch.setattr(generate.Graph, "step", stuck)
    rows = run()
    assert {row.outcome for (_, mode), row in rows.items() if mode == "eager"} == {"bit_exact"}
    graphs = [row for (_, mode), row in rows.items() if mode == "graph"]
    assert {row.outcome for row in graphs} == {"unsupported"}
    assert "write to the cache" in graphs[0].reason
