"""How often comparisons of equal runs are wrong: the command that counts it, and its record."""

import json

import numpy as np
import pytest
from edited import scale

from plots.cli import main
from records import comparison
from records.comparison import RUN_TO_RUN, recorded_spread
from records.json_files import ROOT, read_json
from records.provenance import git


@pytest.fixture
def runs(edited):
    """Five: each row of one differs from that of another by 0.1 % or so."""
    found = []
    for i in range(5):
        run, rng = edited("table2", str(i)), np.random.default_rng(i)
        run.provenance(started=f"2027-01-0{i + 1}T00:00:00Z")
        for row in run.rows():
            scale([row], np.exp(rng.normal(0, 0.001)))
        found.append(run)
    return found


@pytest.fixture
def repetitions(capsys):
    def run(runs, *options):
        status = main(["repetitions", *(str(run.write()) for run in runs), *options])
        return status, *capsys.readouterr()

    return run


def test_equal_runs_and_one_with_a_slow_kernel(runs, repetitions):
    status, text, _ = repetitions(runs)
    assert status == 0 and text.startswith("kernel_time: 0 of 620 rows (0.00 %) slower or faster\n")
    assert "\nIn 0 of 10 comparisons of 5 runs, threshold 1 %.\n" in text
    assert "5 runs on NVIDIA H200, 2027-01-01 to 2027-01-05\n" in text
    scale(runs[2].rows("*", "shared_lut"), 1.05, "kernel_time")
    _, text, _ = repetitions(runs)
    assert text.startswith("kernel_time: 16 of 620 rows (2.58 %) slower or faster\n")
    assert "\nIn 4 of 10 comparisons of 5 runs, " in text  # each with that run
    _, text, _ = repetitions(runs, "--kernel", "!shared_lut|streaming")
    assert text.startswith("kernel_time: 0 of 540 rows ")
    for row in runs[2].rows("*", "shared_lut"):
        row["code"]["sha256"] = dict.fromkeys(row["code"]["sha256"], "0" * 64)
    _, text, _ = repetitions(runs)
    assert text.startswith("kernel_time: 0 of 604 rows ")  # other code is no repetition
    assert text.split()[-2] == "24"  # nor does it say what runs differ by: of 26 products


def test_what_it_writes_is_what_compare_reads(runs, repetitions, tmp_path, monkeypatch):
    file = tmp_path / "run_to_run.json"
    assert repetitions(runs, "--write", str(file))[0] == 0
    monkeypatch.setattr(comparison, "RUN_TO_RUN", file)
    spread = recorded_spread()
    assert spread.keys() == {"kernel_time", "product_time"}
    assert all(0.08 < c.percent < 0.12 for found in spread.values() for c in found[-1:])
    assert json.loads(file.read_text())["source"] == (
        "5 runs on NVIDIA H200, 2027-01-01 to 2027-01-05"
    )


def test_what_are_no_repetitions_is_one_line(runs, repetitions):
    status, _, error = repetitions(runs[:3])
    assert (status, error) == (2, "error: give 4 runs or more, not 3\n")
    runs[4].provenance(gpu={"name": "NVIDIA A100"})
    said = "error: the runs are of 2 kinds of GPU: NVIDIA A100, NVIDIA H200\n"
    assert repetitions(runs)[::2] == (2, said)
    runs[4].provenance(gpu={"name": "NVIDIA H200"}, started="2027-01-01T00:00:00Z")
    status, _, error = repetitions(runs)
    assert status == 2 and error.endswith("/4 hold the same measurement of replay.json\n")
    runs[4].provenance(gpu={"unit": "0123456789abcdef"})
    assert repetitions(runs)[0] == 0
    assert repetitions(runs[:4], "--kernel", "none")[::2] == (
        2,
        "error: these runs have no row in common that has times\n",
    )


def test_what_is_recorded_is_of_the_runs_that_it_names(capsys, tmp_path):
    """And the page on it says what the command does."""
    recorded = read_json(RUN_TO_RUN)
    if not all(git("rev-parse", "--verify", run.split(":")[0]) for run in recorded["runs"]):
        pytest.skip("the history is not here")
    given = [*recorded["runs"], "--kernel", recorded["kernels"]]
    assert main(["repetitions", *given, "--write", str(tmp_path / "again.json")]) == 0
    assert read_json(tmp_path / "again.json") == recorded
    page = " ".join((ROOT / "docs/comparing-runs.md").read_text().split())
    lines = capsys.readouterr().out.splitlines()
    for line in lines[:2]:
        assert line.replace(": ", " ").removesuffix(" slower or faster") in page
    assert lines[2].startswith("In 1 of 15 comparisons") and "one of the 15 comparisons" in page
