"""Figures of hardware counters: what the bars add up to, the roofs, and what is left out."""

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


def bars(axes, kernel):
    found = {}
    for bar in axes.patches:
        if bar.get_gid() and bar.get_gid().split("/")[0] == kernel:
            found[bar.get_gid().split("/")[1]] = bar.get_width()
    return found


def test_pipes_add_up_to_all_instructions_and_no_part_is_counted_twice(figure):
    axes = figure("instructions").axes[0]
    found = bars(axes, "branch_tree")
    assert "fmaheavy" not in found
    assert found["alu"] == pytest.approx(32 * 1.007, rel=1e-3)
    assert found["fma"] == pytest.approx(32 * 0.404, rel=1e-3)
    assert sum(found.values()) == pytest.approx(32 * 1.985, rel=1e-3)
    assert axes.get_xlabel() == "instructions per weight"
    assert "63.5" in [t.get_text() for t in axes.texts]


def test_the_transposes_are_beside_them(figure):
    axes = figure("instructions").axes[1]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["tma_naive", "tiled"]
    assert axes.get_xlabel() == "instructions per element"


def test_stalls_leave_out_the_warp_that_issues(figure):
    found = bars(figure("stalls").axes[0], "branch_tree")
    assert "selected" not in found and found["not selected"] == pytest.approx(3.4)
    assert sum(found.values()) == pytest.approx(0.29 + 2.48 + 2.37 + 3.4)


def test_a_kernel_without_counters_has_a_place_and_no_bar(figure):
    axes = figure("stalls").axes[0]
    assert "broken_lut" in [t.get_text() for t in axes.get_yticklabels()]
    assert bars(axes, "broken_lut") == {}
    assert "not counted" in [t.get_text() for t in axes.texts]


def test_small_parts_are_one():
    many = {"unseen": 0.01} | {f"part{i:02}": 1.0 + i for i in range(30)}
    colours = part_colours([many])
    assert len(colours) == len(PART_COLOURS) + 1
    assert "unseen" not in part_colours([many | {"part29": 1e6}])
    first, *_, last = colours
    assert (first, last) == ("part29", "other")


def points(axes):
    kernels = ("branch_tree", "shared_lut", "tma_naive", "tiled")
    return {k: (x.get_xdata()[0], x.get_ydata()[0]) for k in kernels for x in lines_of(axes, k)}


def test_the_roofline_has_times_of_the_other_pass(figure, passes):
    row = made.rows_of(passes["nf4_launches"], "branch_tree")[-1]
    moved = sum(row["bytes"].values())
    made.set_times(row, [500.0] * 5)
    axes = figure("roofline").axes[0]
    x, y = points(axes)["branch_tree"]
    assert x == pytest.approx(1.985 * row["problem"]["n"] / moved, rel=1e-3)
    assert y == pytest.approx(moved / 500 / 1e3)
    assert set(points(axes)) == {"branch_tree", "shared_lut"}, "the others have no time"


def test_the_roofs(figure, passes):
    drawn = figure("roofline")
    (issue,) = lines_of(drawn.axes[0], "issue")
    limit = 132 * 4 * 1980e6
    for x, y in zip(issue.get_xdata(), issue.get_ydata(), strict=True):
        assert x * y * 1e9 == pytest.approx(limit)
    copy = passes["nf4_launches"]["records"][-1]
    (memory,) = lines_of(drawn.axes[0], "memory")
    gb_s = sum(copy["bytes"].values()) / copy["metrics"][0]["samples"][0] / 1e3
    assert memory.get_ydata()[0] == pytest.approx(gb_s)
    assert memory.get_label() == "copy (cudaMemcpy)"
    (caption,) = text_of(drawn, "caption")
    assert "132 SMs x 4 warp instructions per cycle x 1980 MHz" in " ".join(caption.split())


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
