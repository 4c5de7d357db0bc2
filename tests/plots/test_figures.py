"""Figures are looked at as objects: labels, markers, captions; and their bytes are stable."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import fixtures
import pytest
from conftest import PUBLISHED, ROOT, lines_of, text_of

from plots import table2
from plots.figures import house_style, save
from plots.sample_figures import bandwidth_figure, samples_figure
from plots.table2_figures import kernels_figure, share_figure, speedup_figure


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("results")
    a, b = directory / "replay.json", directory / "shapes.json"
    a.write_text(json.dumps(fixtures.replay()))
    b.write_text(json.dumps(fixtures.shapes(models=("qwen3-32b",), n=5)))
    return table2.read(a, b, PUBLISHED, recorded=True)


@pytest.fixture(scope="module")
def figures(inputs):
    with house_style():
        yield {
            "speedup": speedup_figure(inputs.replay, inputs.published, True),
            "kernels": kernels_figure(inputs.replay, inputs.published, True),
            "bandwidth": bandwidth_figure(inputs.shapes, "weights (millions)", True),
            "samples": samples_figure(table2.sample_panels(inputs), True),
            "share": share_figure(inputs.replay, inputs.published, True),
        }


def test_units_on_every_axis(figures):
    units = ("(x)", "(%)", "(sequences)", "(millions)", "(GB/s, 1 GB = 1e9 bytes)")
    for name, figure in figures.items():
        for i, axes in enumerate(figure.axes):
            assert axes.get_xlabel().endswith(units), name
            kernels_on_y = name in ("kernels", "samples")
            if i == 0 and not kernels_on_y:
                assert axes.get_ylabel().endswith(units), name


def test_caption_and_banner(figures):
    for figure in figures.values():
        (caption,) = text_of(figure, "caption")
        flat = " ".join(caption.split())
        assert flat.startswith(
            "NVIDIA H200, driver 580.159.04, CUDA 13.0; clocks not locked, SM 1980 MHz seen; "
            "no throttle reasons seen; 2026-11-20; commit 012345678."
        )
        expected = "Recorded run of NVIDIA H200, 2026-11-20. Not measured on this machine."
        assert text_of(figure, "banner") == [expected]


def test_no_banner_on_a_run_of_this_machine(inputs):
    with house_style():
        figure = speedup_figure(inputs.replay, inputs.published, False)
    assert text_of(figure, "banner") == []


def test_papers_markers_are_the_published_values(figures, inputs):
    columns = ["gemma-27b", "gemma-27b", "qwen3-32b", "llama-3.3-70b"]
    for axes, column in zip(figures["speedup"].axes, columns, strict=True):
        (paper,) = lines_of(axes, "paper")
        assert tuple(paper.get_ydata()) == inputs.published.speedups[column]


def test_our_markers_are_the_verdicts_values(figures, inputs):
    axes = figures["speedup"].axes[2]
    (ours,) = axes.containers
    expected = [
        v.our_value
        for v in inputs.replay.verdicts
        if v.claim == "kernel-speedup"
        and v.cell["model"] == "qwen3-32b"
        and v.cell["batch"] != "average"
    ]
    assert list(ours.lines[0].get_ydata()) == expected


def test_kernels_are_there_but_not_the_wrong_one(figures):
    labels = [t.get_text() for t in figures["kernels"].axes[0].get_yticklabels()]
    assert labels[0] == "streaming"
    assert labels[-1] == "one_scale_a_tile\n(declared deviation, unranked)"
    assert not any("broken" in label or "bitsandbytes" in label for label in labels)


def test_copy_ceiling_is_drawn(figures):
    (copy,) = lines_of(figures["bandwidth"].axes[0], "copy")
    assert len(copy.get_xdata()) == 5


def test_kernels_keep_their_looks_apart(figures):
    lines = [x for x in figures["bandwidth"].axes[0].lines if x.get_marker() != "None"]
    looks = {(x.get_color(), x.get_marker(), x.get_markerfacecolor()) for x in lines}
    assert len(lines) == len(looks) == 7


def test_samples_mark_what_is_not_ranked(figures):
    labels = [t.get_text() for t in figures["samples"].axes[0].get_yticklabels()]
    assert [label for label in labels if label.endswith(" *")] == ["one_scale_a_tile *"]
    assert "*: its output deviates as declared" in text_of(figures["samples"], "caption")[0]


def test_every_sample_is_drawn(figures, inputs):
    axes = figures["samples"].axes[-1]
    dots = [x for x in axes.lines if x.get_marker() == "."]
    assert [len(x.get_xdata()) for x in dots] == [3] * 8


def test_share_has_the_papers_point(figures):
    (paper,) = lines_of(figures["share"].axes[0], "paper")
    assert (list(paper.get_xdata()), list(paper.get_ydata())) == ([8], [72.4])


def test_legend_does_not_cover_data(figures):
    for name in ("speedup", "kernels", "bandwidth", "share"):
        figure = figures[name]
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes), name


def test_texts_stay_within_the_figure(figures):
    for name, figure in figures.items():
        figure.draw_without_rendering()
        for text in figure.texts:
            box = text.get_window_extent()
            assert box.x0 >= 0, name
            assert box.x1 <= figure.bbox.x1, name
            assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes), name


def test_clock_warning_reaches_the_caption(inputs):
    slow = "qwen3-32b/batch8/shared_lut"
    records = tuple(
        replace(r, sm_mhz=1700.0) if r.key == slow else r for r in inputs.replay.records
    )
    by_name = {(r.problem["name"], r.kernel): r for r in records}
    replay = replace(inputs.replay, records=records, _by_name=by_name)
    with house_style():
        figure = speedup_figure(replay, inputs.published, False)
    (caption,) = text_of(figure, "caption")
    assert "shared_lut at 1700 MHz, branch_tree at 1980 MHz" in " ".join(caption.split())


def test_only_mismatches_still_make_figures(replay, shapes, write, tmp_path):
    """Nothing to draw is said in the figure; it is not an error."""
    for results in (replay, shapes):
        results["verdicts"] = []
        for r in results["records"]:
            r.update(outcome="mismatch", role="kernel", samples_us=[], product_samples_us=[])
    a, b = write("replay.json", replay), write("shapes.json", shapes)
    inputs = table2.read(a, b, PUBLISHED, False)
    text = table2.render(inputs, tmp_path / "out")
    assert "WRONG OUTPUT, hence no time: bitsandbytes_0_47_0 (7 rows)" in text


def test_same_bytes_in_another_process_on_another_day(inputs, tmp_path):
    """Nothing of the clock, the hash seed or the process gets into a figure."""
    table2.write_figures(inputs, tmp_path / "here")
    program = (
        "import sys; from pathlib import Path; from plots import table2\n"
        "a, b, p, o = map(Path, sys.argv[1:])\n"
        "table2.write_figures(table2.read(a, b, p, True), o)"
    )
    files = [inputs.replay.file, inputs.shapes.file, PUBLISHED, tmp_path / "there"]
    environment = os.environ | {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "86400"}
    subprocess.run(
        [sys.executable, "-c", program, *map(str, files)], cwd=ROOT, env=environment, check=True
    )
    for name in table2.FIGURE_FILES:
        here, there = tmp_path / "here" / name, tmp_path / "there" / name
        assert here.read_bytes() == there.read_bytes(), name


def test_png_resolution(figures, tmp_path):
    with house_style():
        paths = save(figures["speedup"], tmp_path, "speedup")
    assert [p.suffix for p in paths] == [".pdf", ".png", ".svg"]
    data = paths[1].read_bytes()
    place = data.index(b"pHYs") + 4
    assert int.from_bytes(data[place : place + 4], "big") * 0.0254 >= 149.9
