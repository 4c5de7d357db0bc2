"""Figures of hardware counters: the roofs, and what is left out."""

from itertools import pairwise

import counters_fixtures
import made
import pytest
from looking import lines_of, text_of

from plots import counters
from plots.counters.figures import PART_COLOURS, part_colours, spread
from plots.experiments import load_run
from plots.figures import house_style

LAYER = "28672x8192/fp16/b64"


@pytest.fixture
def passes():
    return counters_fixtures.whole_run()


@pytest.fixture
def figure(passes, write):
    def draw(name):
        with house_style():
            run = load_run("counters", write("run", *passes.values()))
            return counters.FIGURES[name][1](run)

    return draw


def test_small_parts_are_one():
    many = {"unseen": 0.01} | {f"part{i:02}": 1.0 + i for i in range(30)}
    colours = part_colours([many])
    assert len(colours) == len(PART_COLOURS) + 1
    assert "unseen" not in part_colours([many | {"part29": 1e6}])
    first, *_, last = colours
    assert (first, last) == ("part29", "other")


def test_without_a_copy_the_roof_is_theoretical_and_says_so(figure, passes):
    for name in ("nf4_launches", "transpose_launches", "divergence"):
        records = passes[name]["records"]
        passes[name]["records"] = [r for r in records if r["kernel"] != "copy"]
    drawn = figure("roofline")
    (memory,) = lines_of(drawn.axes[0], "memory")
    assert (memory.get_ydata()[0], memory.get_label()) == (4814, "theoretical bandwidth")
    (caption,) = text_of(drawn, "caption")
    assert f"No pass of this run copies {LAYER}: its roof is" in " ".join(caption.split())


def test_the_copy_may_be_another_passs_of_the_run(figure, passes):
    records = passes["nf4_launches"]["records"]
    passes["nf4_launches"]["records"] = [r for r in records if r["kernel"] != "copy"]
    row = made.find(passes["divergence"], f"{LAYER}/copy")
    made.set_times(row, [150.0] * 5)
    drawn = figure("roofline")
    (memory,) = lines_of(drawn.axes[0], "memory")
    assert memory.get_ydata()[0] == pytest.approx(sum(row["bytes"].values()) / 150e3)
    (caption,) = text_of(drawn, "caption")
    assert f"Copy on {LAYER}: 4013 GB/s, in divergence.json." in " ".join(caption.split())


def test_figures_without_a_counter_say_so(figure, passes):
    for name in ("nf4_counters", "transpose_counters"):
        for row in passes[name]["records"]:
            for metric in row["metrics"]:
                metric.pop("samples", None)
                metric["missing"] = "not permitted"
    for name in ("instructions", "stalls"):
        texts = [t.get_text() for axes in figure(name).axes for t in axes.texts]
        assert texts.count("nothing was counted: see the table") == 2
    texts = [t.get_text() for axes in figure("roofline").axes for t in axes.texts]
    assert texts == ["no kernel with both a time and its instructions"] * 2


@pytest.mark.parametrize("heights", [[0.5], [0.1, 0.5, 0.9], [0.5, 0.5, 0.5, 0.51], [0, 0, 0.01]])
def test_names_keep_their_distance_and_order(heights):
    found = spread(heights, 0.06)
    assert len(found) == len(heights)
    assert all(b - a >= 0.06 - 1e-9 for a, b in pairwise(found))
    assert min(found) >= 0
