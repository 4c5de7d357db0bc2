"""Table 2's figures are looked at as objects; and the bytes of all figures are stable."""

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import fixtures
import made
import pytest
from looking import BANNER, lines_of, text_of
from matplotlib.text import Text

from claims.json_files import ROOT
from claims.results import load
from plots import table2
from plots.experiments import figure_files, load_run, names
from plots.figures import (
    LOOKS,
    OTHERS,
    PAGE,
    add_caption,
    encode,
    house_style,
    look,
    new_figure,
)
from plots.output import write_files
from plots.sample_figures import samples_figure
from plots.table2.figures import speedup_figure


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    (folder / "replay.json").write_text(json.dumps(fixtures.replay()))
    shapes = fixtures.shapes(models=("qwen3-32b",), n=5)
    (folder / "shapes.json").write_text(json.dumps(shapes))
    return load_run("table2", folder, recorded=True)


@pytest.fixture(scope="module")
def figures(run):
    with house_style():
        yield {name: draw(run) for name, (_, draw) in table2.FIGURES.items()}


def test_units_on_every_axis(figures):
    units = ("(x)", "(%)", "(sequences)", "(millions)", "(GB/s, 1 GB = 1e9 bytes)")
    for name, figure in figures.items():
        for i, axes in enumerate(figure.axes):
            label, ends = axes.get_xlabel(), ", logarithmic"
            assert label.endswith(ends) == (axes.get_xscale() == "log"), name
            assert label.removesuffix(ends).endswith(units), name
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
        assert text_of(figure, "banner") == [BANNER]


def test_no_banner_on_a_run_of_this_machine(run):
    with house_style():
        figure = speedup_figure(replace(run, recorded=False))
    assert text_of(figure, "banner") == []


def test_papers_markers_are_the_published_values(figures):
    papers = [tuple(lines_of(axes, "paper")[0].get_ydata()) for axes in figures["speedup"].axes]
    gemma = (2.1, 2.1, 2.11, 2.1, 2.11, 2.08)
    qwen, llama = (2.2, 2.19, 2.19, 2.19, 2.19, 2.15), (2.04, 2.04, 2.04, 2.03, 2.05, 2.03)
    assert papers == [gemma, gemma, qwen, llama]


def test_every_speed_up_lies_within_the_axes_and_the_papers_closes_the_legend(figures):
    figure = figures["speedup"]
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        ys = [y for x in axes.lines for y in x.get_ydata()]
        assert bottom < min(ys) and max(ys) < top
    labels = [t.get_text() for t in figure.legends[0].get_texts()]
    assert labels == ["shared_lut: tiles of 512 bytes", "paper (A100-80GB, 1410 MHz)"]


def test_our_markers_are_the_verdicts_values_in_each_reading(tmp_path):
    replay = fixtures.replay()
    for row in [r for r in replay["records"] if r["kernel"] == "shared_lut"]:
        in_weights = copy.deepcopy(row) | {"kernel": "shared_lut_tile512"}
        in_weights["key"] += "_tile512"
        made.set_times(in_weights, [40e3] * 3)
        replay["records"].append(in_weights)
    (tmp_path / "replay.json").write_text(json.dumps(replay))
    (tmp_path / "shapes.json").write_text(json.dumps(fixtures.shapes()))
    run = load_run("table2", tmp_path)
    with house_style():
        figure = speedup_figure(run)
    subjects = ("shared_lut", "shared_lut_tile512")
    labels = [t.get_text() for t in figure.legends[0].get_texts()]
    assert labels[:2] == [
        f"{s}: tiles of 512 {u}" for s, u in zip(subjects, ("bytes", "weights"), strict=True)
    ]
    drawn = figure.axes[2].containers
    assert len(drawn) == 2
    for container, subject in zip(drawn, subjects, strict=True):
        cells = [
            v
            for v in run.decision("kernel-speedup").verdicts
            if v.cell.at["model"] == "qwen3-32b" and v.comparison.arguments["subject"] == subject
        ]
        assert list(container.lines[0].get_ydata()) == [v.ours for v in cells[:-1]]
    (paper,) = lines_of(figure.axes[2], "paper")
    looks = [(x.lines[0].get_color(), x.lines[0].get_marker()) for x in drawn]
    looks.append((paper.get_markeredgecolor(), paper.get_marker()))
    assert all(len(set(found)) == 3 for found in zip(*looks, strict=True))


