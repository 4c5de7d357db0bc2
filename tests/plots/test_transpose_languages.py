"""The transpose with rows in Mojo: beside their twins in CUDA, in tables, figure and claim."""

import json

import made
import pytest
import transpose_fixtures
from looking import lines_of, markdown_row, rendered
from matplotlib.colors import to_rgba

from plots import transpose
from plots.experiments import load_run
from plots.figures import colour, house_style
from plots.transpose.figures import kernels_figure
from plots.transpose.matrix import languages_table

BIG = "32768x32768"
MAKER = transpose_fixtures.MAKER


@pytest.fixture
def with_mojo():
    return transpose_fixtures.matrix(mojo=True), transpose_fixtures.sizes(mojo=True)


@pytest.fixture
def texts(with_mojo, write):
    return lambda: rendered("transpose", write("run", *with_mojo))


@pytest.fixture
def run(with_mojo, tmp_path):
    def load():
        for file in with_mojo:
            (tmp_path / f"{file['pass']}.json").write_text(json.dumps(file))
        return load_run("transpose", tmp_path)

    return load


@pytest.mark.parametrize("name", ["languages", "matrix", "claims"])
def test_golden(texts, golden, name):
    golden(f"transpose_mojo/{name}.md", texts()[f"{name}.md"])


def test_without_kernels_in_mojo_there_is_no_such_table(matrix, sizes, write):
    assert languages_table(load_run("transpose", write("run", matrix, sizes))) is None
    assert "languages.md" not in rendered("transpose", write("run", matrix, sizes))


def test_pairs_by_hand(texts, with_mojo):
    # 8 * 32768^2 bytes in 2, 4 and 4.1 ms
    for kernel, samples in (
        ("tma_swizzle", [4000.0] * 11),
        ("mojo_tma_swizzle", [2000.0] * 11),
        ("mojo_tma_naive", [4000.0] * 11),
        ("tma_naive", [3900.0] * 5 + [4100.0] * 6),
    ):
        made.set_times(made.find(with_mojo[0], f"{BIG}/{kernel}"), samples)
    text = texts()["languages.md"]
    assert markdown_row(text, "`tma_swizzle`")[1:] == [
        "2147 (2147-2147)",
        "4295 (4295-4295) <sup>1</sup>",  # which passes its ceiling
        "2.000 (2.000-2.000)",
        "1.148",
        "bit-exact",
    ]
    assert markdown_row(text, "`tma_naive`")[3:5] == [
        "1.025 (0.975-1.025): no difference seen",
        "1.206",
    ]
    assert markdown_row(text, "`tma_batched`")[4] == "1.001"
    assert markdown_row(text, "`tma_batched_as_published`")[4] == "-"


def test_the_posts_values_stand_beside_its_own_language(texts):
    text = texts()["matrix.md"]
    rows = {k: markdown_row(text, f"`{k}`")[5:7] for k in transpose_fixtures.KERNELS}
    assert rows["tma_naive"] == ["875.46 (26.5)", "-"]
    assert rows["tma_batched_as_published"] == ["-", "-"]
    assert markdown_row(text, "`mojo_tma_naive`")[5:7] == ["-", "1056.08 (32.0)"]
    published = markdown_row(text, "`mojo_tma_batched_as_published`")
    assert published[5:7] == ["-", "2775.49 (84.1)"]
    assert published[7] == "passes"
    assert published[8].startswith("939,524,096 of 1,073,741,824 wrong")


def test_a_kernel_that_did_not_run_leaves_the_posts_values_where_they_were(texts, with_mojo):
    reason = "is not compiled for sm_100; make mojo ARCH=100"
    for kernel in transpose_fixtures.MOJO:
        made.fail(made.find(with_mojo[0], f"{BIG}/{kernel}"), "unsupported", reason)
    found = texts()
    assert markdown_row(found["matrix.md"], "`tma_naive`")[5:7] == [
        "875.46 (26.5)",
        "1056.08 (32.0)",
    ]
    row = markdown_row(found["languages.md"], "`tma_naive`")
    assert row[2:4] == ["-", "-"]
    assert row[5].startswith("unsupported")
    assert reason in found["languages.md"]


def test_the_csv_has_both_and_the_ratio(texts):
    lines = [x for x in texts()["languages.csv"].splitlines() if not x.startswith("#")]
    assert lines[0].startswith(
        "cuda,cuda_gb_per_s,mojo,maker,mojo_gb_per_s,mojo_over_cuda,low,high,"
    )
    assert len(lines) == 1 + len(transpose_fixtures.MOJO)
    assert all(f",{MAKER}," in line for line in lines[1:])


def test_the_figure_has_each_below_its_twin_in_a_colour_of_its_own(run):
    with house_style():
        axes = kernels_figure(run()).axes[0]
    labels = [t.get_text().split("\n")[0] for t in axes.get_yticklabels()]
    for kernel in transpose_fixtures.MOJO:
        assert labels.index(kernel) == labels.index(kernel.removeprefix("mojo_")) + 1
    for bar in [bar for bar in axes.patches if bar.get_gid() == "measured"]:
        kernel = labels[round(bar.get_y() + bar.get_height() / 2)]
        assert bar.get_facecolor() == to_rgba(colour(kernel))
    (mojo,) = lines_of(axes, "Mojo")
    rows = {labels[round(y)] for y in mojo.get_ydata()}
    assert rows == {
        "mojo_tma_naive",
        "mojo_tma_swizzle",
        "mojo_tma_batched_as_published",
    }


def test_a_kernel_without_a_twin_keeps_its_place(run, with_mojo):
    matrix = with_mojo[0]
    matrix["records"] = [r for r in matrix["records"] if r["kernel"] != "tma_naive"]
    assert [row[0] for row in languages_table(run()).rows] == [
        "tma_batched",
        "tma_swizzle",
        "tma_batched_as_published",
    ]
    with house_style():
        axes = kernels_figure(run()).axes[0]
    assert "mojo_tma_naive" in [t.get_text() for t in axes.get_yticklabels()]


def test_the_short_table_has_the_posts_kernels_in_both_languages(run):
    table = transpose.SHORT_TABLE(run())
    rows = {row[0]: [getattr(cell, "text", cell) for cell in row] for row in table.rows}
    assert not any(name.startswith("mojo") for name in rows)
    cuda, post, mojo, posts_mojo = rows["tma_naive"][1:5]
    assert cuda != mojo and (post, posts_mojo) == ("875.46 (26.5)", "1056.08 (32.0)")
    assert rows["tma_batched"][2] != "-" and rows["tma_batched"][4] == "-"
    as_published = rows["tma_batched_as_published"]
    assert as_published[2] == "-" and as_published[4] == "2775.49 (84.1)"


def test_every_figure_can_be_drawn(run):
    with house_style():
        for _, draw in transpose.FIGURES.values():
            draw(run()).draw_without_rendering()
