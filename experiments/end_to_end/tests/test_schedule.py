"""Distribution of cells to processes, and resumption of a run: with a stand-in in processes of its
own, which measures nothing.
"""

import json
import os
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
from make_targets import program

from experiments import gpus
from experiments.end_to_end import __main__ as command
from experiments.end_to_end import partial_results, plan, schedule
from experiments.end_to_end.plan import Job
from reprolab.errors import InputError
from reprolab.results import result_files
from reprolab.json_files import ROOT
from reprolab.results import load
from reprolab.sources import Sources

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
    monkeypatch.setenv("STAND_IN", str(file))
    monkeypatch.setenv("REPROLAB_COMMIT", COMMIT)
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    python = tmp_path / "python"
    # Instead of measure.py the stand-in runs.
    program(python, f'#!/bin/sh\nexec {sys.executable} -m stand_in "$3"\n')
    python_file = tmp_path / "names_python"
    python_file.write_text(f"{python}\n")
    monkeypatch.setattr(command, "PYTHON", python_file)
    for module in (command, gpus):
        monkeypatch.setattr(module, "gpu_name", lambda number: "NVIDIA H200")
    monkeypatch.setattr(command, "free_bytes", lambda number: 10**11)
    monkeypatch.setattr(command, "installed_versions", lambda: INSTALLED)
    write = lambda **faults: file.write_text(json.dumps(faults))  # noqa: E731
    write()
    return write


@pytest.fixture
def measure(set_faults, tmp_path):
    """Runs the command: its exit status."""

    def call(*options, pass_name="timing"):
        output = tmp_path / f"results/end_to_end/{pass_name}.json"
        words = [pass_name, "--output", str(output), "--quick", *map(str, options)]
        args = command.parser().parse_args(words)
        return command.measure(args)

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
def jobs(tmp_path):
    """The jobs that the processes got so far."""

    def call():
        file = tmp_path / "faults/jobs"
        lines = file.read_text().splitlines() if file.exists() else []
        return [SimpleNamespace(**json.loads(line)) for line in lines]

    return call


@pytest.fixture
def output(tmp_path):
    return tmp_path / "results/end_to_end/timing.json"


def test_every_cell_is_measured_and_joined(measure, jobs, output, tmp_path, capsys):
    assert measure() == 0
    joined = load(output, "end_to_end", "timing")
    assert {(r.problem["model"], r.problem["batch"], r.problem["way"]) for r in joined.records} == {
        (model, batch, mode)
        for model in ("gemma-2-27b", "qwen3-32b", "llama-3.3-70b")
        for batch in (2, 64)
        for mode in ("eager", "graph")
    }
    assert joined.provenance["argv"][:3] == ["python", "-m", "experiments.end_to_end"]
    assert len(list((output.parent / "parts").iterdir())) == 6
    assert len({job.pid for job in jobs()}) == 1  # one GPU, one process
    models = [model for model, _ in groupby(jobs(), lambda job: job.model)]
    assert len(models) == 3  # all of a model's cells together
    captured = capsys.readouterr()
    assert "0 of 6 cells" in captured.out
    assert captured.err.count("\n") == 6
    assert "100 %, 6 of 6 cells, all done" in captured.err.splitlines()[-1]
    # Partial results are no evidence of their own.
    assert [r.file for r in result_files(tmp_path / "results")] == [output]


def test_a_run_goes_on_where_it_stopped(measure, jobs, output, capsys):
    measure("--batches", "2")
    assert len(jobs()) == 3
    measure()
    assert [job.batch for job in jobs()] == [2] * 3 + [64] * 3
    assert "3 of 6 cells" in capsys.readouterr().out
    before = output.read_bytes()
    assert measure() == 0
    assert "6 of 6 cells" in capsys.readouterr().out
    measure("--batches", "64")  # fewer batches now: the others stay in the file
    assert len(jobs()) == 6
    assert output.read_bytes() == before
    (partial,) = (output.parent / "parts").glob("qwen3-32b.timing.batch2.*.json")
    # Measured again: a damaged one, one of another pass or batch under its name, one without rows.
    text = partial.read_text()
    others = [
        text[:-20],
        text.replace('"timing"', '"profile"', 1),
        text.replace('"batch": 2', '"batch": 64'),
        json.dumps(json.loads(text) | {"records": []}),
    ]
    for i, other in enumerate(others):
        assert other != text
        partial.write_text(other)
        measure()
        assert [(job.model, job.batch) for job in jobs()[6 + i :]] == [("qwen3-32b", 2)]


