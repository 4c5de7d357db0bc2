"""Experiment product: a pass under PyTorch, and a run in which all failed. The golden files have
the tables.
"""

import json

import made
import pytest

pytest.importorskip("matplotlib", reason="NOT TESTED, no matplotlib")

from edited import Edited, edited  # noqa: F401, a fixture

from experiments.product import views as product
from experiments.product.views.generation import generation_table, steps_table
from experiments.product.views.shared_memory import PAIRS, shared_memory_table
from plots.experiments import load_run
from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_text, stored

H100 = ROOT / "data/recorded/h100/product"


def copy_of_h100(folder):
    """A small pass of its run, and the files that no pass writes."""
    for name in ("simple", "generation"):
        text = read_text(stored(H100 / f"{name}.json"))
        (folder / f"{name}.json").write_text(text)


@pytest.fixture
def run(edited) -> Edited:  # noqa: F811
    return edited("product")


def test_a_run_under_torch_may_be_of_another_commit_and_other_code(run):
    peers = run.files["peers"]
    peers["provenance"] |= {"commit": "f" * 40, "gpu": peers["provenance"]["gpu"] | {"driver": "1"}}
    assert "peers" in run.tables()
    row = next(row for row in peers["records"] if row["kernel"] == "fused")
    code = {"target": "sm_90", "sha256": {"kernels/nf4_product/few_rows.cu": "0" * 64}}
    row["code"] = code
    assert "peers" in run.tables()
    layers = run.files["layers"]["records"]
    changed = next(r for r in layers if r["kernel"] == "few_rows")
    changed["code"], original = code, changed["code"]
    with pytest.raises(InputError, match="different code"):
        run.run()
    changed["code"] = original
    peers["provenance"]["gpu"]["name"] = "NVIDIA H100"
    with pytest.raises(InputError, match=r"is of NVIDIA H200, but .*/peers.json of NVIDIA H100"):
        run.run()


def test_rows_across_gpus_are_of_one_row_on_the_largest_layer(run):
    rows = product.brief(run.run())
    assert [m.record.kernel for m in rows] == ["few_rows", "bitsandbytes_0.50.2_gemm"]
    assert {m.record.problem["name"] for m in rows} == {"1x28672x8192/fp16/b64"}
    for row in run.rows():
        made.fail(row, "launch_failed", "no kernel image")
    assert product.brief(run.run()) == []


def test_a_table_has_the_time_in_99_kib_over_the_time_in_more(run):
    """Made from the pass of all layers, with a copy of each row that takes a tenth longer."""
    layers = run.files["layers"]
    run.files.pop("shared_memory", None)
    rows = [r for r in layers["records"] if r["kernel"] in PAIRS and r["problem"]["batch"] <= 16]
    small = [json.loads(json.dumps(r)) for r in rows]
    for row in small:
        row["kernel"] += "_99kib"
        row["key"] += "_99kib"
        for metric in row["metrics"]:
            metric["samples"] = [1.1 * us for us in metric["samples"]]
    provenance = json.loads(json.dumps(layers["provenance"])) | {"commit": "f" * 40}
    assert shared_memory_table(run.run()) is None
    shared_memory = {"pass": "shared_memory", "provenance": provenance, "records": rows + small}
    run.files["shared_memory"] = layers | shared_memory
    table = shared_memory_table(run.run())
    shown = [row["over_few_rows_99kib"].text for row in table.rows]
    assert shown and all(text.startswith("1.10 (") for text in shown)
    assert {row["batch"] for row in table.rows} >= {1, 8}


def test_generations_are_tables(run):
    h100 = load_run("product", H100)
    table = generation_table(h100)
    assert [row["batch"] for row in table.rows] == [1, 4, 16]
    assert table.rows[0]["dynamic x"] == pytest.approx(40.9 / 28.0, abs=0.01)
    assert {row["batch"] for row in steps_table(h100).rows} == {1, 4, 16}
    (sentence,) = (line for line in product.highlights(h100) if "generate()" in line)
    assert "1.46, 1.42, 1.79 times" in sentence
    assert not run.tables().keys() & {"generation", "steps"}
    assert not any("generate()" in line for line in product.highlights(run.run()))


def static_cell(**more):
    """One sequence; bitsandbytes' 4-bit weights are 500 MB, 16-bit ones 2 GB."""
    cell = {"sequences": 1, "model": "a", "layers": 2, "nested": True, "cache": "static"}
    cell |= {"tokens": 64, "graphs": {}, "difference": None, "missing": {}}
    cell |= {"tokens_per_s": {"bitsandbytes": [99.0, 100.0, 101.0], "planned": [400.0]}}
    cell |= {"bytes": {"bitsandbytes": 500_000_000, "planned": 500_000_000}}
    busy = {"wall_us": 2000.0, "busy_us": 500.0, "launches": 90.0}
    cell |= {"steps": {"bitsandbytes": {"wall_us": 9000.0}, "planned": busy}}
    return cell | more


@pytest.fixture
def with_cells(tmp_path):
    """The H100's run with other cells in its generation.json."""
    copy_of_h100(tmp_path)

    def call(**cells):
        content = json.loads((tmp_path / "generation.json").read_text())
        (tmp_path / "generation.json").write_text(
            json.dumps(content | {"copy_gb_s": 2500.0} | cells)
        )
        return load_run("product", tmp_path)

    return call


def test_the_floor_reads_weights_once_and_gaps_are_idle_time(with_cells):
    h100 = with_cells(sequences=[static_cell()])
    speeds, steps = generation_table(h100), steps_table(h100)
    (row,) = speeds.rows
    assert "nested" in row["_under"] and row["static x"] == 4
    assert row["floor"] == pytest.approx(5000)  # 0.2 ms for each token
    bitsandbytes, ours = steps.rows
    assert (bitsandbytes["wall"], bitsandbytes["floor"], "gaps" in bitsandbytes) == (
        9,
        pytest.approx(0.2),
        False,
    )
    assert (ours["busy"], ours["gaps"], ours["launches"]) == (0.5, 75, 90)


def test_other_tokens_with_a_static_cache_are_shown_with_their_logits(with_cells):
    differs = {"sequence": 0, "token": 7, "tokens": [3, 4], "sequences": 1}
    differs |= {"dynamic": [2.5, 2.25], "static": [2.25, 2.375]}
    cells = [static_cell(), static_cell(sequences=4, difference=differs)]
    speeds = generation_table(with_cells(sequences=cells))
    notes = " ".join(speeds.notes)
    assert "1 of 2 cells" in notes and "at token 7" in notes
    assert "2.5 and 2.25" in notes and "2.25 and 2.375" in notes


def test_a_way_that_does_not_fit_is_noted(with_cells):
    cell = static_cell(missing={"nn.Linear": "150 GB are needed, 40 are free"})
    speeds = generation_table(with_cells(sequences=[cell]))
    assert any("150 GB" in note for note in speeds.notes)
