"""The counters that differ between two neighbours: their selection, and their source."""

import made
import pytest

from experiments.puzzle import views as puzzle
from plots import neighbours
from plots.counter_tables import Counted
from plots.counter_values import Value
from plots.neighbours import changed_most, neighbour_notes
from reprolab.counter_table import known
from reprolab.results import load

BASE, OTHER = "branch_tree", "shared_lut"
LINE = f"{OTHER}: "


@pytest.fixture
def times(edited):
    return edited("table2")


@pytest.fixture
def counters(edited):
    """Next to the run with the times."""
    return edited("counters")


@pytest.fixture
def notes(times, counters):
    def find():
        counters.write()
        return neighbour_notes(load(times.write() / "shapes.json"))

    return find


def test_counters_of_another_kernel_explain_nothing(notes, counters):
    for row in counters.rows("nf4_counters", OTHER):
        row["code"]["sha256"] = dict.fromkeys(row["code"]["sha256"], "0" * 64)
    text = next(note for note in notes() if note.startswith(LINE))
    assert text.startswith(f"{LINE}not compared: rows named {OTHER} ran different code")
    for row in counters.rows("nf4_counters", OTHER):
        del row["code"]  # recorded before there were digests
    assert any(f"is not known of {OTHER}: recorded before" in note for note in notes())


def test_warm_times_are_not_explained_by_cold_counters(notes, times):
    assert notes()
    for row in times.rows():
        row["problem"]["warm"] = True
    assert notes() == []


def counts(**numbers):
    return {name: Value(known()[name], number) for name, number in numbers.items()}


@pytest.mark.parametrize(
    ("name", "base", "value", "named"),
    [
        ("pipe_lsu", 10, 1e5, False),  # a tiny count
        ("pipe_lsu", 10, 4e8, True),
        ("warp_instructions", 4e8, 1.06 * 4e8, True),  # from 5 % on
        ("warp_instructions", 4e8, 1.04 * 4e8, False),
        ("pipe_lsu", 0, 0.0006 * 4e8, True),  # with 1 % of the instructions added to both
        ("pipe_lsu", 0, 0.0004 * 4e8, False),
        ("dram_bytes_read", 1e6, 2e6, True),  # of bytes, 1 % of the bytes
        ("l2_hit_rate", 1.0, 1.2, False),  # in points
        ("sectors_per_load_request", 1, 16, True),
        ("sectors_per_load_request", 0, 16, False),  # the rate of no requests
        ("sectors_per_load_request", 1, None, False),
        *((name, 1, 1e12, False) for name in ("sm_cycles", "stall_wait", "dram_utilisation")),
        ("active_warps", 1, 60, False),  # says again what another says
    ],
)
def test_from_where_on_a_counter_differs(name, base, value, named):
    both = (counts(**{"warp_instructions": 4e8, name: number}) for number in (value, base))
    assert bool(changed_most(Counted(None, None, *both))) == named


def test_another_gpus_counters_are_never_shown(notes, counters):
    counters.provenance(gpu={"name": "NVIDIA A100"})
    assert notes() == []


def test_recorded_counters_of_the_same_gpu_are_named_as_such(edited, monkeypatch, tmp_path):
    monkeypatch.setattr(neighbours, "RECORDED", tmp_path / "data/recorded")
    other = edited("counters", "data/recorded/a100/counters")
    other.provenance(gpu={"name": "NVIDIA A100"})
    other.write()
    times = load(edited("table2").write() / "shapes.json")
    assert neighbour_notes(times) == []
    edited("counters", "data/recorded/h200/counters").write()
    assert "another NVIDIA H200, 20" in neighbour_notes(times)[0]


def test_files_of_make_bench_have_them(edited, tmp_path):
    edited("counters", "results/counters").write()
    edited("table2", "results").write()
    assert neighbour_notes(load(tmp_path / "results/shapes.json"))


def test_our_kernel_is_held_to_its_launches_one_by_one(edited):
    run, alone = edited("puzzle"), edited("streaming")
    (row,) = run.rows(kernel="streaming")
    (graphs,) = (m for m in row["metrics"] if m["name"] == "kernel_time")
    graphs["samples"] = [126000.0] * 5
    layer = alone.rows("shapes_nested", "streaming", "28672x8192/*nested")[0]["problem"]
    rows = alone.files["shapes_nested"]["records"] = []
    for shape, us in zip(run.run()["mlps"].family.parts, (10.0, 5.0, 30.0), strict=True):
        m, n = map(int, shape.split("x"))
        problem = layer | {"name": f"{shape}/fp16/b64-nested", "rows": m, "columns": n, "n": m * n}
        rows.append(made.record(problem, "streaming", [us] * 5, code=row["code"]))

    def text():
        alone.write()
        return puzzle.highlights(run.run())[1:]

    assert puzzle.highlights(run.run())[1:] == []  # nothing to hold it to
    (line,) = text()
    assert all(
        x in line for x in (" 0.933 ", " 9000 ", " 0.1350 s by streaming/shapes_nested.json")
    )
    for record in rows:
        record["code"] = None
    assert text()[1].startswith("Whether ")
    for record in rows:
        record["code"] = made.code_of("sm_90", record["kernel"], "edited")
        record["code"]["sha256"] = dict.fromkeys(row["code"]["sha256"], "0" * 64)
    assert " is not compared " in text()[0]
    rows.pop()
    assert text() == []