def test_other_choices_are_another_run(tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"tokens": [1, 2]}')
    (tmp_path / "other.jsonl").write_text('{"tokens": [1, 3]}')
    changes = [{}, {"tokens": "9"}, {"kernels": "global_lut"}]
    changes += [{"prompts_file": str(file)} for file in tmp_path.glob("*.jsonl")]
    runs = [partial_results.run_of(plan.choose(**change), INSTALLED) for change in changes]
    library = tmp_path / "libbitsandbytes_cuda130.so"
    for text in ("one", "another"):
        library.write_text(text)
        choices = plan.choose(peers=[f"own={library}"])
        runs.append(partial_results.run_of(choices, INSTALLED))
    runs.append(partial_results.run_of(plan.choose(), "another bitsandbytes"))
    assert len(set(runs)) == len(runs) == 8


def test_rows_of_other_sources_are_measured_again(measure, jobs, output, monkeypatch):
    measure(*QWEN)
    monkeypatch.setenv("REPROLAB_COMMIT", "b" * 40)
    measure(*QWEN, "--batches", "2")
    joined = load(output)
    assert joined.provenance["commit"] == "b" * 40
    assert {r.problem["batch"] for r in joined.records} == {2}  # 64 is of the other sources
    monkeypatch.setenv("REPROLAB_DIRTY", "1")  # the sources of older ones are unknown
    for _ in range(2):
        measure(*QWEN, "--batches", "2")
    measure(*QWEN, "--batches", "64")
    assert {r.problem["batch"] for r in load(output).records} == {64}
    assert [job.batch for job in jobs()] == [2, 64, 2, 2, 2, 64]


def test_rows_of_another_gpu_are_left_out(measure, output):
    measure(*QWEN, "--batches", "2")
    (partial,) = (output.parent / "parts").iterdir()
    partial.write_text(partial.read_text().replace("NVIDIA H200", "NVIDIA H100 PCIe"))
    measure(*QWEN, "--batches", "64")
    joined = load(output)
    assert (joined.gpu, {r.problem["batch"] for r in joined.records}) == ("NVIDIA H200", {64})


def test_a_kernel_that_ends_the_process_costs_its_own_row(set_faults, measure, jobs, output):
    set_faults(die_at="streaming")
    assert measure(*QWEN) == 1
    rows = {(r.kernel, r.outcome, r.reason) for r in load(output).records}
    assert ("streaming", "launch_failed", ABORTED) in rows
    assert {outcome for name, outcome, _ in rows if name != "streaming"} == {"bit_exact"}
    assert [job.failed for job in jobs()] == [{}, {"streaming": ABORTED}] * 2
    assert len({job.pid for job in jobs()}) == 3


def test_a_row_that_was_not_measured_is_status_3_unless_an_output_is_wrong(
    set_faults, measure, output, monkeypatch
):
    only = (*QWEN, "--batches", "2")
    set_faults(lost=["streaming"])
    assert measure(*only) == 3
    outcomes = {(r.kernel, r.outcome) for r in load(output).records}
    assert ("streaming", "not_measured") in outcomes
    assert {name for name, outcome in outcomes if outcome == "bit_exact"} > {"shared_lut"}
    set_faults(lost=["streaming"], wrong=["shared_lut"])
    assert measure(*only) == 1
    set_faults(wrong=["shared_lut"])
    for _ in range(2):  # also when it is only shown
        assert measure(*only) == 1
    monkeypatch.setenv("REPROLAB_COMMIT", "b" * 40)  # all is measured again
    set_faults()
    assert measure(*only) == 0


def test_a_process_that_dies_between_rows_fails_none(set_faults, fault, jobs):
    set_faults(die_after=True)
    error, status = fault(*QWEN, "--batches", "2")
    assert f"batch 2: {ABORTED}" in error and status == 3
    assert [job.failed for job in jobs()] == [{}]
    set_faults(die_after=64, wrong=["shared_lut"])
    error, status = fault(*QWEN)
    assert f"batch 64: {ABORTED}" in error and status == 1  # a wrong output outranks it


def test_a_refusal_of_a_process_is_reported_and_others_go_on(set_faults, fault, jobs, output):
    set_faults(refuse="x: cannot be loaded")
    error, status = fault(*QWEN)
    assert "cannot be loaded" in error and status == 2
    assert len(jobs()) == 2
    assert "batch 2 and 3 others" in fault(*QWEN, "--batches", "2,4,8,16")[0]
    assert "from a library" in output.with_suffix(".log").read_text()


ABSENT = "the process ended with status 1 without a message; is there such a GPU?"


def test_a_dead_gpu_leaves_its_cells_to_the_others(set_faults, fault, jobs, output):
    set_faults(dead=["1"])
    assert fault("--gpus", "0,1") == (f"GPU 1: {ABSENT} (log: {output.with_suffix('.log')})", 3)
    assert {job.gpu for job in jobs()} == {"0"}
    assert len({(r.problem["model"], r.problem["batch"]) for r in load(output).records}) == 6


