"""Runs of the cells, and their resumption, with a stand-in for the process that measures."""

import json
import os
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
from make_targets import program

from experiments.end_to_end import __main__ as command
from experiments.end_to_end import partial_results, plan
from reprolab.errors import InputError
from reprolab.json_files import ROOT
from reprolab.results import load

COMMIT, INSTALLED = "a" * 40, "Python 3.12.3, torch 2.11.0, bitsandbytes 0.50.2"
QWEN = ("--model", "qwen3-32b")
ABORTED = "the process ended by SIGABRT"


@pytest.fixture
def set_faults(tmp_path, monkeypatch):
    """Sets the faults of the stand-in, which the command line runs."""
    file = tmp_path / "faults/faults.json"
    file.parent.mkdir()
    for folder in (ROOT, ROOT / "tests/claims", Path(__file__).parent):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    for name, value in {"STAND_IN": str(file), "INSTALLED": INSTALLED}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("REPROLAB_COMMIT", COMMIT)
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    python = tmp_path / "python"
    program(python, f'#!/bin/sh\nshift 2\nexec {sys.executable} -m stand_in "$@"\n')
    names_python = tmp_path / "names_python"
    names_python.write_text(f"{python}\n")
    monkeypatch.setattr(command, "PYTHON", names_python)
    monkeypatch.setattr(command, "gpu_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(command, "installed_versions", lambda: INSTALLED)
    write = lambda **faults: file.write_text(json.dumps(faults))  # noqa: E731
    write()
    return write


@pytest.fixture
def measure(set_faults, tmp_path, monkeypatch):
    """Runs the command: its exit status."""

    def call(*options):
        output = tmp_path / "results/end_to_end/timing.json"
        words = ["timing", "--output", str(output), "--quick", *map(str, options)]
        monkeypatch.setattr(sys, "argv", ["end_to_end", *words])
        return command.measure(command.parser().parse_args(words))

    return call


@pytest.fixture
def fault(measure):
    """The command's error, and its exit status."""

    def call(*options):
        with pytest.raises(InputError) as error:
            measure(*options)
        return str(error.value), error.value.status

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


def batches(output):
    return {record.problem["batch"] for record in load(output).records}


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
    assert "--model" not in joined.provenance["argv"]
    assert len({cell.pid for cell in cells()}) == 3  # a process for each model
    assert len([model for model, _ in groupby(cells(), lambda cell: cell.model)]) == 3


def test_a_run_goes_on_where_it_stopped(measure, cells, output, capsys):
    measure("--batches", "2")
    assert len(cells()) == 3
    measure()
    assert [cell.batch for cell in cells()] == [2] * 3 + [64] * 3
    assert "3 of 6 cells" in capsys.readouterr().out
    before = output.read_bytes()
    measure("--batches", "64")  # fewer batches now: the others stay in the file
    assert len(cells()) == 6 and output.read_bytes() == before
    (partial,) = (output.parent / "parts").glob("qwen3-32b.timing.batch2.*.json")
    # Measured again: a damaged one, one of another pass or batch under its name.
    text = partial.read_text()
    others = [text[:-20], text.replace('"timing"', '"profile"', 1)]
    others += [text.replace('"batch": 2', '"batch": 64')]
    for i, other in enumerate(others):
        assert other != text
        partial.write_text(other)
        measure()
        assert [(cell.model, cell.batch) for cell in cells()[6 + i :]] == [("qwen3-32b", 2)]


def test_other_choices_are_another_run(tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"tokens": [1, 2]}')
    changes = [{}, {"tokens": "9"}, {"kernels": "global_lut"}]
    changes += [{"prompts_file": str(tmp_path / "prompts.jsonl")}]
    runs = [partial_results.run_of(plan.choose(**change), INSTALLED) for change in changes]
    library = tmp_path / "libbitsandbytes_cuda130.so"
    for text in ("one", "another"):
        library.write_text(text)
        choices = plan.choose(peers=[f"own={library}"])
        runs.append(partial_results.run_of(choices, INSTALLED))
    runs.append(partial_results.run_of(plan.choose(), "another bitsandbytes"))
    assert len(set(runs)) == len(runs) == 7


def test_rows_of_other_sources_or_gpus_are_not_joined(measure, cells, output, monkeypatch):
    measure(*QWEN)
    monkeypatch.setenv("REPROLAB_COMMIT", "b" * 40)
    measure(*QWEN, "--batches", "2")
    assert load(output).provenance["commit"] == "b" * 40
    assert batches(output) == {2}  # 64 is of the other sources
    (partial,) = (output.parent / "parts").glob("*.batch2.*.json")
    partial.write_text(partial.read_text().replace("NVIDIA H200", "NVIDIA H100 PCIe"))
    measure(*QWEN, "--batches", "64")
    assert (load(output).gpu, batches(output)) == ("NVIDIA H200", {64})
    assert [cell.batch for cell in cells()] == [2, 64, 2, 64]


def test_a_kernel_that_ends_the_process_costs_its_own_row(set_faults, measure, cells, output):
    set_faults(die_at="streaming")
    assert measure(*QWEN) == 1
    rows = {(r.kernel, r.outcome, r.reason) for r in load(output).records}
    assert ("streaming", "launch_failed", ABORTED) in rows
    assert {outcome for name, outcome, _ in rows if name != "streaming"} == {"bit_exact"}
    assert [cell.failed for cell in cells()] == [{}, {"streaming": ABORTED}] * 2


def test_a_row_that_was_not_measured_is_status_3_unless_an_output_is_wrong(
    set_faults, measure, output
):
    only = (*QWEN, "--batches", "2")
    set_faults(lost=["streaming"])
    assert measure(*only) == 3
    assert ("streaming", "not_measured") in {(r.kernel, r.outcome) for r in load(output).records}
    set_faults(lost=["streaming"], wrong=["shared_lut"])
    assert measure(*only) == 1
    set_faults(wrong=["shared_lut"])
    for _ in range(2):  # also when it is only shown
        assert measure(*only) == 1


def test_a_process_that_dies_between_rows_fails_none(set_faults, fault, cells):
    set_faults(die_after=2)
    assert fault(*QWEN, "--batches", "2") == (f"qwen3-32b, batch 2: {ABORTED}", 3)
    assert [cell.failed for cell in cells()] == [{}]
    set_faults(die_after=64, wrong=["shared_lut"])
    error, status = fault(*QWEN)
    assert f"batch 64: {ABORTED}" in error and status == 1  # a wrong output outranks it


def test_a_refused_model_leaves_the_others(set_faults, fault, cells):
    set_faults(refuse=True)
    error, status = fault("--batches", "2")
    assert error.count("not all of it was measured") == 3 and status == 2
    assert len(cells()) == 3


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_bad_input_is_one_line_before_anything_runs(fault, cells, tmp_path, monkeypatch, dry):
    library = SimpleNamespace(kernels=lambda: ["branch_tree", "shared_lut", "streaming"])
    monkeypatch.setattr(command.reprolab_nf4, "Library", lambda: library)
    (tmp_path / "mine").mkdir()
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"tokens": [1]}\n{"tokens": [2, 152000]}\n')
    for options, noun in (
        (("--kernels", "nix"), "KERNELS: "),
        (("--model", tmp_path / "mine"), "/mine: "),
        (("--clocks", "1410"), "CLOCKS: "),
        (("--prompts", prompts), "PROMPTS: "),
    ):
        assert noun in fault(*options, *dry)[0]
    assert cells() == []


def test_without_a_python_that_has_torch(fault, tmp_path):
    command.PYTHON.write_text(f"{tmp_path}/gone\n")
    assert "No such file" in fault(*QWEN, "--batches", "2")[0]
    command.PYTHON.unlink()
    assert "names_python: " in fault()[0]


def test_a_dry_run_measures_nothing(measure, cells, capsys, tmp_path):
    assert measure("--dry-run") == 0
    assert not (tmp_path / "results").exists() and cells() == []
    assert "GB of GPU memory" in capsys.readouterr().out
