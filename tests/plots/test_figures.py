"""Figures as objects, also in odd cases; and their stable bytes."""

from xml.etree import ElementTree

import pytest
from edited import Edited, lines_of, recorded_names, text_of
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from experiments.counters import views as counters
from experiments.table2 import views as table2
from plots import experiments
from plots.cli import main
from plots.experiments import experiment, load_run
from plots.figures import (
    DPI,
    MOST_SERIES,
    PAGE,
    WIDTHS,
    add_caption,
    chosen,
    encode,
    figure_style,
    left_out_note,
    look,
    new_figure,
    take_caption,
)
from plots.sample_figures import samples_figure
from reprolab.json_files import ROOT
from reprolab.results import COPY, load


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Edited("table2", tmp_path_factory.mktemp("results")).run(recorded=True)


@pytest.fixture(scope="module")
def figures(run):
    with figure_style():
        yield {name: draw(run) for name, (_, draw) in table2.FIGURES.items()}


@pytest.mark.parametrize("family", ["nf4", "transpose"])
def test_every_recorded_kernel_has_a_look_of_its_own(family):
    counters = load(ROOT / f"data/recorded/h200/counters/{family}_counters.json")
    kernels = {r.kernel for r in counters.records}
    looks = {(look(k)["color"], look(k)["marker"]) for k in kernels}
    assert len(looks) == len(kernels) > 10
    for mojo in [k for k in kernels if k.startswith("mojo_") and k[5:] in kernels]:
        assert look(mojo)["color"] == look(mojo[5:])["color"]


def test_no_figure_is_taller_than_a_page(run):
    with figure_style():
        figure = new_figure(30)
        add_caption(figure, run.first, ["A note."] * 9, True)
    assert figure.get_size_inches()[1] == PAGE


def test_samples_far_away_leave_the_others_room(run, edited):
    far = edited("table2")
    record = far.row("shapes", "shared_lut", "25600x5120/*")
    record["metrics"][0]["samples"] = [200.0, 100.0, 101.0, 100.0, 99.5, 100.5, 50.0]
    with figure_style():
        panels = [(x["shapes"], record["problem"]["name"], "") for x in (run, far.run())]
        figure = samples_figure(panels, recorded=False)
    without, with_it = figure.axes
    assert not lines_of(without, "far")
    right, left = lines_of(with_it, "far")
    assert (right.get_marker(), left.get_marker()) == (">", "<")
    assert 0 < right.get_xdata()[0] == -left.get_xdata()[0] < 30
    assert {"+100 %", "-50 %"} <= {t.get_text() for t in with_it.texts}
    assert "Triangle: a sample further away" in text_of(figure, "caption")[0]
    assert text_of(figure, "banner") == []  # which recorded runs alone have


