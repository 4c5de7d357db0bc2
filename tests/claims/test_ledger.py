"""The whole ledger: which files count, and what decides anew when a tolerance changes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import made
import pytest

from claims.evidence import collect, machines, recorded_folder
from claims.ledger import Decision, Verdict, decide, is_on
from claims.published import Cell, load_source, load_sources
from records.errors import InputError
from records.json_files import ROOT

RECORDED = ROOT / "data/recorded/h200"


def replay(started="2026-11-20T08:00:00Z", gpu="NVIDIA H200", us=2.19, **changes):
    """One cell of Table II: the baseline takes `us` and the paper's kernel 1 us."""
    problem = made.forward_pass("qwen3-32b", 8)
    records = [made.record(problem, "branch_tree", [us]), made.record(problem, "shared_lut", [1.0])]
    file = made.results("table2", "replay", records, **changes)
    file["provenance"] |= {"started": started, "gpu": made.GPU | {"name": gpu}}
    return file


def speed_up(evidence, sources=None):
    decisions = decide(evidence, sources or load_sources())
    return next(v for v in decisions[0].verdicts if v.cell.text == "qwen3-32b, batch 8")  # in bytes


@pytest.fixture(scope="module")
def evidence():
    (found,) = machines([RECORDED])
    return found


RECORDED_AS = {
    "reproduced": """kernel-speedup end-to-end throughput larger-models amdahl instructions-71
        small-batches-gain-more seven-to-two compact-binary no-divergence smem-64-bytes token-exact
        batch-invariant broadcast-no-conflicts immediates-icache constant-broadcast more-ilp
        plug-and-play two-bytes threads-512 mojo-1.07-1.84 mojo-is-cuda-like swizzle batched""",
    "not_reproduced": """peak-at-32 occupancy-2-3 memory-bound single-thread-fill model-size
        shared-memory-makes-it memory-4x swizzle-conflicts""",
    "premise_false": """thirty-to-forty tables-agree latency-12-15 lut-traffic-64 constant-cache
        environment blocks-3-4 correct""",
    "undecided": "qmatmul-72",
    "not_testable": """dequantization-overhead kernel-latency accuracy packed-stores
        l2-explains-l4 seconds bandwidth lineage triton puzzle-target 84-percent speeds""",
}


def test_recorded_verdicts_are_those_of_the_day(evidence):
    recorded = decide(evidence, load_sources())
    words: dict[str, set[str]] = {}
    for d in recorded:
        words.setdefault(d.verdict, set()).add(d.claim.id)
    assert words == {verdict: {*names.split()} for verdict, names in RECORDED_AS.items()}


@pytest.mark.parametrize(
    ("tolerance", "verdict"), [(19, "reproduced"), (16, "undecided"), (13, "not_reproduced")]
)
def test_a_changed_tolerance_decides_old_recordings_anew(evidence, tmp_path, tolerance, verdict):
    """Qwen3's average, read in weights, is 16 % below the paper's; a tolerance is no secret."""
    paper = made.raw("paper")
    paper["claims"][0]["comparisons"][1]["tolerance_percent"] = tolerance
    (tmp_path / "paper.json").write_text(json.dumps(paper))
    (decision, *_) = decide(evidence, [load_source(tmp_path / "paper.json")])
    in_weights = decision.readings["tiles of 512 weights"]
    average = next(v for v in in_weights if v.cell.text == "qwen3-32b, average")
    assert average.verdict == verdict
    said = f"ours is at least the source's value, {tolerance} % allowed"
    assert average.criterion == said


def test_the_newest_of_several_files_counts(write, tmp_path):
    write("old/replay.json", replay("2026-11-20T08:00:00Z", us=9.0))
    write("new/replay.json", replay("2026-11-21T08:00:00Z", us=2.19))
    write("older/replay.json", replay("2026-11-19T08:00:00Z", us=9.0))
    (evidence,) = machines([tmp_path])
    assert evidence.newest.file == tmp_path / "new/replay.json"
    assert speed_up(evidence).verdict == "reproduced"


def test_each_gpu_is_a_machine_and_so_is_each_recorded_folder(write, tmp_path):
    write("data/recorded/a100/table2/replay.json", replay(gpu="NVIDIA A100"))
    write("data/recorded/h200/table2/replay.json", replay())
    write("results/one.json", replay(gpu="NVIDIA H200"))
    write("results/two.json", replay(gpu="NVIDIA L4"))
    (tmp_path / "nothing").mkdir()
    found = machines([tmp_path / "data", tmp_path / "results", tmp_path / "nothing"])
    described = [(e.folder and e.folder.name, e.newest.gpu) for e in found]
    assert described == [
        (None, "NVIDIA H200"),
        (None, "NVIDIA L4"),
        ("a100", "NVIDIA A100"),
        ("h200", "NVIDIA H200"),
    ]


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


def test_results_are_read_from_what_is_there(write, tmp_path):
    place = tmp_path / "typo"
    with pytest.raises(InputError) as error:
        machines([place])
    assert str(error.value) == f"{place}: is no folder, of which result files could be read"
    (evidence,) = machines([write("replay.json", replay())])
    assert list(evidence.results) == [("table2", "replay")]


@pytest.mark.parametrize("content", ['{"schema": "reprolab-results/2"', '{"schema": NaN}'])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, content):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/replay.json").write_text(content)
    with pytest.raises(InputError, match=r"deep/replay\.json: is not whole JSON"):
        machines([tmp_path])


