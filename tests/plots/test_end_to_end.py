"""Generated text: rows, models and ways that are missing, and how tables and figures say so."""

import copy
from pathlib import Path
from types import SimpleNamespace

import end_to_end_fixtures
import made
import pytest
from looking import lines_of, look, markdown_row, rendered

from claims.end_to_end import generated
from plots import end_to_end
from plots.cli import main
from plots.documents import WRITERS
from plots.end_to_end.steps import said_of, slow_host
from plots.experiments import load_run
from plots.figures import house_style
from records.results import parse

BOTH = end_to_end_fixtures.both(batches=(2, 8, 32), models=("qwen3-32b", "llama-3.3-70b"))
INSTALLED = end_to_end_fixtures.INSTALLED
TABLES = ("table1", "figure4", "steps", "newest", "amdahl", "qmatmul")


@pytest.fixture
def passes():
    """Both passes, to be changed at will."""
    return copy.deepcopy(BOTH)


@pytest.fixture
def texts(passes, write):
    return lambda: rendered("end_to_end", write("run", *passes))


@pytest.fixture
def drawn(passes, write):
    def draw(name, recorded=False):
        with house_style():
            run = load_run("end_to_end", write("run", *passes), recorded)
            return end_to_end.FIGURES[name][1](run)

    return draw


def change(passes, kernel, metric, values, model="qwen3-32b", batch=8, way="eager"):
    """Sets the samples of a metric, in the pass that has it."""
    found = 0
    for file in passes:
        row = made.find(file, f"{model}/batch{batch}/{way}/{kernel}")
        for m in row["metrics"]:
            if m["name"] == metric:
                m["samples"] = values
                found += 1
    assert found == 1


def rows_after(text, heading, start):
    return markdown_row(text.split(f"| **{heading}** |")[1], start)


def test_every_table_in_every_format_can_be_read(texts, tmp_path):
    look({tmp_path / name: text.encode() for name, text in texts().items()})
    assert {name.partition(".")[0] for name in texts()} == {*TABLES, "claims"}
    assert {name.partition(".")[2] for name in texts()} == set(WRITERS)


def test_a_small_difference_is_not_shown_as_none(texts, passes):
    change(passes, "branch_tree", "wall_time.step", [100e3] * 3, way="graph")
    change(passes, "streaming", "wall_time.step", [99.9e3] * 3, way="graph")
    assert rows_after(texts()["steps.md"], "qwen3-32b, batch 8", "`streaming`")[7] == "1.0010"


def test_a_wrong_row_has_no_number(texts, passes):
    for file in passes:
        for way in ("eager", "graph"):
            row = made.find(file, f"qwen3-32b/batch8/{way}/shared_lut")
            made.fail(row, "mismatch", "1 of 256 tokens differ")
    found = texts()
    row = rows_after(found["steps.md"], "qwen3-32b, batch 8", "`shared_lut`")
    assert row[1:9] == ["-"] * 8
    assert row[9].startswith("mismatch")
    assert rows_after(found["figure4.md"], "qwen3-32b", "8")[2] == "- <sup>1</sup>"
    assert "<sup>1</sup> shared_lut: 1 of 256 tokens differ" in found["figure4.md"]
    assert rows_after(found["amdahl.md"], "qwen3-32b", "8")[2:5] == ["-"] * 3
    assert rows_after(found["qmatmul.md"], "qwen3-32b", "8")[5:] == ["-", "-", "- <sup>1</sup>"]


def test_a_row_that_fails_in_the_graph_alone(texts, passes):
    why = "cannot be captured in a CUDA graph: it waits"
    for file in passes:
        made.fail(made.find(file, "qwen3-32b/batch8/graph/streaming"), "unsupported", why)
    steps = texts()["steps.md"]
    row = rows_after(steps, "qwen3-32b, batch 8", "`streaming`")
    assert row[5:9] == ["-"] * 4 and "-" not in row[1:5]
    assert row[9].startswith("eager: the same, graph: unsupported")
    assert f"streaming: {why}" in steps


def test_a_lost_profile_says_why_there_is_no_share(texts, passes):
    why = "CUPTI recorded 3 of 448 dequantizations"
    for row in passes[1]["records"]:
        made.fail(row, "unsupported", why)
    found = texts()
    assert f"<sup>1</sup> branch_tree: {why}" in found["table1.md"]
    assert f"branch_tree: {why}" in found["qmatmul.md"]


def test_the_papers_points_of_other_batches_are_left_out(drawn, passes):
    for file in passes:
        file["records"] = [r for r in file["records"] if r["problem"]["batch"] == 8]
    figure = drawn("figure4")
    assert not [line for axes in figure.axes for line in lines_of(axes, "paper")]


def test_a_model_that_does_not_fit(texts, passes, drawn):
    why = "out of memory: about 44 GB are needed, the GPU has 24 GB"
    for file in passes:
        for row in file["records"]:
            if row["problem"]["model"] == "llama-3.3-70b":
                made.fail(row, "unsupported", why)
    found = texts()
    where = "branch_tree on llama-3.3-70b/batch2/eager: unsupported"
    assert f"{where}: {why}" in found["claims.csv"]
    assert f"branch_tree: {why}" in found["steps.md"]
    assert rows_after(found["table1.md"], "llama-3.3-70b", "2")[2] == "- <sup>2</sup>"
    assert f"<sup>2</sup> branch_tree: {why}" in found["table1.md"]
    for name in end_to_end.FIGURES:
        figure = drawn(name)
        if name != "amdahl":
            assert "no time:\nsee the table" in [t.get_text() for a in figure.axes for t in a.texts]


def test_without_a_graph(texts, passes):
    for file in passes:
        file["records"] = [r for r in file["records"] if r["problem"]["way"] == "eager"]
    found = rows_after(texts()["steps.md"], "qwen3-32b, batch 8", "`streaming`")
    assert found[5:9] == ["-"] * 4
    assert rows_after(texts()["amdahl.md"], "qwen3-32b", "8")[5:] == ["-"] * 4


def test_graphs_alone_are_one_line(passes, write, capsys, tmp_path):
    for file in passes:
        file["records"] = [r for r in file["records"] if r["problem"]["way"] == "graph"]
    folder = write("run", *passes)
    arguments = ["render", "end_to_end", "--results", str(folder), "--output", str(tmp_path / "o")]
    assert main(arguments) == 2
    assert "timing.json: has no rows with way eager" in capsys.readouterr().err


def graph_row_of(timing):
    key = f"qwen3-32b/batch2/graph/{INSTALLED}"
    return made.find(timing, key), lambda: parse(Path("timing.json"), timing).by_key[key]


def test_tokens_are_counted_as_far_as_they_were_generated(passes):
    row, read = graph_row_of(passes[0])
    assert (generated(read()), said_of(read())) == (32, "9 of 64 differ")
    row["problem"]["generated"] = 8
    assert (generated(read()), said_of(read())) == (8, "9 of 16 differ")


def test_samples_of_a_slow_host_are_shown(passes):
    row, read = graph_row_of(passes[0])
    run = lambda: {"timing": SimpleNamespace(records=[read()])}  # noqa: E731
    assert slow_host(run()) == []
    row["disturbed"] = {"repeated": 5, "kept": 0}
    assert slow_host(run()) == []
    row["disturbed"]["kept"] = 2
    line = "2 samples of 1 rows were taken while the host was seen to be slow."
    assert slow_host(run()) == [line]