def test_for_a_paper_captions_and_notes_stay_outside(edited, monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(experiments, "encode", lambda figure, kind: figures.append(figure) or b"")
    folders = ["--results", str(edited("ladder").write()), "--output", str(tmp_path / "out")]
    options = ["--recorded", "--no-captions", "--no-notes"]
    assert main(["render", "ladder", *folders, *options]) == 0
    assert not any(figure.texts for figure in figures)
    assert all(figure.get_figheight() < PAGE - 0.3 for figure in figures)
    steps, sizes = (tmp_path / "out/captions.txt").read_text().split("\n\n")
    assert steps.startswith("steps: Recorded run of NVIDIA H200, 20")
    assert "Warm rows rank only with warm rows." in sizes
    assert (tmp_path / "out/sizes.tex").read_text().endswith("\\end{tabular}\n\\end{table*}\n")


DRAWN = [(name, figure) for name in recorded_names() for figure in experiment(name).FIGURES]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(("name", "file"), DRAWN)
def test_every_recorded_figure_can_be_printed(recorded_runs, name, file, columns):
    """With the requested width, few and distinct series in a panel, and room next to legends."""
    with figure_style(columns):
        figure = experiment(name).FIGURES[file][1](recorded_runs[name])
        take_caption(figure)
        figure.set_dpi(DPI)
        figure.draw_without_rendering()
    width, height = figure.get_size_inches()
    assert width == WIDTHS[columns] and height <= PAGE
    for axes in figure.axes:
        lines = [x for x in axes.lines if x.get_gid() and x.get_linestyle() != "None"]
        curves = [x for x in lines if len(x.get_xdata()) > 2]
        kernels = [x for x in curves if x.get_gid() not in ROOFS]
        assert len({x.get_gid() for x in kernels}) <= MOST_SERIES
        faces = {(x.get_color(), x.get_marker(), x.get_linestyle()) for x in curves}
        assert len(faces) == len(curves)
        if legend := axes.get_legend():
            assert len(legend.get_texts()) <= MOST_SERIES + 3
    assert_distinct_bars(figure)
    boxes = [legend.get_window_extent() for legend in figure.legends]
    assert sum(box.height for box in boxes) < figure.bbox.height / 3
    boxes += [axes.get_tightbbox() for axes in figure.axes]
    assert all(box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1 for box in boxes)
    assert all(box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1 for box in boxes)


def assert_distinct_bars(figure):
    """By colour: a bar has no marker and no line."""
    for legend in figure.legends:
        bars = [x.get_facecolor() for x in legend.legend_handles if isinstance(x, Rectangle)]
        assert len(set(bars)) == len(bars)


def test_the_control_of_the_baseline_has_a_colour_of_its_own():
    h100 = load_run("counters", ROOT / "data/recorded/h100/counters")  # alone has it there
    with figure_style():
        assert_distinct_bars(counters.FIGURES["divergence"][1](h100))


ROOFS = {"reading", "multiplying", "issue", "memory", "peak", COPY}


def test_a_users_kernel_comes_first():
    known = ["streaming", "branch_tree", "shared_lut", "packed_512", "wide_store", "triton_lut"]
    shown = chosen([*known, "constant_lut", "mine", "global_lut"])
    assert len(shown) == MOST_SERIES and "mine" in shown and shown[0] == "streaming"
    assert chosen(known[:3]) == known[:3]
    assert left_out_note([*known, "mine"], shown) == ["1 more kernel: the table."]
    assert left_out_note(known[:2], known) == []


def test_nothing_covers_data_or_leaves_the_figure(figures):
    for name, figure in figures.items():
        figure.set_dpi(DPI)
        figure.draw_without_rendering()
        panels = [axes.get_window_extent() for axes in figure.axes]
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert not any(box.overlaps(panel) for panel in panels), name
        for text in figure.texts:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, name
            assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes), name


def test_a_figure_may_be_as_wide_as_one_column(run):
    """Its panels are one below another, and its texts are wrapped to fit."""
    with figure_style(columns=1):
        figures = [draw(run) for name, (_, draw) in table2.FIGURES.items() if name != "samples"]
    for figure in figures:
        figure.set_dpi(DPI)
        figure.draw_without_rendering()
        assert figure.get_size_inches()[0] == WIDTHS[1] and figure.get_size_inches()[1] <= PAGE
        assert len({axes.get_position().x0 for axes in figure.axes}) == 1
        assert len([axes for axes in figure.axes if axes.get_xlabel()]) == 1
        boxes = [artist.get_window_extent() for artist in (*figure.texts, *figure.legends)]
        boxes += [axes.get_tightbbox() for axes in figure.axes]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_any_name_is_drawn_as_it_is(edited, recwarn):
    """No mathematics, well-formed SVG, and no warning for each letter that the font lacks."""
    names = {"shared_lut": "$x$ \\frac{", "streaming": "<&\"'--> ]]>"}
    names["packed_512"] = "\u4e2d\x01\ufffe"
    run = edited("table2")
    run.provenance(gpu={"name": "$\\frac$ GPU"})
    for row in run.rows():
        row["kernel"] = names.get(row["kernel"], row["kernel"])
    loaded = run.run()
    with figure_style():
        for name, (_, draw) in table2.FIGURES.items():
            figure = draw(loaded)
            ElementTree.fromstring(encode(figure, "svg"))
            for text in figure.findobj(Text):
                assert not text.get_parse_math(), name
    assert not recwarn.list
