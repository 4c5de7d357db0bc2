"""Facts of compiled code as a result file, and its use in claims/."""

import pytest
import test_facts
import written
from sass import result_file

from reprolab.results import Code, load


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(result_file.tools, "nvcc_version", lambda: "13.0.88")
    path = tmp_path / "counters/sass.json"
    another = written.facts("LDS R1, [R2]\nEXIT", "transpose", "another")
    facts = [written.facts(test_facts.TABLE), another]
    result_file.write(path, facts, ["sass", "facts", "--output=x"], started=1795161600.0)
    return path


def test_it_is_read_as_any_other(file):
    results = load(file, "counters", "sass")
    assert results.gpu is None and results.provenance["build"]["nvcc"] == "13.0.88"
    record = results.find("sm_80", "written")
    assert (record.outcome, record.reason) == ("not_verified", result_file.NOTHING_RAN)
    assert record.problem["arch"] == "sm_80"
    assert record.code == Code("sm_80", {"kernels/nf4/written.cu": "1" * 64})
    assert not record.timed and record.bandwidth is None
    assert record.metric("sass_index_per_weight.all").samples == (1,)
    assert record.metric("sass_registers").unit == "registers"
    missing = results.find("sm_80", "another").metric("sass_instructions_per_element.all")
    assert (missing.samples, missing.missing) == ((), "the kernel stores nothing on sm_80")
