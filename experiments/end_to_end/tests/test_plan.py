"""The plan that follows from a user's choices, the code of rows, and prompts; without torch."""

import json
import statistics
import subprocess
import sys

import pytest

from experiments.end_to_end import plan, prompts, rows, sizes
from experiments.end_to_end.plan import Cell, choose
from experiments.end_to_end.rows import Row
from reprolab.claims.published import FOLDER, load_source
from reprolab.json_files import ROOT
from reprolab_nf4.__main__ import recorded_shapes

MODELS = json.loads((ROOT / "data/models.json").read_text())["models"]


def test_nothing_of_the_plan_needs_torch():
    code = "import sys\nfrom experiments.end_to_end import __main__, protocol\n"
    code += "assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_by_default_it_is_the_papers_experiment():
    choices = choose()
    kernels = ["branch_tree", "shared_lut", "streaming", "fused", "as installed"]
    assert [row.kernel for row in choices.rows] == kernels
    generations = (plan.WARM_UP, choices.generations, choices.profiled_generations)
    assert (choices.tokens, generations) == (32, (1, 3, 3))
    paper = load_source(FOLDER / "paper.json")
    wanted = {k: v for k, v in sizes.PROTOCOL.items() if k != "comment"}
    assert {k: paper.setup[k] for k in wanted} == wanted
    cells = plan.cells(choices, "timing")
    assert len(cells) == 24 and cells[0] == Cell(choices, "timing", "gemma-2-27b", 2)
    # A graph's steps are alike; eager ones wait for the host, and are all generated when timed.
    both = [plan.cells(choices, name)[0] for name in plan.PASSES]
    assert [c.new_tokens(mode) for c in both for mode in ("eager", "graph")] == [32, 8, 4, 4]


def test_choices_are_taken_as_given(tmp_path):
    library = tmp_path / "site/bitsandbytes/libbitsandbytes_cuda129.so"
    library.parent.mkdir(parents=True)
    library.touch()
    (tmp_path / "site/bitsandbytes-0.47.0.dist-info").mkdir()
    choices = choose(
        model="llama-3.1-8b",
        batches="8, 2 8",
        kernels="installed,global_lut|streaming,fused",
        peer=[str(library), f"mine={library}"],
        tokens=4,
        generations=9,
        quick=True,
    )
    assert (choices.models, choices.batches, choices.tokens) == (("llama-3.1-8b",), (8, 2), 4)
    both = [plan.cells(choices, name)[0] for name in plan.PASSES]
    assert [c.samples(mode) for c in both for mode in ("eager", "graph")] == [9, 3, 1, 1]
    assert choices.rows == (
        *map(Row, ("branch_tree", "global_lut", "streaming")),
        Row("bitsandbytes_0.47.0", "peer", str(library)),
        Row("mine", "peer", str(library)),
        Row("fused", "fused"),
        Row("as installed", "installed"),
    )
    assert [row.version for row in choices.rows[2:4]] == ["", "0.47.0"]
    copied = tmp_path / "bitsandbytes-0.48.1/bitsandbytes" / library.name  # without metadata
    copied.parent.mkdir(parents=True)
    copied.touch()
    assert choose(peer=[str(copied)]).rows[-3].name == "bitsandbytes_0.48.1"


@pytest.mark.parametrize(
    "option",
    [
        {"model": "nothing"},
        {"batches": "2,x"},
        {"batches": "2,0"},
        {"tokens": 1},
        {"generations": 0},
        {"peer": ["gone.so"]},
        {"peer": ["made=LICENSE"] * 2},
    ],
    ids=lambda option: " ".join(f"{name}={value}" for name, value in option.items()),
)
def test_a_faulty_option_is_one_line(option, monkeypatch, refused):
    monkeypatch.chdir(ROOT)
    (name, value), *_ = option.items()
    error = refused(choose, **option)
    assert error.lower().startswith((name.rstrip("s"), str(value)))