def test_a_declared_deviation_is_not_marked_where_the_output_is_exact(tmp_path):
    replay = fixtures.replay()
    for row in replay["records"]:
        if row["kernel"] == "one_scale_a_tile":
            row.update(outcome="bit_exact", reason="", mismatches=None)
    (tmp_path / "replay.json").write_text(json.dumps(replay))
    (tmp_path / "shapes.json").write_text(json.dumps(fixtures.shapes()))
    with house_style():
        _, draw = table2.FIGURES["kernels"]
        axes = draw(load_run("table2", tmp_path, recorded=True)).axes[0]
    labels = [t.get_text() for t in axes.get_yticklabels()]
    assert "one_scale_a_tile" in labels


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


@pytest.mark.parametrize("family", ["nf4", "transpose"])
def test_every_recorded_kernel_has_a_look_of_its_own(family):
    counters = load(ROOT / f"data/recorded/h200/counters/{family}_counters.json")
    kernels = {r.kernel for r in counters.records}
    looks = {(look(k)["color"], look(k)["marker"]) for k in kernels}
    assert len(looks) == len(kernels) > 10


def test_a_kernel_without_a_place_has_the_same_look_each_time(figures):
    assert "packed_512_new" not in OTHERS
    assert look("packed_512_new") == look("packed_512_new") != look("packed_512_newer")
    (ours,) = [x for x in figures["bandwidth"].axes[0].lines if x.get_gid() == "streaming"]
    assert (ours.get_color(), ours.get_marker()) == LOOKS["streaming"]


def test_no_figure_is_taller_than_a_page(run):
    with house_style():
        figure = new_figure(7, 30)
        add_caption(figure, run.first, ["A note."] * 9, True)
    assert figure.get_size_inches()[1] == PAGE


def test_samples_mark_what_is_not_ranked(figures):
    labels = [t.get_text() for t in figures["samples"].axes[0].get_yticklabels()]
    assert [label for label in labels if label.endswith("\u2020")] == ["one_scale_a_tile \u2020"]
    assert "\u2020: its output deviates as declared" in text_of(figures["samples"], "caption")[0]


def test_every_sample_is_drawn(figures):
    dots = [x for x in figures["samples"].axes[-1].lines if x.get_marker() == "."]
    assert [len(x.get_xdata()) for x in dots] == [3] * 8


@pytest.mark.parametrize(("times", "text", "mark"), [(2, "+100 %", ">"), (0.5, "-50 %", "<")])
def test_a_sample_far_away_leaves_the_others_room(run, tmp_path, times, text, mark):
    data = fixtures.shapes(models=("qwen3-32b",), n=7)
    record = next(r for r in data["records"] if r["kernel"] == "shared_lut")
    samples = record["metrics"][0]["samples"]
    samples[0] = times * sorted(samples[1:])[3]
    (tmp_path / "shapes.json").write_text(json.dumps(data))
    far = load(tmp_path / "shapes.json", "table2", "shapes")
    with house_style():
        panels = [(x, record["problem"]["name"], "") for x in (run["shapes"], far)]
        figure = samples_figure(panels, recorded=False)
    without, with_it = figure.axes
    assert not [x for x in without.lines if x.get_gid() == "far"]
    (triangle,) = (x for x in with_it.lines if x.get_gid() == "far")
    (x,) = triangle.get_xdata()
    assert triangle.get_marker() == mark and abs(x) < 30 and (x > 0) == (times > 1)
    assert [t.get_text() for t in with_it.texts if t.get_text() == text] == [text]
    assert "Triangle: a sample further away" in text_of(figure, "caption")[0]


