"""What separates two neighbours: which counters are named, and whose they are."""

import copy

import counters_fixtures
import pytest
from looking import rendered

from plots import neighbours
from plots.neighbours import neighbour_notes
from records.results import load


@pytest.fixture
def counters():
    """The counters of one layer, to be changed at will."""
    return counters_fixtures.nf4_counters()


@pytest.fixture
def notes(shapes, counters, write):
    """The notes under times whose run has counters beside it."""

    def find():
        write("counters", counters)
        return neighbour_notes(load(write("table2", shapes) / "shapes.json"))

    return find


def rows_of(counters, kernel):
    return [r for r in counters["records"] if r["kernel"] == kernel]


def set_counter(counters, kernel, name, value):
    for row in rows_of(counters, kernel):
        for metric in row["metrics"]:
            if metric["name"] == name:
                metric["samples"] = [value] * 3


def line_of(notes, kernel="shared_lut"):
    return next(note for note in notes if note.startswith(f"{kernel}: "))


def test_counters_of_another_kernel_explain_nothing(notes, counters):
    for row in rows_of(counters, "shared_lut"):
        row["code"]["sha256"] = {"shared_lut.cu": "0" * 64}
    found = line_of(notes())
    assert found.startswith("shared_lut: not compared: rows of shared_lut are of two different")
    for row in rows_of(counters, "shared_lut"):
        del row["code"]  # recorded before there were digests
    found = notes()
    assert "branches" in line_of(found)
    assert any("is not known of shared_lut: recorded before" in note for note in found)


def test_warm_times_are_not_explained_by_cold_counters(notes, shapes):
    assert notes()
    for row in shapes["records"]:
        row["problem"]["warm"] = True
    assert notes() == []


def test_a_tiny_count_does_not_win(notes, counters):
    set_counter(counters, "branch_tree", "pipe_lsu", 10)
    set_counter(counters, "shared_lut", "pipe_lsu", 100000)
    assert "lsu pipe" not in line_of(notes())
    set_counter(counters, "shared_lut", "pipe_lsu", 4e8)
    assert line_of(notes()).startswith("shared_lut: lsu pipe 10 -> 400.0 M; ")


def test_what_follows_from_the_time_is_not_named(notes, counters):
    for name in ("sm_cycles", "stall_wait", "dram_utilisation", "issue_utilisation"):
        set_counter(counters, "shared_lut", name, 1e12)
    assert line_of(notes()).count(" -> ") == 3
    assert "branches" in line_of(notes())
    assert not any(x in line_of(notes()) for x in ("cycles", "stall", "utilisation"))


def test_a_rate_of_no_requests_is_no_rate(notes, counters):
    set_counter(counters, "shared_lut", "sectors_per_load_request", 16)
    set_counter(counters, "branch_tree", "sectors_per_load_request", 1)
    assert "sectors per global load 1 -> 16" in line_of(notes())
    set_counter(counters, "branch_tree", "sectors_per_load_request", 0)
    assert "sectors per global load" not in line_of(notes())


def test_kernels_that_do_not_differ(notes, counters):
    for row, base in zip(
        rows_of(counters, "shared_lut"), rows_of(counters, "branch_tree"), strict=True
    ):
        row["metrics"] = copy.deepcopy(base["metrics"])
    assert line_of(notes()) == "shared_lut: no counter differs."


@pytest.mark.parametrize(
    ("name", "share", "changed", "named"),
    [
        ("warp_instructions", 1, 1.06, True),  # from 5 % on
        ("warp_instructions", 1, 1.04, False),
        ("pipe_lsu", 0, 0.0006, True),  # with 1 % of the instructions added to both
        ("pipe_lsu", 0, 0.0004, False),
    ],
)
def test_from_where_on_a_counter_differs(notes, counters, name, share, changed, named):
    test_kernels_that_do_not_differ(notes, counters)
    for kernel, part in (("branch_tree", share), ("shared_lut", changed)):
        set_counter(counters, kernel, "warp_instructions", 4e8)
        set_counter(counters, kernel, name, part * 4e8)
    assert (line_of(notes()) != "shared_lut: no counter differs.") == named


def test_another_gpus_counters_are_never_shown(notes, counters):
    counters["provenance"]["gpu"]["name"] = "NVIDIA A100"
    assert notes() == []


def test_recorded_counters_of_the_same_gpu_are_named_as_such(
    shapes, counters, write, monkeypatch, tmp_path
):
    monkeypatch.setattr(neighbours, "RECORDED", tmp_path / "data/recorded")
    other = counters_fixtures.nf4_counters()
    other["provenance"]["gpu"]["name"] = "NVIDIA A100"
    write("data/recorded/a100/counters", other)
    times = load(write("table2", shapes) / "shapes.json")
    assert neighbour_notes(times) == []
    write("data/recorded/h200/counters", counters)
    assert "recorded on another NVIDIA H200, 2026-11-20. By" in neighbour_notes(times)[0]


def test_the_tables_of_all_kernels_have_them(replay, shapes, matrix, sizes, counters, write):
    write("counters", counters, counters_fixtures.transpose_counters())
    texts = rendered("table2", write("table2", replay, shapes))
    texts |= rendered("transpose", write("transpose", matrix, sizes))
    tables = {name for name, text in texts.items() if "What separates" in text}
    assert {name for name in tables if name.endswith(".md")} == {"kernels.md", "matrix.md"}


def test_what_make_bench_writes_has_them(shapes, counters, write):
    write("results/counters", counters)
    assert neighbour_notes(load(write("results", shapes) / "shapes.json"))
