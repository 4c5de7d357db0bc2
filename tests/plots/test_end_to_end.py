"""Generated text from end to end: golden texts, every kind of row, and the figures."""

import copy

import end_to_end_fixtures
import made
import pytest
from looking import BANNER, IN_FULL, lines_of, look, markdown_row, rendered, text_of

from plots import end_to_end
from plots.cli import main
from plots.experiments import load_run
from plots.figures import house_style
from plots.output import WRITERS

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


@pytest.mark.parametrize("name", [*TABLES, "claims"])
def test_golden(texts, golden, name):
    golden(f"end_to_end/{name}.md", texts()[f"{name}.md"])


def test_every_table_in_every_format_can_be_read(texts, tmp_path):
    look({tmp_path / name: text.encode() for name, text in texts().items()})
    assert {name.partition(".")[0] for name in texts()} == {*TABLES, "claims"}
    assert {name.partition(".")[2] for name in texts()} == set(WRITERS)


def test_render(passes, write, capsys, monkeypatch, tmp_path):
    write("run", *passes)
    monkeypatch.chdir(tmp_path)
    assert main(["render", "end_to_end", *IN_FULL]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    assert "A step of llama-3.3-70b at batch 2, in a graph: streaming 2.2" in text
    figures = {f"{name}.{kind}" for name in end_to_end.FIGURES for kind in ("pdf", "png", "svg")}
    assert figures <= {path.name for path in (tmp_path / "out").iterdir()}


def test_table_1_by_hand(texts, passes):
    change(passes, "branch_tree", "wall_time", [8e6] * 3)
    change(passes, "branch_tree", "kernel_time", [3e6] * 3)
    change(passes, "branch_tree", "wall_time.step", [2e5] * 3)
    change(passes, "branch_tree", "kernel_time.step", [1e5] * 3)
    found = rows_after(texts()["table1.md"], "qwen3-32b", "8")
    assert found == [
        "8",
        "37.4",
        "37.5 (37.5-37.5)",
        "+0.3 %",
        "not testable <sup>1</sup>",  # a number of the paper's A100
        "13.02",
        "3.00",
        "93.8",
        "50.0",
    ]
    assert rows_after(texts()["table1.md"], "llama-3.3-70b", "8")[1:6:4] == ["-", "-"]


def test_figure_4_by_hand(texts, passes):
    change(passes, "branch_tree", "wall_time", [8e6] * 3, batch=32)
    change(passes, "shared_lut", "wall_time", [6.4e6] * 3, batch=32)
    found = rows_after(texts()["figure4.md"], "qwen3-32b", "32")
    assert found[:5] == ["32", "1.29", "1.25 (1.25-1.25)", "-3.1 %", "reproduced"]
    assert found[5:] == ["8.00", "6.40", "128", "160", "35"]  # 32 x 32 tokens


def test_a_small_difference_is_not_shown_as_none(texts, passes):
    change(passes, "branch_tree", "wall_time.step", [100e3] * 3, way="graph")
    change(passes, "streaming", "wall_time.step", [99.9e3] * 3, way="graph")
    assert rows_after(texts()["steps.md"], "qwen3-32b, batch 8", "`streaming`")[7] == "1.0010"


def test_a_step_by_hand(texts, passes):
    for way, scale in (("eager", 1), ("graph", 2)):
        change(passes, "branch_tree", "wall_time.step", [100e3] * 3, way=way)
        change(passes, "streaming", "wall_time.step", [50e3 / scale] * 3, way=way)
        change(passes, "streaming", "wall_time", [2e6 / scale] * 3, way=way)
        change(passes, "streaming", "busy_time.step", [24e3] * 3, way=way)
    found = rows_after(texts()["steps.md"], "qwen3-32b, batch 8", "`streaming`")
    assert found == [
        "`streaming`",
        "128",
        "50.0",
        "2.00",
        "52",
        "256",
        "25.0",
        "4.00",
        "4",
        "the same",
    ]


def test_a_prediction_by_hand(texts, passes):
    for kernel, part in (("branch_tree", 4e6), ("shared_lut", 2e6)):
        change(passes, kernel, "kernel_time", [part] * 3)
        change(passes, kernel, "wall_time", [(6e6 + part)] * 3)
    found = rows_after(texts()["amdahl.md"], "qwen3-32b", "8")
    assert found[:5] == ["8", "40.0", "2.00", "1.25", "1.25 (1.25-1.25)"]
    papers = rows_after(texts()["amdahl.md"], "The paper (A100-80GB), qwen3-32b", "32")
    assert papers == ["32", "29.5", "2.19", "1.19", "1.29", *["-"] * 4]


def test_dequantizations_share_of_products_by_hand(texts, passes):
    change(passes, "branch_tree", "kernel_time", [3.2e6] * 3)
    change(passes, "branch_tree", "product_time", [0.8e6] * 3)
    found = rows_after(texts()["qmatmul.md"], "qwen3-32b", "8")
    assert found[:5] == ["8", "72.4", "100", "25.0", "80.0 (80.0-80.0)"]


def test_the_newest_bitsandbytes_by_hand(texts, passes):
    change(passes, INSTALLED, "wall_time.step", [40e3] * 3, way="graph")
    change(passes, INSTALLED, "kernel_time.step", [10e3] * 3, way="graph")
    change(passes, "streaming", "wall_time.step", [50e3] * 3, way="graph")
    found = rows_after(texts()["newest.md"], "qwen3-32b", "8")
    assert found[5:] == ["40.0", "25", "50.0", "0.80 (0.80-0.80)"]
    assert rows_after(texts()["newest.md"], "qwen3-32b", "2")[6] == "0"  # nothing is dequantized
    assert f"**streaming against {INSTALLED}**" in texts()["newest.md"]


def test_bitsandbytes_own_row_says_that_its_tokens_may_differ(texts):
    text = texts()["steps.md"]
    found = rows_after(text, "qwen3-32b, batch 8", f"`{INSTALLED}`")
    assert found[-1] == "9 of 256 differ <sup>1</sup>"
    assert text.count(f"{INSTALLED}: chooses for each product whether to dequantize") == 1


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


def test_passes_of_two_commits(passes, write, capsys, tmp_path):
    passes[1]["provenance"]["commit"] = "b" * 40
    folder = write("run", *passes)
    arguments = ["render", "end_to_end", "--results", str(folder), "--output", str(tmp_path / "o")]
    assert main(arguments) == 2
    assert "give two passes of one run" in capsys.readouterr().err


def test_graphs_alone_are_one_line(passes, write, capsys, tmp_path):
    for file in passes:
        file["records"] = [r for r in file["records"] if r["problem"]["way"] == "graph"]
    folder = write("run", *passes)
    arguments = ["render", "end_to_end", "--results", str(folder), "--output", str(tmp_path / "o")]
    assert main(arguments) == 2
    assert "timing.json: has no rows with way eager" in capsys.readouterr().err


def test_the_papers_points_are_in_the_figures(drawn):
    qwen_gain, llama_gain, qwen_s, llama_s, qwen_speed, _ = drawn("figure4").axes
    gains = [lines_of(axes, "paper") for axes in (qwen_gain, llama_gain)]
    assert [list(line.get_ydata()) for (line,) in gains] == [[1.29], [1.54]]
    assert lines_of(qwen_s, "paper") == []
    assert [list(x.get_ydata()) for x in lines_of(llama_s, "paper")] == [[39.96], [26.0]]
    assert [list(x.get_ydata()) for x in lines_of(qwen_speed, "paper")] == [[283], [368]]
    share, _ = drawn("share").axes
    (papers,) = lines_of(share, "paper")
    assert list(papers.get_ydata()) == [39.8, 39.3, 37.4, 34.7, 29.5, 21.4]
    (axes,) = drawn("amdahl").axes
    (papers,) = lines_of(axes, "paper")
    assert (round(papers.get_xdata()[0], 2), papers.get_ydata()[0]) == (1.19, 1.29)


def test_every_model_and_kernel_has_a_curve(drawn):
    figure = drawn("graph", recorded=True)
    assert text_of(figure, "banner") == [BANNER]
    assert [axes.get_title() for axes in figure.axes[:2]] == ["qwen3-32b", "llama-3.3-70b"]
    kernels = [*end_to_end_fixtures.FASTER, INSTALLED]
    for axes in figure.axes[2:]:
        labels = axes.get_legend_handles_labels()[1]
        assert set(labels) == {
            f"{kernel}, {way}" for kernel in kernels for way in ("eager", "graph")
        }
