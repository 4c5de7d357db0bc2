"""Products of other libraries and ours under torch, computed on a CPU, with what `on_cpu.py` and
`stand_in_peers.py` say in the place of the GPU and of libraries that need one.
"""

import sys

import on_cpu
import pytest
import stand_in_peers
from needs_torch import bitsandbytes, torch
from on_cpu import stand_ins  # noqa: F401

from experiments.product import layers, peers
from reprolab.results import load
from reprolab_nf4 import measuring, timing_table

N, K = 96, 256
OURS = [f"bitsandbytes_{bitsandbytes.__version__}", "fused", "fused_exact"]
OTHERS = ["humming_int4_g64", "humming_int4_g128", "gemlite_int4_g64"]
NAMES = [*OURS, *OTHERS, "torch_16bit"]
GEMLITE, HUMMING = stand_in_peers.GemLiteLinear, stand_in_peers.HummingLayer


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Calls the pass's command: its exit status, and the rows by kernel and number of rows."""
    for name, value in {"CACHES": 0, "SHORTEST_US": 1, "SAMPLES": 3}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(layers, "version", lambda package: "1.2.3")
    on_cpu.put_gpu(monkeypatch)
    stand_in_peers.put(monkeypatch)
    file = tmp_path / "peers.json"

    def call(*options, rows="1,4", pass_name="peers"):
        arguments = [f"--shape={N}x{K}", f"--rows={rows}", f"--output={file}", *options]
        status = peers.run(peers.parser(), arguments)
        if not file.exists():
            return status, {}
        records = load(file, "product", pass_name).records
        return status, {(r.kernel, r.problem["batch"]): r for r in records}

    return call


def outcomes(results, *names):
    """Values of these kernels; asserts that all others are right and timed."""
    for (name, _), row in results.items():
        if name not in names:
            assert (row.outcome, row.reason) == ("within_bound", "") and row.n == 3
    return [row for (name, _), row in results.items() if name in names]


def test_every_way_is_verified_and_timed(run, tmp_path):
    status, results = run()
    assert status == 0
    assert list(results) == [(name, rows) for rows in (1, 4) for name in NAMES]
    outcomes(results)
    for (name, rows), row in results.items():
        assert row.min > 0 and row.sm_mhz == 1980
        assert row.problem["name"] == f"{rows}x{N}x{K}/fp16/b64"
        assert "fp64 product" in row.bound
        assert (row.origin == "project") is name.startswith("fused")
        assert row.bytes_moved == row.bytes_read + 2 * rows * N
        weights = row.bytes_read - 2 * rows * K
        held = {"torch_16bit": 16, "humming_int4_g128": 4.125, "humming_int4_g64": 4.25}
        assert 8 * weights / (N * K) == held.get(name, 4.5)
        assert ("not NF4" in row.lineage and "repacked" in row.lineage) is (name in OTHERS)
    origin = load(tmp_path / "peers.json").provenance
    assert (origin["instrument"], origin["seed"], origin["commit"]) == ("events", 1, "a" * 40)
    versions = origin["build"]["versions"]
    assert {"torch", "bitsandbytes"} <= versions.keys()
    assert versions["humming-kernels"] == versions["gemlite"] == "1.2.3"
    assert results[OTHERS[2], 1].maker == "gemlite 1.2.3"


@pytest.mark.parametrize(
    ("module", "package", "names"),
    [("humming.layer", "humming-kernels", OTHERS[:2]), ("gemlite", "gemlite", OTHERS[2:])],
)
def test_a_missing_library_says_how_to_install_it(module, package, names, run, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)  # which import refuses
    status, results = run()
    assert status == 0
    for row in outcomes(results, *names):
        assert row.outcome == "unsupported" and not row.metrics and row.bytes_read
        install = f'"$(cat build/end_to_end/python)" -m pip install {package}'
        assert row.reason.endswith(f": {install}") and "\n" not in row.reason


def one_step(weights):
    """One code of a group is the next one."""
    weights[5, 70] += 0.02 * 4.5 / 15


def last_columns(weights):
    weights[:, -2:] = 0


def no_number(weights):
    weights[5, 70] = torch.nan


WRONG = [(f, False) for f in (one_step, last_columns, no_number)]


@pytest.mark.parametrize(("change", "once_it_is_timed"), [*WRONG, (no_number, True)])
def test_a_wrong_product_gets_no_time(change, once_it_is_timed, run, monkeypatch):
    is_timed, original = [], measuring.interleave
    monkeypatch.setattr(
        measuring, "interleave", lambda *args: is_timed.append(1) or original(*args)
    )

    def forward(layer, x):
        weights = layer.weights.clone()
        if is_timed or not once_it_is_timed:
            change(weights)
        return (x.float() @ weights.float().T).half()

    monkeypatch.setattr(GEMLITE, "forward", forward)
    status, results = run(rows="4" if once_it_is_timed else "1,4")
    assert status == 1
    for row in outcomes(results, OTHERS[2]):
        assert row.outcome == "mismatch" and not row.metrics and row.mismatches
        assert " outputs are wrong" in row.reason


def test_a_wrong_kernel_of_ours_gets_no_time(run, monkeypatch):
    monkeypatch.setitem(on_cpu.KERNELS, "branch_tree", on_cpu.flipped)
    status, results = run()
    wrong = outcomes(results, "fused_exact")  # which dequantizes
    assert status == 1 and {row.outcome for row in wrong} == {"mismatch"}


def test_weights_that_differ_from_the_layers_are_wrong(run, monkeypatch):
    """Although the products by them are right."""
    load_weights = HUMMING.load_from_unquantized

    def halved(layer, weight):
        load_weights(layer, weight)
        layer.weight_scale[3] /= 2

    monkeypatch.setattr(HUMMING, "load_from_unquantized", halved)
    status, results = run()
    assert status == 1
    for row in outcomes(results, *OTHERS[:2]):
        assert row.outcome == "mismatch"
        assert "more than a step" in row.reason


def test_without_recorded_times_ours_has_no_fastest_way(run, monkeypatch):
    monkeypatch.setattr(timing_table, "recorded", lambda *gpu: None)
    status, results = run()
    assert status == 0
    for row in outcomes(results, *OURS[1:]):
        assert row.outcome == "unsupported"
        assert row.reason.startswith("no times ")


def test_too_little_memory_is_not_measured(run, monkeypatch, capsys):
    def exhaust(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.\nMore of it")

    with monkeypatch.context() as patch:
        patch.setattr(GEMLITE, "__init__", exhaust)
        status, results = run(rows="1")
    (row,) = outcomes(results, OTHERS[2])
    assert (status, row.outcome, row.reason) == (3, "not_measured", peers.LEFT)
    monkeypatch.setattr(peers, "Bench", exhaust)
    assert run()[0] == 2
    assert capsys.readouterr().err.endswith(f"error: {peers.LEFT}\n")
