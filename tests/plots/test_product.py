"""Experiment product: a pass under PyTorch, a run in which all failed, and the drop-in's table that
is derived from a run. What its tables show is in the golden files.
"""

import made
import pytest
from edited import Edited

from experiments.product import recorded_times
from plots import product
from records.errors import InputError
from records.json_files import ROOT
from reprolab_nf4 import choices

LAYER = (28672, 8192)


@pytest.fixture
def run(edited) -> Edited:
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


def derived(folder, *options):
    return recorded_times.run(recorded_times.parser(), [str(folder), *options])


def median(run, kernel, batch):
    return run.run()["layers"].find(f"{batch}x28672x8192/fp16/b64", kernel).times.median


def test_the_drop_ins_table_is_derived_from_a_run(run, tmp_path, monkeypatch, capsys):
    kernels = {"few_rows": "few_rows", "many_rows": "many_rows"}
    kernels |= {"dequantize": "streaming_then_cublas", "bitsandbytes": "bitsandbytes_0.50.2_gemm"}
    made.fail(run.row("layers", "many_rows_exact", "1x28672x8192/*"), "mismatch")
    monkeypatch.setattr(choices, "RECORDED", tmp_path / "products")
    assert derived(run.write()) == 0
    assert str(tmp_path / "products/sm_90.json") in capsys.readouterr().out
    found = choices.recorded("NVIDIA H200", "9.0")
    assert found.gpu == "NVIDIA H200" and found.source.startswith(f"{run.folder}, ")
    layers = {(x.n, x.k, x.type, x.nested): x.us for x in found.layers}
    assert {(*LAYER, "fp16", False), (1024, 8192, "fp16", False)} <= layers.keys()
    assert {(*key[2:],) for key in layers} == {("fp16", False), ("fp16", True), ("bf16", False)}
    us = layers[*LAYER, "fp16", False][1]
    assert "many_rows_exact" not in us  # a wrong output chooses nothing
    expected = {way: round(median(run, kernel, 1), 3) for way, kernel in kernels.items()}
    assert {way: us[way] for way in kernels} == expected
    ways = found.ways(*LAYER, "fp16", False, lambda way, rows: True, "bitsandbytes")
    assert ways[0][1] == min(us, key=us.get) == "few_rows"


def test_of_what_ran_nowhere_no_table_is_derived(tmp_path, capsys):
    compiled = ROOT / "data/recorded/h200/counters/sass.json"
    (tmp_path / "layers.json").write_bytes(compiled.read_bytes())
    assert derived(tmp_path, "--output", "x.json") == 2
    why = "is of compiled code, of which nothing ran"
    assert capsys.readouterr().err == f"error: {tmp_path}: {why}\n"


def test_without_bitsandbytes_or_with_nothing_no_table_is_derived(run, tmp_path, capsys):
    output = tmp_path / "x.json"
    assert derived(tmp_path, "--output", str(output)) == 2
    run.drop(lambda row: row["kernel"].endswith("_gemm"))
    folder = run.write()
    assert derived(folder, "--output", str(output)) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {tmp_path}: has none of layers.json, simple.json, nested.json, bf16.json",
        f"error: {folder}: has no times of bitsandbytes' own products; measure with PEER=",
    ]
    assert not output.exists()
