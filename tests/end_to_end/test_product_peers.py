"""The products beside ours under torch, really computed on a CPU, with what `on_cpu.py` and
`stand_in_peers.py` say in the place of the GPU and of libraries that need one. Skipped where there
is no torch.
"""

import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
bitsandbytes = pytest.importorskip("bitsandbytes")

import on_cpu  # noqa: E402
import stand_in_peers  # noqa: E402
from on_cpu import CPU, stand_ins  # noqa: E402, F401

from experiments.product import layers, peers  # noqa: E402
from experiments.product.bounds import Wrong, activations, interval  # noqa: E402
from records.results import load  # noqa: E402
from reprolab_nf4 import choices, measuring  # noqa: E402

N, K = 96, 256
OURS = [f"bitsandbytes_{bitsandbytes.__version__}", "fused", "fused_exact"]
OTHERS = ["humming_int4_g64", "humming_int4_g128", "gemlite_int4_g64"]
NAMES = [*OURS, *OTHERS, "torch_16bit"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name, value in {"CACHES": 0, "SHORTEST_US": 1, "SAMPLES": 3}.items():
        monkeypatch.setattr(measuring, name, value)
    on_cpu.put_gpu(monkeypatch)


@pytest.fixture
def libraries(monkeypatch):
    stand_in_peers.put(monkeypatch)


@pytest.fixture
def run(tmp_path):
    """Calls the pass's command: its exit status, and the rows by kernel and number of rows."""
    file = tmp_path / "peers.json"

    def call(*options, rows="1,4"):
        given = [f"--shape={N}x{K}", f"--rows={rows}", f"--output={file}", *options]
        status = peers.run(peers.parser(), given)
        if not file.exists():
            return status, {}
        records = load(file, "product", "peers").records
        return status, {(r.kernel, r.problem["batch"]): r for r in records}

    return call


def test_every_way_is_verified_and_timed(run, libraries):
    status, found = run()
    assert status == 0
    assert list(found) == [(name, rows) for rows in (1, 4) for name in NAMES]
    for (name, rows), row in found.items():
        assert (row.outcome, row.reason) == ("within_bound", "")
        assert row.times.n == 3 and row.times.min > 0 and row.sm_mhz == 1980
        assert row.problem["name"] == f"{rows}x{N}x{K}/fp16/b64"
        assert "judged by the fp64 product of the" in row.bound
        assert (row.origin == "project") is name.startswith("fused")
        assert row.bytes_moved == row.bytes_read + 2 * rows * N
        weights = row.bytes_read - 2 * rows * K
        held = {"torch_16bit": 16, "humming_int4_g128": 4.125, "humming_int4_g64": 4.25}
        assert 8 * weights / (N * K) == held.get(name, 4.5)
        assert ("not NF4" in row.lineage and "repacked" in row.lineage) is (name in OTHERS)


def test_the_file_says_with_what_it_was_made(run, libraries, tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "version", lambda package: "1.2.3")
    assert run()[0] == 0
    origin = load(tmp_path / "peers.json").provenance
    assert (origin["instrument"], origin["seed"], origin["commit"]) == ("events", 1, "a" * 40)
    versions = origin["build"]["versions"]
    assert {"torch", "bitsandbytes"} <= versions.keys()
    assert versions["humming-kernels"] == versions["gemlite"] == "1.2.3"
    row = load(tmp_path / "peers.json").find(f"1x{N}x{K}/fp16/b64", OTHERS[2])
    assert row.maker == "gemlite 1.2.3"


@pytest.mark.parametrize(
    ("module", "package"), [("humming.layer", "humming-kernels"), ("gemlite", "gemlite")]
)
def test_a_missing_library_is_a_line_that_says_how_to_install_it(
    module, package, run, libraries, monkeypatch
):
    monkeypatch.setitem(sys.modules, module, None)  # which import refuses
    status, found = run()
    assert status == 0
    for (name, _), row in found.items():
        if name.startswith(module.partition(".")[0]):
            assert row.outcome == "unsupported" and not row.metrics and row.bytes_read
            install = f'"$(cat build/end_to_end/python)" -m pip install {package}'
            assert row.reason.endswith(f": {install}") and "\n" not in row.reason
        else:
            assert row.outcome == "within_bound"


def test_a_library_that_cannot_do_a_layer_costs_its_own_rows(run, libraries, monkeypatch):
    def refuse(layer, x):
        raise RuntimeError(f"no kernel for {len(x)} rows\nand more")

    monkeypatch.setattr(stand_in_peers.GemLiteLinear, "forward", refuse)
    status, found = run()
    assert status == 0
    for (name, rows), row in found.items():
        refused = ("unsupported", f"no kernel for {rows} rows")
        right = ("within_bound", "")
        assert (row.outcome, row.reason) == (refused if name == OTHERS[2] else right)


class Changed:
    """gemlite's product, with its weights changed in a way."""

    def __init__(self, change):
        self.change, self.own = change, stand_in_peers.GemLiteLinear.forward

    def __get__(self, layer, _):
        def forward(x):
            weights = layer.weights.clone()
            self.change(weights)
            return (x.float() @ weights.float().T).half()

        return forward


def one_weight(weights):
    weights[5, 70] *= -1


def one_step(weights):
    """One code of a group is the next one."""
    weights[5, 70] += 0.02 * 4.5 / 15


def one_scale(weights):
    weights[5, 64:128] *= 1.1


def last_columns(weights):
    weights[:, -2:] = 0


def no_number(weights):
    weights[5, 70] = torch.nan


@pytest.mark.parametrize("change", [one_weight, one_step, one_scale, last_columns, no_number])
def test_a_wrong_product_gets_no_time(change, run, libraries, monkeypatch):
    monkeypatch.setattr(stand_in_peers.GemLiteLinear, "forward", Changed(change))
    status, found = run()
    assert status == 1
    for (name, _), row in found.items():
        is_wrong = name == OTHERS[2]
        assert row.outcome == ("mismatch" if is_wrong else "within_bound")
        assert bool(row.metrics) is not is_wrong and bool(row.mismatches) is is_wrong
        assert (" outputs are wrong; first in row " in row.reason) is is_wrong


def test_so_does_one_that_is_wrong_once_it_is_timed(run, libraries, monkeypatch):
    is_timed, own = [], measuring.in_turn
    right = stand_in_peers.GemLiteLinear.forward
    monkeypatch.setattr(measuring, "in_turn", lambda *given: is_timed.append(1) or own(*given))
    wrong = lambda layer, x: right(layer, x) + bool(is_timed)  # noqa: E731
    monkeypatch.setattr(stand_in_peers.GemLiteLinear, "forward", wrong)
    status, found = run(rows="2")
    assert status == 1
    assert [name for (name, _), row in found.items() if row.outcome == "mismatch"] == [OTHERS[2]]
    assert not found[OTHERS[2], 2].metrics


@pytest.mark.parametrize("rows", ["1", "4"])
def test_and_ours(rows, run, libraries, monkeypatch):
    monkeypatch.setitem(on_cpu.KERNELS, "branch_tree", on_cpu.flipped)
    status, found = run(rows=rows)
    wrong = {name for (name, _), row in found.items() if row.outcome == "mismatch"}
    assert status == 1 and wrong == {"fused_exact"}  # which dequantizes


def test_weights_that_are_none_of_the_layers_are_wrong(run, libraries, monkeypatch):
    """Although the products by them are right."""
    load_weights = stand_in_peers.HummingLayer.load_from_unquantized

    def halved(layer, weight):
        load_weights(layer, weight)
        layer.weight_scale[3] /= 2

    monkeypatch.setattr(stand_in_peers.HummingLayer, "load_from_unquantized", halved)
    status, found = run()
    assert status == 1
    for (name, _), row in found.items():
        is_wrong = name.startswith("humming")
        assert (row.outcome == "mismatch") is is_wrong
        assert row.reason.endswith("weights are held wrong by more than a step" * is_wrong)


def test_without_recorded_times_ours_has_no_fastest_way(run, libraries, monkeypatch):
    monkeypatch.setattr(choices, "recorded", lambda capability: None)
    status, found = run()
    refused = {name for (name, _), row in found.items() if row.outcome == "unsupported"}
    assert status == 0 and refused == {"fused", "fused_exact"}
    assert found["fused", 1].reason.startswith("no times of products are recorded for ")


def test_too_little_memory_is_no_ways_fault(run, libraries, monkeypatch, capsys):
    def exhaust(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nMore of it")

    with monkeypatch.context() as patch:
        patch.setattr(stand_in_peers.GemLiteLinear, "pack", exhaust)
        patch.setattr(stand_in_peers.GemLiteLinear, "__init__", lambda *_, **__: exhaust())
        status, found = run(rows="1")
    row = found[OTHERS[2], 1]
    assert (status, row.outcome, row.reason) == (3, "not_measured", peers.LEFT)
    monkeypatch.setattr(peers, "Bench", exhaust)
    assert run()[0] == 2
    assert capsys.readouterr().err.endswith(f"error: {peers.LEFT}\n")


@pytest.mark.parametrize("shape", ["28672", "0x128", "64x100", "64x128x2", "-1x128", ""])
def test_a_wrong_shape_is_one_line(shape, run, capsys):
    assert run(f"--shape={shape}") == (2, {})
    wanted = "rows x columns such as 28672x8192, columns a multiple of 128"
    assert capsys.readouterr().err == f"error: --shape: give {wanted}, not '{shape}'\n"


def test_every_column_is_asked_in_a_row_with_few():
    for most, k in ((4, K), (64, K), (4, 5120)):
        x = activations(most, k, CPU)
        few = x[most:]
        assert torch.all((x[:most] != 0).sum(1) > k / 2) and len(few) >= most
        assert torch.all((few != 0).sum(1) == 16) and torch.all((few != 0).any(0))
        assert torch.equal(x, activations(most, k, CPU))


def test_sums_are_right_in_any_order_and_not_without_a_part():
    x = activations(4, 8192, CPU)
    weights = 0.02 * torch.randn(64, 8192).half().float()
    allowed = interval(x, weights, weights.abs())
    allowed.check((x.double() @ weights.double().T).half(), 0)
    products = x[:4, None].float() * weights
    for order in (torch.arange(8192), torch.randperm(8192)):
        allowed.check(products[..., order].cumsum(2)[..., -1].half(), 0)
    for first in (0, 4):  # rows with many, and with few
        with pytest.raises(Wrong):
            allowed.check((x[first:, :6144].float() @ weights[:, :6144].T).half(), first)
