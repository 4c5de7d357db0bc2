"""Cells that are given to processes, and a run that is taken up again: with a stand-in in
processes of its own, which measures nothing.
"""

import json
import os
import sys
from itertools import groupby
from types import SimpleNamespace

import made
import pytest

from experiments import gpus
from experiments.end_to_end import __main__ as command
from experiments.end_to_end import partial_results, plan, schedule
from experiments.end_to_end.plan import Cell
from records import parts
from records.json_files import ROOT
from records.results import load

COMMIT, INSTALLED = "a" * 40, "Python 3.12.3, torch 2.11.0, bitsandbytes 0.50.2"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Says what goes wrong; the command line runs the stand-in."""
    file = tmp_path / "told/told.json"
    file.parent.mkdir()
    file.write_text("{}")
    for folder in (ROOT, ROOT / "tests/claims", ROOT / "tests/end_to_end"):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("STAND_IN", str(file))
    monkeypatch.setenv("REPROLAB_COMMIT", COMMIT)
    monkeypatch.setenv("REPROLAB_DIRTY", "0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    python = tmp_path / "python"
    # The program that is told to run measure.py runs the stand-in.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -m stand_in "$3"\n')
    python.chmod(0o755)
    named = tmp_path / "names_python"
    named.write_text(f"{python}\n")
    monkeypatch.setattr(command, "PYTHON", named)
    for module in (command, gpus):
        monkeypatch.setattr(module, "gpu_name", lambda number: "NVIDIA H200")
    monkeypatch.setattr(command, "free_bytes", lambda number: 10**11)
    monkeypatch.setattr(command, "installed", lambda: INSTALLED)
    return file


def jobs(told):
    file = told.with_name("jobs")
    lines = file.read_text().splitlines() if file.exists() else []
    return [SimpleNamespace(**json.loads(line)) for line in lines]


def measure(folder, *options, pass_name="timing"):
    output = folder / f"results/end_to_end/{pass_name}.json"
    arguments = [pass_name, "--output", str(output), "--quick", *options]
    args = command.parser().parse_args(arguments)
    return command.measure(args), output


def test_every_cell_is_measured_and_joined(told, tmp_path, capsys):
    status, output = measure(tmp_path)
    assert status == 0
    found = load(output, "end_to_end", "timing")
    assert {(r.problem["model"], r.problem["batch"], r.problem["way"]) for r in found.records} == {
        (model, batch, mode)
        for model in ("gemma-2-27b", "qwen3-32b", "llama-3.3-70b")
        for batch in (2, 64)
        for mode in ("eager", "graph")
    }
    assert found.provenance["argv"][:3] == ["python", "-m", "experiments.end_to_end"]
    assert len(list((output.parent / "parts").iterdir())) == 6
    assert len({job.pid for job in jobs(told)}) == 1  # one GPU, one process
    models = [model for model, _ in groupby(jobs(told), lambda job: job.model)]
    assert len(models) == 3  # all of a model's cells together
    captured = capsys.readouterr()
    assert "0 of 6 cells are there; the others: about" in captured.out
    assert captured.err.count("\n") == 6
    assert "100 %, 6 of 6 cells, all done" in captured.err.splitlines()[-1]


def test_a_run_goes_on_where_it_stopped(told, tmp_path, capsys):
    measure(tmp_path, "--batches", "2")
    assert len(jobs(told)) == 3
    _, output = measure(tmp_path)
    assert [job.batch for job in jobs(told)] == [2] * 3 + [64] * 3
    assert "3 of 6 cells are there" in capsys.readouterr().out
    before = output.read_bytes()
    assert measure(tmp_path)[0] == 0
    assert len(jobs(told)) == 6
    assert output.read_bytes() == before
    assert "6 of 6 cells are there; nothing to measure" in capsys.readouterr().out
    # Fewer batches now: what is there stays in the file.
    measure(tmp_path, "--batches", "64")
    assert output.read_bytes() == before


def test_other_choices_are_another_run(tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"tokens": [1, 2]}')
    (tmp_path / "other.jsonl").write_text('{"tokens": [1, 3]}')
    changes = [{}, {"tokens": "9"}, {"kernels": "global_lut"}, {"seed": 2}]
    changes += [{"prompts_file": str(file)} for file in tmp_path.glob("*.jsonl")]
    runs = [partial_results.run_of(plan.choose(**change), INSTALLED) for change in changes]
    library = tmp_path / "libbitsandbytes_cuda130.so"
    for text in ("one", "another"):
        library.write_text(text)
        choices = plan.choose(peers=[f"own={library}"])
        runs.append(partial_results.run_of(choices, INSTALLED))
    runs.append(partial_results.run_of(plan.choose(), "another bitsandbytes"))
    assert len(set(runs)) == len(runs) == 9


def test_what_was_measured_from_other_sources_or_not_at_all_is_measured_again(
    told, tmp_path, monkeypatch
):
    _, output = measure(tmp_path, "--model", "qwen3-32b")
    partial = json.loads(next((output.parent / "parts").iterdir()).read_text())
    is_done = parts.is_done
    assert is_done(partial, (COMMIT, False), "NVIDIA H200")
    assert is_done(partial, (COMMIT, False), "")  # the driver does not say which GPU
    assert not is_done(partial, (COMMIT, True), "")
    assert not is_done(partial, ("b" * 40, False), "")
    assert not is_done(partial, (COMMIT, False), "NVIDIA A100")
    assert not is_done(None, (COMMIT, False), "")
    for outcome, why, done in (
        ("unsupported", "out of memory: more", False),
        ("unsupported", "cannot be captured", True),
        ("not_measured", "CUPTI recorded 2 of 3 forward passes", False),
    ):
        made.fail(partial["records"][1], outcome, why)
        assert is_done(partial, (COMMIT, False), "") is done
    monkeypatch.setenv("REPROLAB_COMMIT", "b" * 40)
    measure(tmp_path, "--model", "qwen3-32b", "--batches", "2")
    found = load(output)
    assert found.provenance["commit"] == "b" * 40
    assert {r.problem["batch"] for r in found.records} == {2}  # 64 is of the other sources
    monkeypatch.setenv("REPROLAB_DIRTY", "1")  # nothing is known of older ones
    for _ in range(2):
        measure(tmp_path, "--model", "qwen3-32b", "--batches", "2")
    assert [job.batch for job in jobs(told)][-3:] == [2, 2, 2]


def test_a_damaged_part_is_measured_again(told, tmp_path):
    _, output = measure(tmp_path, "--model", "qwen3-32b")
    (partial,) = (output.parent / "parts").glob("qwen3-32b.timing.batch2.*.json")
    partial.write_text(partial.read_text()[:-20])
    measure(tmp_path, "--model", "qwen3-32b")
    assert [job.batch for job in jobs(told)] == [2, 64, 2]


def test_a_kernel_that_ends_the_process_costs_its_own_row(told, tmp_path):
    told.write_text(json.dumps({"die_at": "streaming"}))
    status, output = measure(tmp_path, "--model", "qwen3-32b")
    assert status == 1
    rows = {(r.kernel, r.outcome) for r in load(output).records}
    assert ("streaming", "launch_failed") in rows
    assert ("shared_lut", "bit_exact") in rows
    (row, *_) = (r for r in load(output).records if r.kernel == "streaming")
    assert row.reason == "the process ended by SIGABRT"
    assert [job.failed for job in jobs(told)] == [
        {},
        {"streaming": "the process ended by SIGABRT"},
    ] * 2
    assert len({job.pid for job in jobs(told)}) == 3


def test_a_row_that_was_not_measured_is_status_3_unless_an_output_is_wrong(
    told, tmp_path, monkeypatch
):
    told.write_text(json.dumps({"lost": ["streaming"]}))
    status, output = measure(tmp_path, "--model", "qwen3-32b")
    assert status == 3
    outcomes = {(r.kernel, r.outcome) for r in load(output).records}
    assert ("streaming", "not_measured") in outcomes
    assert {name for name, outcome in outcomes if outcome == "bit_exact"} > {"shared_lut"}
    told.write_text(json.dumps({"lost": ["streaming"], "wrong": ["shared_lut"]}))
    assert measure(tmp_path, "--model", "qwen3-32b")[0] == 1
    told.write_text(json.dumps({"wrong": ["shared_lut"]}))
    for _ in range(2):  # also when it is only shown
        assert measure(tmp_path, "--model", "qwen3-32b")[0] == 1
    monkeypatch.setenv("REPROLAB_COMMIT", "b" * 40)  # all is measured again
    told.write_text("{}")
    assert measure(tmp_path, "--model", "qwen3-32b")[0] == 0


def test_a_process_that_dies_in_no_rows_turn_blames_none(told, tmp_path):
    told.write_text(json.dumps({"die_behind": True}))
    with pytest.raises(command.InputError, match="batch 2: the process ended by SIGABRT") as error:
        measure(tmp_path, "--model", "qwen3-32b", "--batches", "2")
    assert error.value.status == 3
    assert [job.failed for job in jobs(told)] == [{}]
    told.write_text(json.dumps({"die_behind": 64, "wrong": ["shared_lut"]}))
    with pytest.raises(command.InputError, match="batch 64: the process ended") as error:
        measure(tmp_path, "--model", "qwen3-32b")
    assert error.value.status == 1  # a wrong output outranks it


def test_what_a_process_refuses_is_said_and_the_others_go_on(told, tmp_path):
    told.write_text(json.dumps({"refuse": "x: cannot be loaded"}))
    with pytest.raises(command.InputError) as error:
        measure(tmp_path, "--model", "qwen3-32b")
    log = tmp_path / "results/end_to_end/timing.log"
    assert str(error.value) == (f"qwen3-32b, batch 2 and 1 other: x: cannot be loaded (log: {log})")
    assert error.value.status == 2
    assert len(jobs(told)) == 2
    with pytest.raises(command.InputError, match="batch 2 and 3 others: x: cannot be loaded"):
        measure(tmp_path, "--model", "qwen3-32b", "--batches", "2,4,8,16")


ABSENT = "the process ended with status 1 without a word; is there such a GPU?"


def test_a_dead_gpu_leaves_its_cells_to_the_others(told, tmp_path):
    told.write_text(json.dumps({"dead": ["1"]}))
    with pytest.raises(command.InputError) as error:
        measure(tmp_path, "--gpus", "0,1")
    output = tmp_path / "results/end_to_end/timing.json"
    assert str(error.value) == f"GPU 1: {ABSENT} (log: {output.with_suffix('.log')})"
    assert error.value.status == 3
    assert {job.gpu for job in jobs(told)} == {"0"}
    assert len(list((output.parent / "parts").iterdir())) == 6
    assert len({(r.problem["model"], r.problem["batch"]) for r in load(output).records}) == 6


def test_without_a_living_gpu_nothing_is_measured(told, tmp_path):
    told.write_text(json.dumps({"dead": ["0", "1"]}))
    with pytest.raises(command.InputError) as error:
        measure(tmp_path, "--gpus", "0,1")
    log = tmp_path / "results/end_to_end/timing.log"
    dead, cells = str(error.value).split(f" (log: {log}); ")
    assert dead in (f"GPU 0 and 1 other: {ABSENT}", f"GPU 1 and 1 other: {ABSENT}")
    assert cells.endswith(f" and 5 others: no GPU is left (log: {log})")
    assert not (tmp_path / "results/end_to_end/timing.json").exists()


@pytest.mark.parametrize("given", [[], ["--dry-run"]])
def test_kernels_and_checkpoints_are_checked_first(told, tmp_path, monkeypatch, given):
    class Built:
        def kernels(self):
            return ["branch_tree", "shared_lut", "streaming"]

    monkeypatch.setattr(command.reprolab_nf4, "Library", Built)
    with pytest.raises(command.InputError) as error:
        measure(tmp_path, "--kernels", "nix", *given)
    assert str(error.value) == (
        "KERNELS: there is no 'nix'; give some of branch_tree, shared_lut, streaming"
    )
    (tmp_path / "mine").mkdir()
    with pytest.raises(command.InputError, match=r"mine: is no checkpoint: it has no config.json"):
        measure(tmp_path, "--model", str(tmp_path / "mine"), *given)
    with pytest.raises(command.InputError, match=r"CLOCKS: generating text is measured at the"):
        measure(tmp_path, "--clocks", "1410", *given)
    assert jobs(told) == []


def test_kernels_of_a_library_that_is_not_built_are_left_to_the_run(told, tmp_path, monkeypatch):
    monkeypatch.setattr("reprolab_nf4.BUILT", tmp_path / "none.so")
    assert measure(tmp_path, "--model", "qwen3-32b", "--kernels", "new")[0] == 0


def test_a_process_that_says_nothing_is_ended(told, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "SILENT_S", 4)  # longer than a busy machine starts a process
    told.write_text(json.dumps({"silent": True}))
    with pytest.raises(command.InputError, match=r"batch 2: said nothing for 4 s"):
        measure(tmp_path, "--model", "qwen3-32b", "--batches", "2", "--kernels", "branch_tree")


def test_several_gpus_have_a_process_each(told, tmp_path, monkeypatch):
    own = max(os.sched_getaffinity(0))
    monkeypatch.setattr(gpus, "own_cpus", lambda: {gpu: {own} for gpu in "012"})
    assert measure(tmp_path, "--gpus", "0,1,2")[0] == 0
    assert {job.gpu for job in jobs(told)} <= {"0", "1", "2"}
    assert len({job.pid for job in jobs(told)}) == len({job.gpu for job in jobs(told)}) > 1
    assert len(jobs(told)) == 6
    assert all(job.cpus == [own] for job in jobs(told))


def test_gpus_without_a_number(told, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    with pytest.raises(command.InputError, match="GPUS: give numbers such as 0,1, not ','"):
        measure(tmp_path, "--gpus", ",")


def test_a_python_that_is_gone_is_said(told, tmp_path):
    command.PYTHON.write_text(f"{tmp_path}/gone\n")
    with pytest.raises(command.InputError, match=r"^GPU 0: .*No such file"):
        measure(tmp_path, "--model", "qwen3-32b", "--batches", "2")


def test_a_dry_run_measures_nothing(told, tmp_path, capsys):
    status, output = measure(tmp_path, "--dry-run", pass_name="profile")
    assert (status, output.exists(), jobs(told)) == (0, False, [])
    text = capsys.readouterr().out
    assert text.startswith("profile: gemma-2-27b, qwen3-32b, llama-3.3-70b at batch 2, 64; 4 new")
    assert "branch_tree, shared_lut, streaming, fused, as installed; 1 generation of each" in text
    assert "GB of GPU memory" in text
    measure(tmp_path, "--dry-run", "--tokens", "16", "--gpus", "0,1")
    text = capsys.readouterr().out
    assert "16 new tokens, of which 16 are generated eager and 8 in a graph" in text
    assert " min on 2 H200s, up to " in text
    assert "may not fit" not in text


def test_a_dry_run_says_what_does_not_fit(told, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "free_bytes", lambda number: {"0": None, "1": 40 * 10**9}[number])
    measure(tmp_path, "--dry-run", "--gpus", "0,1")
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("  may not fit on this GPU: llama-3.3-70b, batch 2 (about ")
    assert line.endswith(" GB), llama-3.3-70b, batch 64 (about 53 GB); 40 GB are free now")
    measure(tmp_path, "--dry-run")
    assert "may not fit" not in capsys.readouterr().out


def test_prompts_with_tokens_that_a_model_lacks_are_refused_at_once(told, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"tokens": [1]}\n{"tokens": [2, 152000]}\n')
    line = "PROMPTS: prompt 2 has token 152000; the model knows 0 to 151935"
    with pytest.raises(command.InputError, match=line):
        measure(tmp_path, "--dry-run", "--prompts", str(prompts))


def test_without_a_python_that_has_torch(told, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "PYTHON", tmp_path / "none")
    with pytest.raises(command.InputError, match="none: is missing; run make reproduce-table1"):
        measure(tmp_path)


def test_taking_cells_prefers_the_model_that_is_loaded():
    choices = plan.choose(quick=True)
    todo = plan.cells(choices, "timing")
    scheduler = schedule.Scheduler(choices, todo, None, None, None)
    assert scheduler.take("0").model == "llama-3.3-70b"  # most is left to do
    assert scheduler.take("1") == Cell("timing", "qwen3-32b", 2)
    assert scheduler.take("1") == Cell("timing", "qwen3-32b", 64)
    models = [scheduler.take("1").model for _ in range(3)]  # which no other GPU has, then the rest
    assert models == ["gemma-2-27b", "gemma-2-27b", "llama-3.3-70b"]
    assert scheduler.take("1") is None


def test_partial_results_are_no_evidence_of_their_own(told, tmp_path):
    from claims.evidence import result_files

    _, output = measure(tmp_path, "--model", "qwen3-32b")
    assert [r.file for r in result_files(tmp_path / "results")] == [output]
