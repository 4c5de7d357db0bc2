"""The claim on versions of PyTorch and bitsandbytes: each way that it can go."""

import json

import made
import pytest

from claims.published import load_source


def generation():
    metrics = [made.metric("wall_time", [4e6] * 3)]
    rows = [made.record(made.generated("qwen3-32b", 2), "branch_tree", metrics=metrics)]
    return made.results("end_to_end", "timing", rows)


def environment(torch="2.11.0+cu130", bitsandbytes="0.50.2", sources=None):
    timing = generation()
    versions = {"Python": "3.12.3", "torch": torch, "bitsandbytes": bitsandbytes}
    timing["provenance"]["build"]["versions"] = versions
    return made.decided(timing, sources=sources)["environment", ""]


def test_a_bitsandbytes_that_asks_for_a_newer_pytorch():
    found = environment()
    assert found.verdict == "premise_false"
    assert found.reason == (
        "bitsandbytes 0.47.0 asks for PyTorch 2.2 or newer, which 2.1 is not; "
        "here torch 2.11.0+cu130 and bitsandbytes 0.50.2 ran"
    )
    assert len(found.evidence) == 1


@pytest.mark.parametrize(
    ("torch", "bitsandbytes", "expected"),
    [
        ("2.1.2+cu121", "0.47.0", "reproduced"),
        ("2.1.0", "0.47.0.dev0", "reproduced"),
        ("2.10.0", "0.47.0", "premise_false"),
        ("2.1.2", "0.47.1", "premise_false"),
    ],
)
def test_versions_that_ran_here_need_no_declaration(torch, bitsandbytes, expected):
    assert environment(torch, bitsandbytes).verdict == expected


def test_versions_that_fit_were_yet_not_tried(tmp_path):
    paper = json.loads((made.PUBLISHED / "paper.json").read_text())
    paper["setup"]["pytorch"] = "2.10"  # which is newer than 2.2
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    found = environment(sources=[load_source(tmp_path / "paper.json")])
    assert found.verdict == "not_testable"
    assert ", and 2.10 was not tried; here torch 2.11.0+cu130 and " in found.reason


def test_a_run_before_versions_were_recorded():
    found = made.decided(generation())["environment", ""]
    assert found.verdict == "premise_false"
    assert found.reason.endswith("is not; its file lists no versions of what ran here")
    assert made.decided()["environment", ""].verdict == "not_tested"
