"""Facts of compiled code as a result file, and what claims/ and plots/ make of it."""

import json

import made
import pytest
import test_facts
import written

from claims.errors import InputError
from claims.evidence import machines
from claims.provenance import checkout
from claims.results import Code, load
from plots.captions import machine_notes
from plots.cli import main
from sass import result_file

STARTED = 1795161600.0  # 2026-11-20T08:00:00Z


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "counters/sass.json"
    another = written.facts("LDS R1, [R2]\nEXIT", "transpose", "another")
    facts = [written.facts(test_facts.TABLE), another]
    result_file.write(path, facts, ["sass", "facts", "--output=x"], STARTED)
    return path


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    monkeypatch.setattr(result_file.tools, "nvcc_version", lambda: "13.0.88")


def test_it_is_read_as_any_other(file):
    results = load(file, "counters", "sass")
    assert results.gpu is None
    record = results.find("sm_80", "written")
    assert (record.outcome, record.reason) == ("not_verified", result_file.NOTHING_RAN)
    assert record.problem["arch"] == "sm_80"
    assert record.code == Code("sm_80", {"kernels/nf4/written.cu": "1" * 64})
    assert not record.timed and record.bandwidth is None
    assert record.metric("sass_index_per_weight.all").samples == (1,)
    assert record.metric("sass_registers").unit == "registers"
    missing = results.find("sm_80", "another").metric("sass_instructions_per_element.all")
    assert (missing.samples, missing.missing) == ((), "the kernel stores nothing on sm_80")


def test_its_provenance_is_a_compilation(file):
    found = load(file).provenance
    assert (found["instrument"], found["started"]) == ("sass", "2026-11-20T08:00:00Z")
    assert found["build"]["architectures"] == "80"
    (first, second) = machine_notes(load(file))
    assert first.text.startswith("compiled by nvcc 13.0.88 for 80, not run; 2026-11-20; commit ")
    assert second == ("From sass.json", "sass facts --output=x")


def test_the_commit_may_be_given_as_to_the_programs(file, monkeypatch, tmp_path):
    monkeypatch.setenv("REPROLAB_COMMIT", "a" * 40)
    monkeypatch.delenv("REPROLAB_DIRTY", raising=False)
    assert checkout() == ("a" * 40, True)
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    assert checkout() == ("a" * 40, False)
    monkeypatch.setenv("REPROLAB_COMMIT", "nonsense")
    with pytest.raises(InputError, match=r"provenance.commit"):
        result_file.write(tmp_path / "x.json", [written.facts(test_facts.TABLE)], ["sass"], STARTED)
    assert not (tmp_path / "x.json").exists()


def measured(folder, gpu):
    row = made.record(made.matrix_problem(64), "tiled", [1.0])
    changes = {"provenance": made.provenance(gpu=made.GPU | {"name": gpu})}
    folder.mkdir()
    content = made.results("transpose", "sizes", [row], **changes)
    (folder / "sizes.json").write_text(json.dumps(content))


def test_every_gpu_of_its_folder_has_it_as_evidence(file, tmp_path):
    measured(tmp_path / "one", "NVIDIA H200")
    measured(tmp_path / "other", "NVIDIA A100")
    found = machines([tmp_path])
    assert [e.newest.gpu for e in found] == ["NVIDIA A100", "NVIDIA H200"]
    for evidence in found:
        assert set(evidence.results) == {("counters", "sass"), ("transpose", "sizes")}
        assert evidence.newest.pass_name == "sizes"


def test_alone_it_is_evidence_without_a_machine(file, tmp_path):
    (evidence,) = machines([tmp_path])
    assert evidence.newest is None
    assert set(evidence.results) == {("counters", "sass")}


def test_the_ledger_names_it_under_the_machines(file, tmp_path, capsys):
    measured(tmp_path / "one", "NVIDIA H200")
    assert main(["claims", "--results", str(tmp_path), "--output", str(tmp_path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "what was measured on NVIDIA H200" in shown
    assert "counters/sass: compiled by nvcc 13.0.88 for 80, not run;" in shown


SPOILED = [
    (lambda r: r["provenance"].update(gpu=made.GPU), "provenance.gpu must be null"),
    (lambda r: r["provenance"].update(clocks=made.CLOCKS), "provenance.clocks must be null"),
    (lambda r: r["provenance"].update(instrument="events"), "provenance.gpu must be object"),
    (lambda r: r["records"][0]["problem"].pop("arch"), "records[0].problem lacks"),
    (lambda r: r["records"][0]["problem"].update(arch="80"), "records[0].problem.arch must match"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILED, ids=[m for _, m in SPOILED])
def test_the_schema_holds_both_kinds_of_file_apart(file, spoil, message):
    root = json.loads(file.read_text())
    spoil(root)
    file.write_text(json.dumps(root))
    with pytest.raises(InputError) as error:
        load(file)
    assert str(error.value).startswith(f"{file}: {message}")
