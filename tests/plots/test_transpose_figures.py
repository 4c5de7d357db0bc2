"""The transpose's figures where there is less to draw."""

import json

import made
import transpose_fixtures
from looking import lines_of, text_of

from plots import transpose
from plots.experiments import load_run
from plots.figures import house_style
from plots.transpose.figures import kernels_figure, sizes_figure


def load(folder, matrix, sizes, recorded=True):
    for file in (matrix, sizes):
        (folder / f"{file['pass']}.json").write_text(json.dumps(file))
    return load_run("transpose", folder, recorded)


def labels_of(axes):
    return [t.get_text() for t in axes.get_yticklabels()]


def widths(axes, gid):
    return [round(bar.get_width()) for bar in axes.patches if bar.get_gid() == gid]


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