@pytest.mark.parametrize("name", sizes.known())
def test_models_have_the_sizes_of_models_json(name):
    (theirs,) = (m for m in MODELS if m["id"] == name)
    ours = sizes.known()[name]
    assert ours.nf4_weights == theirs.get("nf4_weights", ours.nf4_weights)
    assert ours.launches == theirs.get("launches_per_forward", ours.launches)
    assert ours.config["tie_word_embeddings"] is False


def test_recorded_times_of_products_are_of_the_models_layers():
    """`make tune` measures the recorded shapes: a new model must be added there. Gemma-3-12B is
    missing: its layers take the times of the nearest ones.
    """
    recorded = (model for name, model in sizes.known().items() if name != "gemma-3-12b")
    matrices = {matrix for model in recorded for matrix in model.matrices()}
    assert {(shape.rows, shape.columns) for shape in recorded_shapes()} == matrices
    assert len(recorded_shapes()) == 4 * len(matrices)  # plain and nested, fp16 and bf16


def test_memory_is_a_little_more_than_the_weights():
    model = sizes.known()["llama-3.3-70b"]
    weights = 68451041280 * 0.5625 + 2 * 2 * 128256 * 8192
    assert 1.05 * weights < model.bytes_needed(2, 50, 32) < 1.15 * weights
    more = model.bytes_needed(64, 181, 32) - model.bytes_needed(2, 181, 32)
    keys_and_values = 62 * (181 + 32) * 80 * 8 * 128 * 2 * 2
    assert more > keys_and_values


def test_the_code_of_a_row_is_the_one_that_the_driver_takes():
    one, other = "kernels/nf4/streaming.cu", "kernels/nf4_product/simple.cu"
    code = {(one, arch): str(arch) for arch in (75, 80, 86, 90, 100)} | {(other, 89): "x"}
    for gpu, chosen in ((80, 80), (89, 86), (90, 90), (103, 100)):
        wanted = {"target": f"sm_{chosen}", "sha256": {one: str(chosen)}}
        assert rows.chosen_code(code, [one], gpu) == wanted
    assert rows.chosen_code(code, [one], 120) is None
    both = {"target": "sm_89", "sha256": {one: "86", other: "x"}}
    assert rows.chosen_code(code, [one, other], 89) == both
    assert rows.chosen_code(code, [one, other], 90) is None


def test_the_code_of_products_has_the_kernels_of_the_table_and_the_table(monkeypatch, tmp_path):
    sources = ("kernels/nf4/branch_tree.cu", "kernels/nf4_product/few_rows_99kib.cu")
    sources += ("kernels/nf4/streaming.cu", "kernels/nf4_product/few_rows.cu")
    sources += ("kernels/nf4_product/simple.cu",)
    monkeypatch.setattr(rows, "machine_code", lambda library: {(s, 90): s for s in sources})
    table = tmp_path / "sm_90.json"
    times = {1: {"few_rows": 1.0, "bitsandbytes": 2.0}, 512: {"simple": 3.0, "dequantize": 2.0}}
    layers = (rows.timing_table.Layer(512, 4096, "fp16", False, times),)
    rows.timing_table.write(table, rows.timing_table.Table("a GPU", "9.0", "made up", layers))
    monkeypatch.setattr(rows.timing_table, "files", lambda *gpu: [table])
    gpu = {"name": "a GPU", "compute_capability": "9.0"}
    digests = {s: s for s in sources[2:]} | {"sm_90.json": rows.sha256(table)}
    code = rows.code_of(Row("fused", "fused"), gpu)
    assert code == {"target": "sm_90", "sha256": digests}
    assert rows.code_of(Row("fused", "fused"), gpu | {"compute_capability": "12.0"}) is None


def test_prompts_have_gsm8ks_lengths_and_a_seed_decides_them():
    many = prompts.lengths(20000)
    assert statistics.quantiles(many, n=4) == pytest.approx((38, 51, 64), abs=2)
    assert min(many) == 19 and max(many) <= 181
    first = prompts.tokens_of(4, 1000)
    assert first == prompts.tokens_of(8, 1000)[:4]
    assert [len(row) for row in first] == prompts.lengths()[:4]
    assert all(3 <= token < 1000 for row in first for token in row)
