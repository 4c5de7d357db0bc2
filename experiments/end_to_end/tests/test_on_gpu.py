"""The same protocol with CUDA graphs, CUPTI and the drop-in library itself, on small models.
Needs a GPU, torch and the library (make dropin).
"""

from contextlib import suppress
from dataclasses import replace
from itertools import chain

import pytest

from reprolab.json_files import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("bitsandbytes")
if not torch.cuda.is_available() or not (ROOT / "build/dropin/libreprolab_nf4.so").exists():
    pytest.skip("needs a GPU and the drop-in library", allow_module_level=True)

from needs_torch import make_checkpoint  # noqa: E402

import reprolab_nf4  # noqa: E402
from experiments.end_to_end import build, measure, sizes  # noqa: E402
from experiments.end_to_end.gpu import Gpu  # noqa: E402
from experiments.end_to_end.plan import Cell, choose  # noqa: E402
from experiments.end_to_end.rows import DEQUANTIZES, FUSED, PRODUCTS  # noqa: E402
from experiments.product import layers, peers  # noqa: E402
from reprolab.results import load  # noqa: E402
from reprolab_nf4 import timing_table  # noqa: E402

SMALL = {"hidden": 1024, "intermediate": 4096, "layers": 4, "heads": 8, "kv_heads": 4}
SMALL |= {"head_dim": 128, "vocab": 32000}
FAMILIES = ("gemma-2-27b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b")
MATRICES, TOKENS = 28, 6


@pytest.fixture(scope="module")
def gpu():
    build.quiet()
    return Gpu()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    models = {name: replace(sizes.known()[name], **SMALL) for name in FAMILIES}
    monkeypatch.setattr(sizes, "known", lambda: models)
    monkeypatch.setenv("REPROLAB_COMMIT", "a" * 40)


def run(folder, gpu, model, pass_name, **options):
    chosen = choose(model=model, batches="3", tokens=TOKENS, **options)
    cell = Cell(chosen, pass_name, model, 3)
    bench = measure.Bench(gpu, folder / "pass.json", {})
    assert measure.serve([cell], bench) == []
    results = load(cell.file(bench.output), "end_to_end", pass_name)
    return {(r.kernel, r.problem["way"]): r for r in results.records}


@pytest.mark.parametrize("pass_name", ["timing", "profile"])
def test_products_by_a_table_are_rows_like_the_others(tmp_path, gpu, monkeypatch, pass_name):
    """By a table in which kernels of products are the fastest, where this GPU has them."""
    runs = {timing_table.DEQUANTIZE: 2.0}
    with suppress(reprolab_nf4.DropinError):
        reprolab_nf4.Library().workspace("few_rows", 8, 1024, 1024, 64)
        runs["few_rows"] = 1.0
    times = {8: runs, 512: {timing_table.DEQUANTIZE: 1.0}}
    layer = timing_table.Layer(1024, 1024, "fp16", False, times)
    capability = gpu.facts()["compute_capability"]
    monkeypatch.setattr(timing_table, "RECORDED", tmp_path)
    table = tmp_path / f"sm_{capability.replace('.', '')}.json"
    timing_table.write(table, timing_table.Table("this GPU", capability, "made up", (layer,)))
    rows = run(tmp_path, gpu, "qwen3-32b", pass_name)
    for mode in ("eager", "graph"):
        row = rows["fused", mode]
        assert row.outcome in ("bit_exact", "deviation_as_declared"), row.reason
        assert row.metrics
        sources = {DEQUANTIZES, f"{PRODUCTS}few_rows.cu", table.name}
        assert row.code["sha256"].keys() >= sources


def test_ways_under_torch_are_verified_and_timed(gpu):
    """Libraries that are not installed are unsupported."""
    products = [peers.Product(batch, 1024, 4096) for batch in (1, 16)]
    for record in chain(*peers.measured(gpu, layers.backends(gpu.facts()), products)):
        is_right = record["outcome"] == "within_bound"
        is_others = record["origin"]["maker"].startswith(layers.PACKAGES)
        assert is_right or (is_others and record["outcome"] == "unsupported"), record["reason"]
        assert len(record["metrics"]) == is_right


@pytest.mark.parametrize("model", FAMILIES)
def test_cupti_sees_every_dequantization(tmp_path, gpu, model):
    rows = run(tmp_path, gpu, model, "profile")
    for (kernel, mode), row in rows.items():
        if kernel in ("branch_tree", "shared_lut", "streaming"):
            assert row.outcome == "bit_exact", row.reason
            both = [row.metrics[f"{n}.step"].median for n in ("kernel_time", "product_time")]
            assert 0 < sum(both) < row.metrics["busy_time.step"].median
            assert ("kernel_time" in row.metrics) is (mode == "eager")


@pytest.mark.parametrize(
    ("model", "nested", "dtype"),
    [
        ("gemma-3-27b", False, "bfloat16"),
        ("llama-3.3-70b", True, "float16"),
    ],
)
def test_a_checkpoint_gives_the_same_tokens_with_every_kernel(tmp_path, gpu, model, nested, dtype):
    folder = make_checkpoint(tmp_path, sizes.known()[model], nested, dtype, "cuda")
    kernels = ",".join(reprolab_nf4.Library().kernels())
    rows = run(tmp_path, gpu, str(folder), "timing", kernels=kernels)
    assert len(rows) > 2 * 10
    for row in rows.values():
        may_differ = row.lineage == "as installed" or row.kernel in FUSED
        assert row.outcome == "bit_exact" or may_differ, row.reason


def test_a_launch_has_one_record_and_a_mark_has_its_own(gpu):
    x = torch.ones(1 << 20, device=gpu.device)

    def work():
        x.add_(1)
        gpu.mark()
        x.mul_(2)

    _, launches = gpu.records(work)
    assert [x.name == gpu.mark_name() for x in launches] == [False, True, False]
    assert all(x.end_ns > x.start_ns for x in launches)


def test_a_graph_runs_the_kernel_that_was_in_place_when_it_was_captured(gpu):
    model = build.from_sizes(sizes.known()["qwen3-32b"], gpu.device)
    state = build.layers(model)[0].weight
    names = {}
    for row in choose(kernels="shared_lut").rows[:2]:
        with row.in_place(), torch.no_grad():
            run_once = lambda: build.bitsandbytes.functional.dequantize_4bit(  # noqa: E731
                state.data, state.quant_state
            )
            replay = gpu.capture(run_once, gpu.new_pool())
        _, launches = gpu.records(replay)
        names[row.kernel] = {x.name for x in launches}
    assert all(names.values())
    assert not names["branch_tree"] & names["shared_lut"]
