"""The rate of wrong comparisons of equal runs: the command that counts them, and its record."""

import json
import re

import numpy as np
import pytest
from edited import scale

from plots.cli import main
from reprolab import run_to_run
from reprolab.json_files import ROOT, read_json
from reprolab.run_to_run import RUN_TO_RUN, recorded_budgets


@pytest.fixture
def runs(edited):
    """Five runs: each row differs by 0.1 % or so from that of another run."""
    edited_runs = []
    for i in range(5):
        run, rng = edited("table2", str(i)), np.random.default_rng(i)
        run.provenance(started=f"2027-01-0{i + 1}T00:00:00Z")
        for row in run.rows():
            scale([row], np.exp(rng.normal(0, 0.001)))
        edited_runs.append(run)
    return edited_runs


@pytest.fixture
def repetitions(capsys):
    def run(runs, *options):
        status = main(["repetitions", *(str(run.write()) for run in runs), *options])
        return status, *capsys.readouterr()

    return run


def counts(text, kind, noun):
    """'0 of 460', of the rows or the kernels"""
    return re.search(rf"^{kind}: (\d+ of \d+) {noun} \(", text, re.M)[1]


def test_equal_runs_and_one_with_a_slow_kernel(runs, repetitions):
    status, text, _ = repetitions(runs)
    assert status == 0 and counts(text, "kernel_time", "rows") == "0 of 560"
    assert counts(text, "kernel_time", "kernels") == "0 of 280"
    assert "\nIn 0 of 10 comparisons " in text
    assert "NVIDIA H200, 2027-01-01 to 2027-01-05\n" in text
    scale(runs[2].rows("*", "shared_lut"), 1.05, "kernel_time")
    _, text, _ = repetitions(runs)
    assert counts(text, "kernel_time", "rows") == "16 of 560"
    assert counts(text, "kernel_time", "kernels") == "8 of 280"
    assert "\nIn 4 of 10 comparisons " in text  # each with that run
    _, text, _ = repetitions(runs, "--kernel", "!shared_lut|streaming")
    assert counts(text, "kernel_time", "rows") == "0 of 480"
    for row in runs[2].rows("*", "shared_lut"):
        row["code"]["sha256"] = dict.fromkeys(row["code"]["sha256"], "0" * 64)
    _, text, _ = repetitions(runs)
    assert counts(text, "kernel_time", "rows") == "0 of 544"  # without rows of other code
    assert text.split()[-4] == "26"  # nor does it say what runs differ by: of 28 products


def test_compare_reads_the_written_spread(runs, repetitions, tmp_path, monkeypatch):
    file = tmp_path / "run_to_run.json"
    assert repetitions(runs, "--write", str(file))[0] == 0
    monkeypatch.setattr(run_to_run, "RUN_TO_RUN", file)
    spread = recorded_budgets()["NVIDIA H200"].spread
    assert spread.keys() == {"kernel_time", "ceiling_kernel_time", "product_time"}
    assert all(0.07 < c.percent < 0.13 for classes in spread.values() for c in classes[-1:])
    written = json.loads(file.read_text())["gpus"]["NVIDIA H200"]
    assert written["source"].endswith("NVIDIA H200, 2027-01-01 to 2027-01-05")
    for run in runs:
        run.provenance(gpu={"name": "NVIDIA A100"})
    assert repetitions(runs, "--write", str(file))[0] == 0
    both = json.loads(file.read_text())["gpus"]
    assert list(both) == ["NVIDIA H200", "NVIDIA A100"] and both["NVIDIA H200"] == written


def test_other_runs_than_repetitions_are_refused(runs, repetitions):
    def refused(*arguments):
        status, _, error = repetitions(*arguments)
        assert status == 2 and error.count("\n") == 1
        return error

    assert "not 3" in refused(runs[:3])
    runs[4].provenance(gpu={"name": "NVIDIA A100"})
    assert "NVIDIA A100, NVIDIA H200" in refused(runs)
    runs[4].provenance(gpu={"name": "NVIDIA H200"}, started="2027-01-01T00:00:00Z")
    assert "replay.json" in refused(runs)
    runs[4].provenance(gpu={"unit": "0123456789abcdef"})
    assert repetitions(runs)[0] == 0
    assert "row" in refused(runs[:4], "--kernel", "none")


@pytest.mark.parametrize("gpu", read_json(RUN_TO_RUN)["gpus"])
def test_the_page_says_what_the_command_does(gpu, capsys, tmp_path, monkeypatch):
    recorded, again = read_json(RUN_TO_RUN)["gpus"][gpu], tmp_path / "again.json"
    monkeypatch.chdir(ROOT)
    arguments = [*recorded["runs"], "--kernel", recorded["kernels"]]
    assert main(["repetitions", *arguments, "--write", str(again)]) == 0
    assert read_json(again)["gpus"] == {gpu: recorded}
    page = " ".join((ROOT / "docs/comparing-runs.md").read_text().split())
    *kinds, in_all = capsys.readouterr().out.splitlines()[:7]
    for line in kinds:
        assert line.replace(": ", " ").removesuffix(" slower or faster") in page
    assert in_all.partition(" comparisons")[0].removeprefix("In ") + " comparisons" in page