def test_a_box_spans_the_interval_of_its_row(figures, run):
    """Of three samples: from the least to the greatest, in percent of the median."""
    rows = [r for r in run["replay"].records if r.problem["name"].startswith("qwen3-32b/batch8/")]
    expected = []
    for s in sorted((r.times for r in rows if r.timed), key=lambda s: s.median):
        expected.append([100 * (end / s.median - 1) for end in (s.min, s.max)])
    axes = figures["samples"].axes[-1]
    right = [t.get_text() for t in axes.texts]
    assert (right[0], right[-1]) == ("20.48 ms", "111.3 ms")
    boxes = [b.get_bbox() for b in axes.patches]
    assert [[b.x0, b.x1] for b in boxes] == [pytest.approx(ends) for ends in expected]


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


def test_clock_warning_reaches_the_caption(run):
    slow = "qwen3-32b/batch8/fp16/b64/shared_lut"
    records = tuple(
        replace(r, sm_mhz=1700.0) if r.key == slow else r for r in run["replay"].records
    )
    passes = run.passes | {"replay": replace(run["replay"], records=records)}
    with house_style():
        figure = speedup_figure(replace(run, passes=passes))
    (caption,) = text_of(figure, "caption")
    assert "shared_lut at 1700 MHz, branch_tree at 1980 MHz" in " ".join(caption.split())


def test_only_mismatches_still_make_figures(replay, shapes, write, tmp_path):
    """Nothing to draw is said in the figure; it is not an error."""
    for file in (replay, shapes):
        for r in file["records"]:
            r.update(outcome="mismatch", origin={"kind": "project", "maker": ""}, metrics=[])
    run = load_run("table2", write("run", replay, shapes))
    with house_style():
        figures = {name: draw(run) for name, (_, draw) in table2.FIGURES.items()}
    said = {name: {t.get_text() for a in f.axes for t in a.texts} for name, f in figures.items()}
    assert {"not run", "no value: see the table"} <= said["speedup"]
    assert "nothing to compare with branch_tree" in said["kernels"]
    assert said["bandwidth"] == said["samples"] == {"no timed row"}
    assert said["share"] == {"no time: see the table"}


def test_same_bytes_in_another_process_on_another_day(run, tmp_path):
    """Nothing of the clock, the hash seed or the process gets into a figure."""
    write_files(figure_files("table2", run, tmp_path / "here"))
    program = (
        "import sys; from pathlib import Path\n"
        "from plots.experiments import figure_files, load_run\n"
        "from plots.output import write_files\n"
        "run = load_run('table2', Path(sys.argv[1]), True)\n"
        "write_files(figure_files('table2', run, Path(sys.argv[2])))"
    )
    arguments = [str(run.first.file.parent), str(tmp_path / "there")]
    environment = os.environ | {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "86400"}
    command = [sys.executable, "-c", program, *arguments]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    written = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert len(written) == 3 * len(table2.FIGURES)
    for name in written:
        here, there = tmp_path / "here" / name, tmp_path / "there" / name
        assert here.read_bytes() == there.read_bytes(), name


def test_any_name_is_drawn_as_it_is(replay, shapes, write, recwarn):
    """No mathematics, well-formed SVG, and no warning for each letter that the font lacks."""
    names = {
        "shared_lut": "$x$ \\frac{",
        "streaming": "<&\"'--> ]]>",
        "packed_512": "\u4e2d\x01\ufffe",
    }
    for file in (replay, shapes):
        file["provenance"]["gpu"]["name"] = "$\\frac$ GPU"
        for r in file["records"]:
            r["kernel"] = names.get(r["kernel"], r["kernel"])
    run = load_run("table2", write("run", replay, shapes))
    with house_style():
        for name, (_, draw) in table2.FIGURES.items():
            figure = draw(run)
            ElementTree.fromstring(encode(figure, "svg"))
            for text in figure.findobj(Text):
                assert not text.get_parse_math(), name
    assert not recwarn.list


def test_png_resolution(figures):
    with house_style():
        data = encode(figures["speedup"], "png")
    place = data.index(b"pHYs") + 4
    assert int.from_bytes(data[place : place + 4], "big") * 0.0254 >= 149.9


def test_every_folder_with_passes_has_one_here():
    assert {"table2", "transpose"} <= set(names())
    for name in names():
        assert (ROOT / f"plots/{name}/__init__.py").exists()
