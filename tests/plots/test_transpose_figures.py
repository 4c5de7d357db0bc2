"""The transpose's figures are looked at as objects."""

import json

import made
import pytest
import transpose_fixtures
from looking import BANNER, lines_of, text_of

from plots import transpose
from plots.experiments import load_run
from plots.figures import house_style
from plots.transpose.figures import kernels_figure, sizes_figure


def load(folder, matrix, sizes, recorded=True):
    for file in (matrix, sizes):
        (folder / f"{file['pass']}.json").write_text(json.dumps(file))
    return load_run("transpose", folder, recorded)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run = load(folder, transpose_fixtures.matrix(), transpose_fixtures.sizes())
    with house_style():
        yield {name: draw(run) for name, (_, draw) in transpose.FIGURES.items()}


def labels_of(axes):
    return [t.get_text() for t in axes.get_yticklabels()]


def widths(axes, gid):
    return [round(bar.get_width()) for bar in axes.patches if bar.get_gid() == gid]


def test_bars_in_the_tables_order_and_the_deviation_hatched(figures):
    axes = figures["kernels"].axes[0]
    assert labels_of(axes) == [
        *"column_walk tiled cublas_sgeam tma_batched tma_swizzle tma_naive".split(),
        "tma_batched_as_published\n(wrong on random data, unranked)",
    ]
    assert widths(axes, "measured") == sorted(widths(axes, "measured"), reverse=True)
    (deviation,) = [bar for bar in axes.patches if bar.get_gid() == "deviation"]
    assert deviation.get_hatch()
    assert deviation.get_facecolor() == (1, 1, 1, 1)


def test_published_markers(figures):
    axes = figures["kernels"].axes[0]
    (cuda,), (mojo,) = lines_of(axes, "CUDA"), lines_of(axes, "Mojo")
    assert sorted(cuda.get_xdata()) == [875.46, 1251.76, 2771.35]
    assert sorted(mojo.get_xdata()) == [1056.08, 1437.55, 2775.49]
    assert [round(y) for y in sorted(cuda.get_ydata())] == [3, 4, 5]
    assert [round(y) for y in sorted(mojo.get_ydata())] == [4, 5, 6]
    assert cuda.get_marker() != mojo.get_marker()


def test_copy_and_peak_are_lines(figures):
    axes = figures["kernels"].axes[0]
    (copy,), (peak,) = lines_of(axes, "copy"), lines_of(axes, "peak")
    assert (copy.get_label(), peak.get_label()) == (
        f"copy (cudaMemcpy): {copy.get_xdata()[0]:.0f}",
        "theoretical peak: 4814",
    )


def test_no_peak_no_tma_and_a_smaller_matrix(tmp_path):
    matrix = transpose_fixtures.matrix(rows=16384)
    sizes = transpose_fixtures.sizes(chosen=(256, 1023))
    matrix["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = None
    for r in matrix["records"]:
        if r["kernel"].startswith("tma"):
            made.fail(r, "unsupported", transpose_fixtures.NEEDS_HOPPER)
    run = load(tmp_path, matrix, sizes, recorded=False)
    with house_style():
        figure, panels = kernels_figure(run), sizes_figure(run).axes
    axes = figure.axes[0]
    assert lines_of(axes, "peak") == []
    assert labels_of(axes)[3] == "tma_batched\n(no time: see the table)"
    assert len(widths(axes, "measured")) == 3
    assert len(lines_of(axes, "CUDA")[0].get_xdata()) == 3
    caption = text_of(figure, "caption")[0]
    assert "Matrix: 16384 x 16384 fp32; the post's: 32768 x 32768 fp32." in caption
    assert text_of(figure, "banner") == []
    assert [axes.get_title() for axes in panels] == ["multiples of 64", "not multiples of 4"]


def test_sizes_have_a_panel_for_each_alignment(figures):
    panels = figures["sizes"].axes
    titles = ["multiples of 64", "other multiples of 4", "not multiples of 4"]
    assert [axes.get_title() for axes in panels] == titles
    for axes, kernels in zip(panels, (6, 6, 3), strict=True):
        assert len([x for x in axes.lines if x.get_marker() != "None"]) == kernels
        assert len(lines_of(axes, "copy")) == 1
        assert lines_of(axes, "same_bytes") == []
        assert lines_of(axes, "tma_batched_as_published") == []
    (aligned,) = lines_of(panels[0], "column_walk")
    assert list(aligned.get_xdata())[:2] == [256, 512]
    assert max(aligned.get_xdata()) == 40000  # 65536 did not fit
    (odd,) = lines_of(panels[2], "column_walk")
    assert list(odd.get_xdata()) == [1023, 4097, 8191, 16383, 24571]
    assert odd.get_color() == aligned.get_color()


def test_legend_and_texts_stay_off_the_data(figures):
    for name, figure in figures.items():
        figure.draw_without_rendering()
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes), name
            assert box.x1 <= figure.bbox.x1, name
        for text in figure.texts:
            box = text.get_window_extent()
            assert box.x1 <= figure.bbox.x1, name
            assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes), name


def test_caption_and_banner(figures):
    for figure in figures.values():
        (caption,) = text_of(figure, "caption")
        assert caption.startswith("NVIDIA H200, driver 580.159.04, CUDA 13.0;")
        assert text_of(figure, "banner") == [BANNER]


def test_nothing_to_draw_is_said(matrix, sizes, tmp_path):
    for file in (matrix, sizes):
        for r in file["records"]:
            r.update(outcome="mismatch", origin={"kind": "project", "maker": ""}, metrics=[])
    run = load(tmp_path, matrix, sizes)
    with house_style():
        figures = {name: draw(run) for name, (_, draw) in transpose.FIGURES.items()}
    assert {t.get_text() for a in figures["sizes"].axes for t in a.texts} == {"no timed row"}
    assert labels_of(figures["kernels"].axes[0])[0].endswith("\n(no time: see the table)")
    assert {t.get_text() for t in figures["samples"].axes[0].texts} == {"no timed row"}
