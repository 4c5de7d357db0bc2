"""The puzzle: every kind of row, and what is refused."""

import copy

import made
import puzzle_fixtures
import pytest
import streaming_fixtures
from looking import markdown_row, rendered

from plots import puzzle
from plots.cli import main
from plots.experiments import load_run
from plots.figures import house_style

NAME = "three MLPs, 1000 times"


@pytest.fixture
def texts(mlps, write):
    """Renders the pass as it now is: file name -> text."""
    return lambda: rendered("puzzle", write("run", mlps))


@pytest.fixture
def drawn(mlps, write):
    """Draws the pass as it now is."""

    def draw(recorded=False, name="seconds"):
        with house_style():
            return puzzle.FIGURES[name][1](load_run("puzzle", write("run", mlps), recorded))

    return draw


def row(mlps, kernel):
    return made.find(mlps, f"{NAME}/{kernel}")


def set_metric(mlps, kernel, name, values):
    (found,) = (m for m in row(mlps, kernel)["metrics"] if m["name"] == name)
    found["samples"] = values


def test_what_was_not_measured_is_no_wrong_output(mlps, write, capsys, monkeypatch, tmp_path):
    made.fail(row(mlps, "shared_lut"), "not_measured", "CUPTI dropped 3 records")
    write("run", mlps)
    monkeypatch.chdir(tmp_path)
    assert main(["render", "puzzle", "--results", "run", "--output", "out", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "WRONG OUTPUT, hence no time: broken_lut (1 rows)." in text
    line = "NOT MEASURED, by no fault of the kernel; run again: shared_lut (1 rows)."
    assert line in text
    assert "shared_lut: CUPTI dropped 3 records" in (tmp_path / "out/puzzle.md").read_text()


@pytest.mark.parametrize("name", ["puzzle", "mlps"])
def test_golden(texts, golden, name):
    golden(f"puzzle/{name}.md", texts()[f"{name}.md"])


def test_our_kernel_is_held_to_its_launches_one_by_one(mlps, write):
    ours = copy.deepcopy(row(mlps, "shared_lut"))
    ours |= {"kernel": "streaming", "key": f"{NAME}/streaming"}
    ours["code"] = made.code_of("sm_90", "streaming")
    mlps["records"].append(ours)
    set_metric(mlps, "streaming", "kernel_time", [126000.0] * 5)
    alone = streaming_fixtures.shapes(nested=True)
    for shape, us in (("2048x8192", 10.0), ("1024x4096", 5.0), ("4096x14336", 30.0)):
        made.set_times(made.find(alone, f"{shape}/fp16/b64-nested/streaming"), [us] * 11)

    def said():
        return puzzle.highlights(load_run("puzzle", write("run/puzzle", mlps)))

    assert len(said()) == 1  # nothing to hold it to
    write("run/streaming", alone)
    # 3000 launches of each: 135 ms
    start = (
        "streaming by graphs takes 0.933 times as long as 9000 launches one by one and cold, 0.1350"
    )
    assert said()[1].startswith(f"{start} s by streaming/shapes_nested.json")
    of_then = copy.deepcopy(alone)
    for record in of_then["records"]:
        del record["code"]
    write("run/streaming", of_then)
    assert said()[1].startswith(start)
    assert said()[2].startswith(
        "Whether rows of one kernel from several files are of the same code"
    )
    for record in of_then["records"]:
        record["code"] = made.code_of("sm_90", record["kernel"], "edited")
    write("run/streaming", of_then)
    assert said()[1].startswith(
        "streaming by graphs is not compared with launches one by one: rows"
    )
    alone["records"] = [r for r in alone["records"] if r["problem"]["rows"] != 4096]
    write("run/streaming", alone)
    assert len(said()) == 1


def test_the_fastest_ceiling_is_the_one_that_shares_are_of(texts, mlps):
    assert "bandwidth by graphs of copy_kernel, the fastest" in texts()["puzzle.md"]
    made.rows_of(mlps, "copy_kernel")[0]["outcome"] = "launch_failed"
    row(mlps, "copy_kernel")["metrics"] = []
    assert "bandwidth by graphs of copy, the fastest" in texts()["puzzle.md"]
    mlps["records"] = [r for r in mlps["records"] if r["origin"]["kind"] != "ceiling"]
    found = texts()["puzzle.md"]
    assert "the fastest" not in found
    assert markdown_row(found, "`shared_lut`")[5] == "-"


def test_what_cannot_be_captured_has_no_time_by_graphs_and_says_why(texts):
    text = texts()["puzzle.md"]
    assert "| **Timed as published alone: left out of the ranking** |" in text
    found = markdown_row(text, "`bitsandbytes_0.43.0`")
    assert found[1].startswith("0.6")
    assert found[3:6] == ["-"] * 3
    assert found[6].startswith("bit-exact <sup>")
    why = f"bitsandbytes_0.43.0: no time by graphs: {puzzle_fixtures.NOT_CAPTURED}"
    assert why in text
    assert puzzle_fixtures.NOT_CAPTURED in texts()["puzzle.csv"]
    assert markdown_row(texts()["mlps.md"], "`bitsandbytes_0.43.0`")[2::2] == ["-"] * 3


def test_the_peers_bytes(texts, mlps):
    # 239075328 / 64 scales, 16 bytes each, 1000 times
    text = texts()["puzzle.md"]
    assert "written and read twice, so 661.25 GB really move, 59.77 GB of them for that" in text
    mlps["records"] = [r for r in mlps["records"] if r["origin"]["kind"] != "peer"]
    assert "really move" not in texts()["puzzle.md"]


def test_deviating_and_wrong_rows_are_not_ranked(texts):
    text = texts()["puzzle.md"]
    assert "| **Deviates as declared: left out of the ranking** |" in text
    assert "| **No time: mismatch** |" in text
    assert markdown_row(text, "`broken_lut`")[1:6] == ["-"] * 5
    assert "**" not in markdown_row(text, "`shared_lut_algorithm1`")[3]
    assert "broken_lut" not in texts()["mlps.md"]


def test_two_problems(mlps, write, tmp_path, capsys):
    mlps["records"] += puzzle_fixtures.mlps(iterations=10)["records"]
    folder, output = write("run", mlps), tmp_path / "out"
    assert main(["render", "puzzle", "--results", str(folder), "--output", str(output)]) == 2
    expected = f"error: {folder}/mlps.json: needs one problem, but has 2\n"
    assert capsys.readouterr().err == expected


def test_figure_without_a_timed_row(drawn, mlps):
    for r in mlps["records"]:
        if r["origin"]["kind"] != "ceiling":
            made.fail(r, "unsupported", "no")
    (axes,) = drawn().axes
    assert "no timed row" in [t.get_text() for t in axes.texts]
