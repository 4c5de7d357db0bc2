"""Facts of compiled code as a result file, and what claims/ and plots/ make of it."""

import json

import made
import pytest
import test_facts
import written
from sass import result_file

from claims.evidence import machines
from records.errors import InputError
from records.provenance import checkout
from records.results import Code, load

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
