"""Runs of the cells, and their resumption, with a stand-in for the process that measures."""

import json
import os
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
from made import GPU
from make_targets import program

from experiments.end_to_end import __main__ as command
from reprolab import parts
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.results import load

QWEN = ("--model", "qwen3-32b")
OTHERS = (("NVIDIA H200", "NVIDIA H100 PCIe"), ("--quick", "--tokens"))  # GPU, command
ABORTED = "the process ended by SIGABRT"


@pytest.fixture
def set_faults(tmp_path, monkeypatch):
    """Sets the faults of the stand-in, which the command line runs."""
    file = tmp_path / "faults/faults.json"
    file.parent.mkdir()
    for folder in (ROOT, ROOT / "tests/claims", Path(__file__).parent):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    given = {"STAND_IN": str(file), "REPROLAB_COMMIT": "a" * 40, "REPROLAB_DIRTY": "0"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    python = tmp_path / "python"
    program(python, f'#!/bin/sh\nshift 2\nexec {sys.executable} -m stand_in "$@"\n')
    names_python = tmp_path / "names_python"
    names_python.write_text(f"{python}\n")
    monkeypatch.setattr(command, "PYTHON", names_python)
    monkeypatch.setattr(parts, "gpu_here", lambda: [GPU["name"], GPU["driver"]])
    write = lambda **faults: file.write_text(json.dumps(faults))  # noqa: E731
    write()
    return write


@pytest.fixture
def measure(set_faults, tmp_path, monkeypatch):
    """Runs the command: its exit status, or its error and that."""

    def call(*options):
        output = tmp_path / "results/end_to_end/timing.json"
        words = ["timing", "--output", str(output), "--quick", *map(str, options)]
        monkeypatch.setattr(sys, "argv", ["end_to_end", *words])
        try:
            return command.measure(command.parser().parse_args(words))
        except InputError as error:
            return str(error), error.status

    return call


@pytest.fixture
def cells(tmp_path):
    """The cells that were begun so far."""

    def call():
        file = tmp_path / "faults/cells"
        lines = file.read_text().splitlines() if file.exists() else []
        return [SimpleNamespace(**json.loads(line)) for line in lines]

    return call


@pytest.fixture
def output(tmp_path):
    return tmp_path / "results/end_to_end/timing.json"


def test_every_cell_is_measured_and_joined(measure, cells, output):
    assert measure() == 0
    joined = load(output, "end_to_end", "timing")
    assert {(r.problem["model"], r.problem["batch"], r.problem["way"]) for r in joined.records} == {
        (model, batch, mode)
        for model in ("gemma-2-27b", "qwen3-32b", "llama-3.3-70b")
        for batch in (2, 64)
        for mode in ("eager", "graph")
    }
    assert joined.provenance["argv"][:4] == ["python", "-m", "experiments.end_to_end", "timing"]
    assert len({cell.pid for cell in cells()}) == 3  # a process for each model
    assert len([model for model, _ in groupby(cells(), lambda cell: cell.model)]) == 3


def test_a_resumed_run_measures_what_is_missing(measure, cells, output, monkeypatch):
    measure()
    for part in (output.parent / "parts").glob("*.batch64.json"):
        part.unlink()
    assert measure("--resume") == 0
    assert [cell.batch for cell in cells()] == [2, 64] * 3 + [64] * 3
    assert "--resume" not in load(output).provenance["argv"]
    before = output.read_bytes()
    assert measure("--resume") == 0
    assert len(cells()) == 9 and output.read_bytes() == before
    part = output.parent / "parts/qwen3-32b.timing.batch2.json"
    text = part.read_text()
    for other in (text[:-20], *(text.replace(*pair) for pair in OTHERS)):
        part.write_text(other)
        assert measure("--resume") == 0 and output.read_bytes() == before
    assert [(cell.model, cell.batch) for cell in cells()[9:]] == [("qwen3-32b", 2)] * 3
    measure(*QWEN)
    assert len(cells()) == 14  # all of the model's without --resume
    monkeypatch.setenv("REPROLAB_COMMIT", "b" * 40)
    measure(*QWEN, "--resume")
    assert len(cells()) == 16 and load(output).provenance["commit"] == "b" * 40


def test_a_kernel_that_ends_the_process_costs_its_own_row(set_faults, measure, cells, output):
    set_faults(die_at="streaming")
    assert measure(*QWEN) == 1
    rows = {(r.kernel, r.outcome, r.reason) for r in load(output).records}
    assert ("streaming", "launch_failed", ABORTED) in rows
    assert {outcome for name, outcome, _ in rows if name != "streaming"} == {"bit_exact"}
    assert [cell.failed for cell in cells()] == [{}, {"streaming": ABORTED}] * 2


def test_a_row_that_was_not_measured_is_status_3_unless_an_output_is_wrong(set_faults, measure):
    only = (*QWEN, "--batches", "2", "--resume")
    for lost, wrong, status in (("streaming", "", 3), ("streaming", "shared_lut", 1)):
        set_faults(lost=[lost], wrong=[wrong])
        assert measure(*only) == status
    set_faults(wrong=["shared_lut"])
    for _ in range(2):  # also when it is only shown
        assert measure(*only) == 1


def test_a_process_that_dies_between_rows_fails_none(set_faults, measure, cells):
    set_faults(die_after=2)
    assert measure(*QWEN, "--batches", "2") == (f"qwen3-32b, batch 2: {ABORTED}", 3)
    assert [cell.failed for cell in cells()] == [{}]
    set_faults(die_after=64, wrong=["shared_lut"])
    error, status = measure(*QWEN)
    assert f"batch 64: {ABORTED}" in error and status == 1  # a wrong output outranks it


def test_a_refused_model_leaves_the_others(set_faults, measure, cells):
    set_faults(refuse=True)
    error, status = measure("--batches", "2")
    assert error.count("not all of it was measured") == 3 and status == 2
    assert len(cells()) == 3


def test_bad_input_is_one_line_before_anything_runs(measure, cells, tmp_path, monkeypatch):
    library = SimpleNamespace(kernels=lambda: ["branch_tree", "shared_lut", "streaming"])
    monkeypatch.setattr(command.reprolab_nf4, "Library", lambda: library)
    (tmp_path / "mine").mkdir()
    for options, noun in (
        (("--kernels", "nix"), "KERNELS: "),
        (("--model", tmp_path / "mine"), "/mine"),
    ):
        for dry in ([], ["--dry-run"]):
            error, status = measure(*options, *dry)
            assert noun in error and status == 2
    monkeypatch.setattr(command, "PYTHON", tmp_path / "gone")
    assert "gone: " in measure()[0]
    assert measure("--dry-run") == 0
    assert not (tmp_path / "results/end_to_end/timing.json").exists() and cells() == []
