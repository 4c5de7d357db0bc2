"""A number of a row whose code is not this checkout's is marked."""

import json

import made
import pytest

from plots import bandwidth, claim_details, ledger
from plots.figures import add_caption, figure_style, panels, take_caption
from reprolab import code

OLD, NEW = "shared_lut", "branch_tree"


@pytest.fixture
def older(monkeypatch, tmp_path):
    """The digest of one kernel is listed as older."""
    compiled = made.code_of("sm_90", OLD)
    ((part, sha256),) = compiled["sha256"].items()
    row = {"part": part, "target": "sm_90", "sha256": sha256, "rows": {"replay.json": [OLD]}}
    file = tmp_path / "older_code.json"
    file.write_text(json.dumps({"older": [row], "codes": {}}))
    monkeypatch.setattr(code, "OLDER", file)


TIMES = {NEW: [4000.0, 4001.0, 4002.0], OLD: [2000.0, 2001.0, 2002.0]}


def test_times_and_ratios_of_older_code_are_marked(older):
    results = made.read(made.replay(TIMES))
    rows = bandwidth.measure(results, results.problems()[0]["name"], OLD)
    assert [code.OLDER_NOTE in rows[name].time_marks for name in (OLD, NEW)] == [True, False]
    assert bandwidth.over(rows[OLD], rows[NEW]).notes == (code.OLDER_NOTE,)
    assert bandwidth.over(rows[NEW], rows[NEW]).notes == ()
    (_, shown), *_ = bandwidth.bandwidth_table(results, "t", "t").body()[0]
    marks = {row[0][0].text: [mark for _, mark in row if mark] for row in shown}
    assert marks == {OLD: ["1"], NEW: []}
    brief = {"GPU": list(rows.values())}
    kernels = [row for row in bandwidth.table_by_gpu("t", brief).rows if "on GPU" in row]
    assert {row["kernel"] for row in kernels} == {OLD, NEW}
    for row in kernels:
        assert (code.OLDER_NOTE in row["on GPU"].notes) == (row["kernel"] == OLD)


def test_a_claim_that_rests_on_older_code_is_marked(older, tmp_path):
    (d,) = made.decisions(made.replay(TIMES), sources=made.with_claim("kernel-speedup")).values()
    assert any(v.of_older_code for v in d.verdicts)
    assert code.OLDER_NOTE in ledger.claim_row(d, "")["ours"].notes
    numbers = claim_details.numbers_table("numbers", [d]).rows
    measured = [row["our_value"] for row in numbers if row.get("our_value")]
    assert measured and all(code.OLDER_NOTE in value.notes for value in measured)
    assert "older kernel" in claim_details.page([d], tmp_path)


def test_nothing_is_marked_where_the_code_is_the_same():
    results = made.read(made.replay(TIMES))
    assert not any(map(code.is_older, results.records)) and code.older_notes(results) == []


def test_a_caption_names_the_kernels_of_older_code(older):
    results = made.read(made.replay(TIMES))
    with figure_style():
        drawn, _ = panels(3.0)
        add_caption(drawn, results)
    output = take_caption(drawn)
    assert f"older kernels than this checkout's: {OLD}." in output