@pytest.mark.parametrize("schema", [{"schema": "reprolab-result/2"}, {"schema": 3}, {}])
def test_records_of_no_known_schema_are_an_error_not_passed_over(write, tmp_path, schema):
    file = replay()
    del file["schema"]
    path = write("replay.json", file | schema)
    with pytest.raises(InputError) as error:
        machines([tmp_path])
    shown = json.dumps(schema["schema"]) if schema else ""
    wrong = (
        f"schema must be reprolab-results/2, not {shown}" if schema else "the file lacks 'schema'"
    )
    assert str(error.value) == f"{path}: {wrong} (see data/results.schema.json)"


def decision_of(source, *readings):
    """By reading, cells as (verdict, whether of another GPU)."""
    comparison = source.claims[0].comparisons[0]
    found = [
        Verdict(
            replace(comparison, reading=f"reading {i}"),
            Cell({"batch": batch}, None, ()),
            *(word, "", "", ""),
            elsewhere=elsewhere,
        )
        for i, cells in enumerate(readings)
        for batch, (word, elsewhere) in enumerate(cells)
    ]
    claim = replace(source.claims[0], comparisons=tuple(v.comparison for v in found))
    return Decision(source, claim, tuple(found)).verdict


HERE, ELSEWHERE = False, True


@pytest.mark.parametrize(
    ("cells", "whole"),
    [
        (["reproduced", "not_tested"], "not_tested"),
        (["not_tested", "not_testable"], "not_testable"),  # a run would not make it testable
        (["reproduced", "undecided"], "undecided"),
        (["undecided", "premise_false"], "premise_false"),
        (["not_testable", "premise_false", "not_tested"], "premise_false"),
        (["premise_false", "reproduced", "not_reproduced"], "not_reproduced"),
    ],
)
def test_what_cells_make_of_a_claim(cells, whole):
    assert decision_of(load_sources()[0], [(word, HERE) for word in cells]) == whole


def test_numbers_of_other_gpus_count_only_where_there_are_no_others():
    source = load_sources()[0]
    there = ("not_testable", ELSEWHERE)
    assert decision_of(source, [("reproduced", HERE), there]) == "reproduced"
    assert decision_of(source, [there, ("not_reproduced", HERE)]) == "not_reproduced"
    assert decision_of(source, [there, there]) == "not_testable"


@pytest.mark.parametrize(
    ("one", "other", "whole"),
    [
        ("reproduced", "not_reproduced", "reproduced"),
        ("not_reproduced", "undecided", "undecided"),
        ("not_reproduced", "not_tested", "not_tested"),
        ("undecided", "not_tested", "undecided"),
        ("premise_false", "not_testable", "not_testable"),
        ("not_reproduced", "premise_false", "premise_false"),
        ("not_reproduced", "not_reproduced", "not_reproduced"),
    ],
)
def test_a_claim_is_as_good_as_its_better_reading(one, other, whole):
    for pair in ((one, other), (other, one)):
        readings = [[(word, HERE)] for word in pair]
        assert decision_of(load_sources()[0], *readings) == whole


@pytest.mark.parametrize(
    ("wanted", "same", "others"),
    [
        ("A100-80GB", ["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"], ["A100-SXM4-40GB"]),
        ("A100-40GB", ["NVIDIA A100-SXM4-40GB", "A100-PCIE-40GB"], ["NVIDIA A100 80GB PCIe"]),
        ("H100-PCIe", ["NVIDIA H100 PCIe"], ["NVIDIA H100 80GB HBM3", "NVIDIA A100 80GB PCIe"]),
        ("H100", ["NVIDIA H100 80GB HBM3"], ["NVIDIA H200", "NVIDIA GH200 480GB"]),
        ("L4", ["NVIDIA L4"], ["NVIDIA L40S", "NVIDIA L40"]),
        ("T4", ["Tesla T4", "NVIDIA T4"], ["NVIDIA T400", "NVIDIA T4G"]),
    ],
)
def test_a_gpu_is_known_by_its_name(wanted, same, others):
    assert all(is_on(gpu, wanted) for gpu in same)
    assert not any(is_on(gpu, wanted) for gpu in others)


def test_one_of_two_models_that_stand_for_the_sources_is_enough(write):
    paper = made.raw("paper")
    claim = made.claim_in(paper, "kernel-speedup")
    claim["comparisons"] = claim["comparisons"][:1]
    claim["comparisons"][0]["cells"] = [
        {"at": {"model": model, "batch": 8}, "value": 2.18} for model in ("gemma-27b", "qwen3-32b")
    ]
    made.only(paper, claim)

    def decision(models: list[str]) -> Decision:
        paper["setup"]["models"]["gemma-27b"] = models
        source = load_source(write("paper.json", paper))
        return decide(collect([made.read(replay())]), [source])[0]

    # replay() has qwen3-32b alone
    either, neither = decision(["gemma-2-27b", "qwen3-32b"]), decision(["gemma-2-27b"])
    assert [v.verdict for v in either.verdicts] == ["not_tested", "reproduced", "reproduced"]
    assert [v.verdict for v in neither.verdicts] == ["not_tested", "reproduced"]
    assert (either.verdict, neither.verdict) == ("reproduced", "not_tested")


def test_deciding_needs_neither_plots_nor_matplotlib():
    program = (
        "import sys; sys.modules |= {'plots': None, 'matplotlib': None}\n"
        "from claims.evidence import Evidence; from claims.ledger import decide\n"
        "from claims.published import load_sources\n"
        "print(bool(decide(Evidence({}), load_sources())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout == "True\n"
