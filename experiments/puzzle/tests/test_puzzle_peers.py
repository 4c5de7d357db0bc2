"""The puzzle through Python on a CPU, with a substitute for Unsloth: its packages, of which only
the modules that are needed may run.
"""

import sys

import on_cpu
import pytest
from needs_torch import functional, torch
from on_cpu import stand_ins  # noqa: F401

from experiments.puzzle import peers
from reprolab.families import described
from reprolab.json_files import ROOT, read_json
from reprolab.results import load

REFUSED = "raise RuntimeError('this package must not run')\n"
UTILS = """
from unsloth_zoo.utils import VERSION
from bitsandbytes import functional

_USE_NF4_KERNELS = VERSION >= (2026, 10)


def fast_dequantize(W, quant_state=None):
    return functional.dequantize_4bit(W, quant_state)

"""


def put_unsloth(monkeypatch, folder, *versions):
    """Installs these versions as `make peer` does."""
    monkeypatch.setattr(peers, "PEERS", folder)
    for version in versions:
        package = folder / f"unsloth-{version}"
        files = {f"{name.replace('.', '/')}/__init__.py": REFUSED for name in peers.AROUND}
        files["unsloth/kernels/utils.py"] = UTILS
        files["unsloth_zoo/utils.py"] = f"VERSION = {tuple(map(int, version.split('.')))}"
        files |= dict.fromkeys((f"unsloth-{version}.dist-info/METADATA", "ready"), "")
        for name, text in files.items():
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(text)


OLD, NEW = "2026.1.4", "2026.10.9"
SMALL = (peers.Mlp(64, 256, torch.float16), peers.Mlp(64, 512, torch.bfloat16))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Calls the pass's command: its exit status, and the rows by kernel."""
    monkeypatch.setattr(peers, "MLPS", SMALL)
    on_cpu.put_gpu(monkeypatch)
    file = tmp_path / "peers.json"

    def call(*versions, iterations=3):
        monkeypatch.setattr(peers, "ITERATIONS", iterations)
        put_unsloth(monkeypatch, tmp_path / "peers", *versions)
        status = peers.run(peers.parser(), [f"--output={file}"])
        records = load(file, "puzzle", "peers").records if file.exists() else []
        return status, {r.kernel: r for r in records}

    yield call
    for name in [n for n in sys.modules if n.partition(".")[0] in ("unsloth", "unsloth_zoo")]:
        del sys.modules[name]


def test_each_installed_version_is_verified_and_timed(run, tmp_path):
    status, rows = run(NEW, OLD)
    assert status == 0 and list(rows) == [f"unsloth_{OLD}", f"unsloth_{NEW}"]
    for row in rows.values():
        assert (row.outcome, row.reason, row.origin) == ("bit_exact", "", "peer")
        whole, *each = (row.metrics[f"wall_time{part}"].median for part in ("", *names(SMALL)))
        assert row.metrics["wall_time"].n == 5 and whole > max(each) > 0
    assert "bitsandbytes" in rows[f"unsloth_{OLD}"].lineage
    assert rows[f"unsloth_{NEW}"].lineage.endswith(peers.OWN_KERNEL)
    origin = load(tmp_path / "peers.json").provenance
    assert origin["build"]["versions"]["unsloth"] == f"{OLD}, {NEW}"


def names(mlps):
    return [f".{mlp.name}" for mlp in mlps]


def test_it_is_the_problem_that_was_recorded():
    """The MLPs, and the bytes that they move, are those of the programs."""
    family = described()["puzzle"]
    assert [part.name for part in family.parts.values()] == [mlp.name for mlp in peers.MLPS]
    recorded = read_json(ROOT / "data/recorded/h200/puzzle/mlps.json")["records"][0]
    row = peers.record(NEW, peers.Measured(), "")
    assert row["bytes"] == recorded["bytes"]
    assert row["problem"].items() <= recorded["problem"].items()


def changed(monkeypatch, change):
    """Applies `change` to each output of fast_dequantize."""
    original = functional.dequantize_4bit
    monkeypatch.setattr(functional, "dequantize_4bit", lambda *args: change(original(*args)))


VERIFIED = 3 * len(SMALL)  # calls; every later iteration has as many


@pytest.mark.parametrize("call", [1, VERIFIED, VERIFIED + 7, VERIFIED + 18])
def test_a_wrong_weight_at_any_time_gets_no_time(call, run, monkeypatch):
    """In the verification, or in an MLP's only timed iteration, which follows two."""
    calls = iter(range(1, 1000))
    change = lambda weight: on_cpu.flipped(weight) if next(calls) == call else weight  # noqa: E731
    changed(monkeypatch, change)
    status, rows = run(NEW, iterations=1)
    (row,) = rows.values()
    assert (status, row.outcome, row.mismatches) == (1, "mismatch", 1) and not row.metrics


def test_outputs_kept_from_the_verification_are_wrong(run, monkeypatch):
    kept, calls = [], iter(range(1000))

    def keep(weight):
        if (at := next(calls)) < VERIFIED:
            kept.append(weight)
        return kept[at % 3] if at >= VERIFIED else weight

    changed(monkeypatch, keep)
    status, rows = run(NEW)
    (row,) = rows.values()
    assert (status, row.outcome) == (1, "mismatch") and row.mismatches > 1000


def test_an_output_of_another_shape_or_type_is_wrong(run, monkeypatch):
    for change in (torch.Tensor.float, lambda weight: weight[1:]):
        with monkeypatch.context() as patch:
            changed(patch, change)
            status, rows = run(NEW)
        assert status == 1 and {row.outcome for row in rows.values()} == {"mismatch"}


def test_without_unsloth_the_row_says_how_to_install_it(run):
    status, rows = run()
    (row,) = rows.values()
    assert (status, row.kernel, row.outcome) == (0, "unsloth", "unsupported")
    assert row.reason.endswith(peers.INSTALL) and not row.metrics
