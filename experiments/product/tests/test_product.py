"""Experiment product: a pass under PyTorch, and a run in which all failed. What its tables show is
in the golden files.
"""

import json
import subprocess
import sys

import made
import pytest

pytest.importorskip("matplotlib", reason="NOT TESTED, no matplotlib")

from edited import Edited, edited  # noqa: F401, a fixture

from experiments.product import views as product
from experiments.product.views.host import host_table
from experiments.product.views.shared_memory import PAIRS, shared_memory_table
from plots.experiments import load_run
from records.errors import InputError
from records.json_files import ROOT


@pytest.fixture
def run(edited) -> Edited:  # noqa: F811
    return edited("product")


def test_a_run_under_torch_may_be_of_a_later_commit_of_the_same_kernels(run):
    peers = run.files["peers"]
    peers["provenance"] |= {"commit": "f" * 40, "gpu": peers["provenance"]["gpu"] | {"driver": "1"}}
    assert "peers" in run.tables()
    row = next(row for row in peers["records"] if row["kernel"] == "fused")
    source = "kernels/nf4_product/few_rows.cu"
    row["code"] = {"target": "sm_90", "sha256": {source: "0" * 64}}
    with pytest.raises(InputError, match=f"two different kernels: {source} was other code in"):
        run.run()
    peers["records"].remove(row)
    peers["provenance"]["gpu"]["name"] = "NVIDIA H100"
    with pytest.raises(InputError, match=r"is of NVIDIA H200, but .*/peers.json of NVIDIA H100"):
        run.run()


def test_rows_across_gpus_are_of_one_row_on_the_largest_layer(run):
    found = product.brief(run.run())
    assert [m.record.kernel for m in found] == ["few_rows", "bitsandbytes_0.50.2_gemm"]
    assert {m.record.problem["name"] for m in found} == {"1x28672x8192/fp16/b64"}
    for row in run.rows():
        made.fail(row, "launch_failed", "no kernel image")
    assert product.brief(run.run()) == []


def test_a_step_of_training_is_beside_bitsandbytes_own():
    run = load_run("product", ROOT / "data/recorded/h100/product")
    table = product.tables.training_table(run)
    found = {(row["_under"], row["batch"]): row for row in table.rows}
    assert len(found) == 10
    rows = run["training"].rows_on("512x28672x8192/fp16/b64/training")
    base, ours = (r.times.median for r in rows)
    assert found["28672x8192", 512]["_streaming"].text.startswith(f"{base / ours:.2f} (")
    assert [r.kernel for r in rows] == ["bitsandbytes_0.50.2", "streaming"]
    (said,) = (line for line in product.highlights(run) if "QLoRA" in line)
    assert said.endswith(" times as fast as bitsandbytes as it is installed.")


def test_a_table_has_the_time_in_99_kib_over_the_time_in_more(run):
    """Made from the pass of all layers, with a copy of each row that takes a tenth longer."""
    layers = run.files["layers"]
    rows = [r for r in layers["records"] if r["kernel"] in PAIRS and r["problem"]["batch"] <= 16]
    small = [json.loads(json.dumps(r)) for r in rows]
    for row in small:
        row["kernel"] += "_99kib"
        row["key"] += "_99kib"
        for metric in row["metrics"]:
            metric["samples"] = [1.1 * us for us in metric["samples"]]
    provenance = json.loads(json.dumps(layers["provenance"])) | {"commit": "f" * 40}
    assert shared_memory_table(run.run()) is None
    own = {"pass": "shared_memory", "provenance": provenance, "records": rows + small}
    run.files["shared_memory"] = layers | own
    table = shared_memory_table(run.run())
    shown = [row["over_few_rows_99kib"].text for row in table.rows]
    assert shown and all(text.startswith("1.10 (") for text in shown)
    assert {row["batch"] for row in table.rows} >= {1, 8}


def test_host_times_are_a_table_where_they_were_measured(run, tmp_path):
    folder = ROOT / "data/recorded/h100/product"
    table = host_table(load_run("product", folder))
    medians = {(row["_under"].split()[0], row["batch"]): row for row in table.rows}
    assert [*medians] == [
        ("host", 1),
        ("host", 4),
        ("host", 16),
        ("tokens/s,", 1),
        ("tokens/s,", 4),
        ("tokens/s,", 16),
    ]
    assert medians["host", 1]["planned"].startswith("7.7")
    assert "nn.Linear" not in medians["tokens/s,", 16]
    assert "host" not in run.tables()


@pytest.mark.parametrize("text", ["{}", "[]", '{"rows": [{"rows": 1}]}', '{"rows": [1]}'])
def test_a_damaged_file_of_host_times_is_named(tmp_path, text):
    for file in (ROOT / "data/recorded/h100/product").glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "host.json").write_text(text)
    with pytest.raises(InputError, match=r"host\.json"):
        host_table(load_run("product", tmp_path))


@pytest.mark.parametrize("options", [[], ["--cpu", "--rows", "1"], ["--rows", "x"]])
def test_host_times_of_nothing_are_refused(tmp_path, options):
    output = tmp_path / "host.json"
    command = [sys.executable, "-m", "experiments.product.host", *options, "--output", output]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 2 and found.stderr.count("\n") == 1 and not output.exists()