def test_without_a_living_gpu_nothing_is_measured(set_faults, fault, output):
    set_faults(dead=["0", "1"])
    log = output.with_suffix(".log")
    dead, cells = fault("--gpus", "0,1")[0].split(f" (log: {log}); ")
    assert dead in (f"GPU 0 and 1 other: {ABSENT}", f"GPU 1 and 1 other: {ABSENT}")
    assert cells.endswith(f" 5 others: no GPU is left (log: {log})")
    assert not output.exists()


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_bad_input_is_one_line_before_anything_runs(fault, jobs, tmp_path, monkeypatch, dry):
    kernels = ["branch_tree", "shared_lut", "streaming"]
    library = SimpleNamespace(kernels=lambda: kernels)
    monkeypatch.setattr(command.reprolab_nf4, "Library", lambda: library)
    (tmp_path / "mine").mkdir()
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"tokens": [1]}\n{"tokens": [2, 152000]}\n')
    for options, noun in (
        (("--kernels", "nix"), "KERNELS: "),
        (("--model", tmp_path / "mine"), "/mine: "),
        (("--clocks", "1410"), "CLOCKS: "),
        (("--gpus", ","), "GPUS: "),
        (("--prompts", prompts), "PROMPTS: "),
    ):
        assert noun in fault(*options, *dry)[0]
    assert jobs() == []


def test_kernels_of_a_library_that_is_not_built_are_left_to_the_run(measure, tmp_path, monkeypatch):
    monkeypatch.setattr("reprolab_nf4.BUILT", tmp_path / "none.so")
    assert measure(*QWEN, "--batches", "2", "--kernels", "new") == 0


def test_a_process_that_sends_nothing_is_ended(set_faults, fault, monkeypatch):
    monkeypatch.setattr(schedule, "TIMEOUT_S", 4)  # longer than a busy machine starts a process
    set_faults(silent=True)
    error, _ = fault(*QWEN, "--batches", "2", "--kernels", "branch_tree")
    assert "batch 2: " in error and "4 s" in error


def test_several_gpus_have_a_process_each(measure, jobs, monkeypatch):
    cpu = max(os.sched_getaffinity(0))
    monkeypatch.setattr(gpus, "own_cpus", lambda: {gpu: {cpu} for gpu in "012"})
    assert measure("--gpus", "0,1,2") == 0
    assert {job.gpu for job in jobs()} <= {"0", "1", "2"}
    assert len({job.pid for job in jobs()}) == len({job.gpu for job in jobs()}) > 1
    assert len(jobs()) == 6
    assert all(job.cpus == [cpu] for job in jobs())


def test_without_a_python_that_has_torch(fault, tmp_path):
    command.PYTHON.write_text(f"{tmp_path}/gone\n")
    error, _ = fault(*QWEN, "--batches", "2")
    assert error.startswith("GPU 0: ") and "No such file" in error
    command.PYTHON.unlink()
    assert "names_python: " in fault()[0]


def test_a_dry_run_measures_nothing(measure, jobs, capsys, tmp_path):
    assert measure("--dry-run", pass_name="profile") == 0
    assert not (tmp_path / "results").exists() and jobs() == []
    text = capsys.readouterr().out
    assert "GB of GPU memory" in text
    measure("--dry-run", "--tokens", "16", "--gpus", "0,1")
    text = capsys.readouterr().out
    assert "2 H200s" in text and "may not fit" not in text


def test_a_dry_run_lists_models_that_do_not_fit(measure, capsys, monkeypatch):
    monkeypatch.setattr(command, "free_bytes", {"0": None, "1": 40 * 10**9}.get)
    measure("--dry-run", "--gpus", "0,1")
    line = capsys.readouterr().out.splitlines()[-1]
    assert "may not fit" in line and "llama-3.3-70b, batch 64 " in line
    measure("--dry-run")
    assert "may not fit" not in capsys.readouterr().out


def test_taking_cells_prefers_the_model_that_is_loaded():
    cells = plan.cells(plan.choose(quick=True), "timing")
    todo = [Job(cell, Path(cell.name), [], Sources(COMMIT, False, "c" * 64)) for cell in cells]
    scheduler = schedule.Scheduler(todo, None, None)

    def took(gpu):
        todo.remove(job := scheduler.choose(gpu, todo))
        return job.cell.text

    assert took("0") == "llama-3.3-70b, batch 2"  # most is left to do
    assert [took("1"), took("1")] == ["qwen3-32b, batch 2", "qwen3-32b, batch 64"]
    # Cells that no other GPU has, then the rest.
    rest = ["gemma-2-27b, batch 2", "gemma-2-27b, batch 64", "llama-3.3-70b, batch 64"]
    assert [took("1") for _ in range(3)] == rest and not todo
