"""The whole ledger: which files count, and how cells and readings decide a claim."""

from dataclasses import replace
from pathlib import Path

import made
import pytest

from reprolab.claims.evidence import machines
from reprolab.claims.ledger import Decision, Verdict, decide, is_on
from reprolab.claims.published import Cell, Reading
from reprolab.json_files import ROOT
from reprolab.results import recorded_folder


def replay(started="2026-11-20T08:00:00Z", gpu="NVIDIA H200", us=2.19):
    """One cell of Table II: the baseline takes `us` and the paper's kernel 1 us."""
    file = made.replay({"branch_tree": [us], "shared_lut": [1.0]}, batch=8)
    file["provenance"] |= {"started": started, "gpu": made.GPU | {"name": gpu}}
    return file


@pytest.fixture(scope="module")
def evidence():
    (evidence,) = machines([ROOT / "data/recorded/h200/table2"])
    return evidence


@pytest.mark.parametrize(
    ("tolerance", "verdict"), [(19, "reproduced"), (16.9, "undecided"), (13, "not_reproduced")]
)
def test_a_changed_tolerance_decides_old_recordings_anew(evidence, write, tolerance, verdict):
    """Qwen3's average, read in weights, is 16 % below the paper's; the criterion shows the
    tolerance."""

    def change(paper):
        paper["claims"][0]["comparisons"][1]["tolerance_percent"] = tolerance

    (decision, *_) = decide(evidence, [made.paper(write, change)])
    in_weights = decision.readings["tiles of 512 weights"]
    average = next(v for v in in_weights if v.cell.text == "qwen3-32b, average")
    assert average.verdict == verdict
    criterion = f"ours is more than 1 and at least the source's value, {tolerance:g} % allowed"
    assert average.criterion == criterion


def test_the_newest_of_several_files_counts(write, tmp_path):
    write("old/replay.json", replay("2026-11-20T08:00:00Z", us=9.0))
    write("new/replay.json", replay("2026-11-21T08:00:00Z", us=2.0))
    write("older/replay.json", replay("2026-11-19T08:00:00Z", us=9.0))
    (evidence,) = machines([tmp_path])
    assert evidence.newest.file == tmp_path / "new/replay.json"
    (decision,) = decide(evidence, made.with_claim("kernel-speedup"))
    assert {v.ours for v in decision.verdicts} == {None, 2.0}


def test_each_gpu_is_a_machine_and_so_is_each_recorded_folder(write, tmp_path):
    write("data/recorded/a100/table2/replay.json", replay(gpu="NVIDIA A100"))
    write("data/recorded/h200/table2/replay.json", replay())
    write("results/one.json", replay(gpu="NVIDIA H200"))
    write("results/two.json", replay(gpu="NVIDIA L4"))
    write("results/parts/three.json", replay(gpu="NVIDIA T4"))  # will be joined
    code = write("results/sass.json", made.code([made.compiled("shared_lut", "sm_90", {})]))
    (tmp_path / "nothing").mkdir()
    by_machine = machines([tmp_path / "data", tmp_path / "results", tmp_path / "nothing"])
    assert [(e.folder and e.folder.name, e.newest.gpu) for e in by_machine] == [
        (None, "NVIDIA H200"),
        (None, "NVIDIA L4"),
        ("a100", "NVIDIA A100"),
        ("h200", "NVIDIA H200"),
    ]
    with_code = [e for e in by_machine if ("counters", "sass") in e.results]
    assert with_code == by_machine[:2]  # code is every machine's of its folder
    (alone,) = machines([code])
    assert (alone.newest, list(alone.results)) == (None, [("counters", "sass")])


def test_linked_folders_count_once(write, tmp_path, monkeypatch, refused):
    write("scratch/puzzle/replay.json", replay())
    results = tmp_path / "results"
    results.mkdir()
    for name in ("puzzle", "again"):
        (results / name).symlink_to(tmp_path / "scratch/puzzle")
    (results / "loop").symlink_to(results)
    (evidence,) = machines([results])
    assert len(evidence.results) == 1

    def fail(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("os.scandir", fail)
    assert "/results: " in refused(machines, [results])


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("/x/data/recorded/h200/table2/replay.json", "/x/data/recorded/h200"),
        ("/x/data/recorded/h200/replay.json", "/x/data/recorded/h200"),
        ("/x/data/recorded/replay.json", None),
        ("/x/recorded/h200/replay.json", None),
    ],
)
def test_a_recorded_run_is_known_by_its_path(file, folder):
    assert recorded_folder(Path(file)) == (Path(folder) if folder else None)


def test_other_json_is_passed_over(write, tmp_path):
    write("benchmark.json", {"context": {}, "benchmarks": []})
    write("list.json", [1, 2])
    write("other.json", {"schema": 3})
    assert machines([tmp_path]) == []


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ('{"schema": "reprolab-results/2"', "whole JSON"),
        ('{"schema": "reprolab-results/2"}', "must contain"),
        ('{"records": [], "schema": 3}', "schema"),
        ('{"records": []}', "must contain"),
    ],
    ids=["cut", "bare", "version", "no version"],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, text, noun, refused):
    path = tmp_path / "deep/replay.json"
    path.parent.mkdir()
    path.write_text(text)
    error = refused(machines, [tmp_path])
    assert "/deep/replay.json: " in error and noun in error


@pytest.mark.parametrize(
    ("whole", "readings"),
    [
        # Cells of one reading.
        ("not_tested", ["reproduced not_tested"]),
        ("not_testable", ["not_tested not_testable"]),  # a run would not make it testable
        ("undecided", ["reproduced undecided"]),
        ("premise_false", ["undecided premise_false not_testable"]),
        ("not_reproduced", ["premise_false reproduced not_reproduced"]),
        # Cells of other GPUs count only if there are no others.
        ("reproduced", ["reproduced elsewhere"]),
        ("not_reproduced", ["elsewhere not_reproduced"]),
        ("not_testable", ["elsewhere elsewhere"]),
        # Only the primary reading decides; another one changes nothing.
        ("reproduced", ["reproduced", "not_reproduced"]),
        ("not_reproduced", ["not_reproduced", "reproduced"]),
        ("undecided", ["undecided", "reproduced"]),
        ("not_tested", ["not_tested", "reproduced"]),
        ("premise_false", ["premise_false", "reproduced", "reproduced"]),
    ],
)
def test_a_claims_verdict_from_cells_and_readings(whole, readings):
    source = made.all_sources()[0]
    comparison = source.claims[0].comparisons[0]
    claim = replace(source.claims[0], readings=readings_named(len(readings)))
    for ordered in (list(enumerate(readings)), list(enumerate(readings))[::-1]):
        verdicts = tuple(
            Verdict(
                "not_testable" if word == "elsewhere" else word,
                "",
                comparison=replace(comparison, reading=f"reading {i}"),
                cell=Cell({"batch": batch}, None, ()),
                elsewhere=word == "elsewhere",
            )
            for i, cells in ordered
            for batch, word in enumerate(cells.split())
        )
        assert Decision(source, claim, verdicts).verdict == whole


def readings_named(count):
    """'reading 0' is the primary one."""
    others = tuple(Reading(f"reading {i}") for i in range(1, count))
    return (Reading("reading 0", primary_because="it comes first"), *others)


@pytest.mark.parametrize(
    ("outcomes", "is_own", "holds"),
    [
        (["reproduced", "reproduced"], False, True),
        (["reproduced", "not_reproduced"], False, False),
        (["reproduced", "not_reproduced"], True, True),  # our own measurement is not a reading
        (["undecided", "reproduced"], False, False),
    ],
)
def test_whether_a_claim_holds_in_every_reading(outcomes, is_own, holds):
    source = made.all_sources()[0]
    first, second = readings_named(2)
    claim = replace(source.claims[0], readings=(first, replace(second, own_measurement=is_own)))
    comparison = claim.comparisons[0]
    verdicts = tuple(
        Verdict(
            outcome,
            "",
            comparison=replace(comparison, reading=f"reading {i}"),
            cell=Cell({"batch": 2}, None, ()),
        )
        for i, outcome in enumerate(outcomes)
    )
    assert Decision(source, claim, verdicts).holds_in_every_reading == holds


@pytest.mark.parametrize(
    ("wanted", "same", "others"),
    [
        ("A100-80GB", ["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"], ["A100-SXM4-40GB"]),
        ("H100-PCIe", ["NVIDIA H100 PCIe"], ["NVIDIA H100 80GB HBM3", "NVIDIA A100 80GB PCIe"]),
        ("H100", ["NVIDIA H100 80GB HBM3"], ["NVIDIA GH200 480GB", "NVIDIA H100 MIG 1g.10gb"]),
        ("L4", ["NVIDIA L4"], ["NVIDIA L40S", "NVIDIA L40"]),
        ("T4", ["Tesla T4", "NVIDIA T4"], ["NVIDIA T400", "NVIDIA T4G"]),
    ],
)
def test_a_gpu_is_known_by_its_name(wanted, same, others):
    assert all(is_on(gpu, wanted) for gpu in same)
    assert not any(is_on(gpu, wanted) for gpu in others)


def test_one_of_two_models_that_stand_for_the_sources_is_enough(write):
    """The replay has only qwen3-32b."""

    def decision(models: list[str]) -> Decision:
        def change(paper):
            claim = made.claim_in(paper, "kernel-speedup")
            names = ("gemma-27b", "qwen3-32b")
            cells = [{"at": {"model": name, "batch": 8}, "value": 2.18} for name in names]
            claim["comparisons"] = [claim["comparisons"][0] | {"cells": cells}]
            claim["comparisons"][0].pop("reading")
            claim.pop("readings")
            paper |= {"claims": [claim], "tables": {}, "without_cell": {}}
            del paper["setup"]["our_kernels"]
            paper["setup"]["models"]["gemma-27b"] = models

        return made.decisions(replay(), sources=[made.paper(write, change)])["kernel-speedup"]

    either, neither = decision(["gemma-2-27b", "qwen3-32b"]), decision(["gemma-2-27b"])
    assert [v.verdict for v in either.verdicts] == ["not_tested", "reproduced", "reproduced"]
    assert [v.verdict for v in neither.verdicts] == ["not_tested", "reproduced"]
    assert (either.verdict, neither.verdict) == ("reproduced", "not_tested")


@pytest.mark.parametrize(
    ("spoil", "cycles", "noun"),
    [
        (lambda c: c["cells"][0].update(at={}), 28.8, "KeyError: 'slow'"),
        (lambda c: c.pop("tolerance_percent"), 28.8, "KeyError: 'tolerance_percent'"),
        (lambda c: None, 0, "ZeroDivisionError: "),
    ],
)
def test_a_misfit_of_a_rule_is_one_line_that_names_it(write, spoil, cycles, noun, refused):
    def change(paper):
        spoil(made.claim_in(paper, "table-latency")["comparisons"][1])

    source, kernels = made.paper(write, change), ("shared_load", "global_dram", "global_l1")
    file = made.latency(dict.fromkeys(kernels, [28.8] * 3))
    made.set_metric(*made.rows_of(file, "shared_load"), "latency", cycles)
    error = refused(made.decided, file, sources=[source])
    assert "rule counters.latency_ratio: " in error and noun in error
