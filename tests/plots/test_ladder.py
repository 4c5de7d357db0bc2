"""The ladder from end to end: golden texts, steps by hand, what is missing, and what is refused."""

import re

import ladder_fixtures
import made
import pytest
from looking import BANNER, IN_FULL, line, lines_of, markdown_row, rendered, text_of

from claims.errors import InputError
from claims.json_files import ROOT
from plots import ladder
from plots.cli import main
from plots.experiments import load_run
from plots.figures import house_style
from plots.ladder.steps import LADDERS

LAYER = "28672x8192/fp16/b64"


@pytest.fixture
def passes():
    return ladder_fixtures.whole_run()


@pytest.fixture
def texts(passes, write):
    """Renders the passes as they now are: file name -> text."""
    return lambda: rendered("ladder", write("run", *passes.values()))


@pytest.fixture
def drawn(passes, write):
    """Draws a figure of the passes as they now are."""

    def draw(name, recorded=False):
        with house_style():
            run = load_run("ladder", write("run", *passes.values()), recorded)
            return ladder.FIGURES[name][1](run)

    return draw


def row(passes, name, kernel):
    (found,) = made.rows_of(passes[name], kernel)
    return found


@pytest.mark.parametrize("name", ["ladder", "sizes"])
def test_golden(texts, golden, name):
    golden(f"ladder/{name}.md", texts()[f"{name}.md"])


def test_render(passes, write, capsys, monkeypatch, tmp_path):
    write("run", *passes.values())
    monkeypatch.chdir(tmp_path)
    assert main(["render", "ladder", *IN_FULL]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == f"| {BANNER} |"
    assert max(map(len, text.splitlines())) <= 100
    assert "streaming is 3.68 times as fast as branch_tree = global_lut 2.16 x" in text
    assert "0 claims" not in text
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"{t}.{s}" for t in ("ladder", "sizes") for s in ("txt", "md", "csv", "tex")
    } | {f"{f}.{s}" for f in ("steps", "sizes") for s in ("pdf", "png", "svg")}


def test_the_passes_run_the_steps_in_their_order():
    lines = (ROOT / "experiments/ladder/passes").read_text().splitlines()
    found = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
    for name, steps in LADDERS.items():
        kernels = "|".join(step.kernel for step in steps)
        for end in ("", "_launches", "_counters"):
            assert f" --kernel {kernels}" in found[name + end]
            assert ("--nested" in found[name + end]) == (name == "nested")
    assert found["warm"].removesuffix(" --warm").split()[1:] == found["cold"].split()[1:]
    assert set(ladder.PASSES) == set(found) - {"check"}


def test_every_step_is_a_kernel_with_a_file():
    for step in {step for steps in LADDERS.values() for step in steps}:
        assert (ROOT / f"kernels/nf4/{step.kernel}.cu").exists(), step.kernel


def test_steps_by_hand(texts, passes):
    for kernel, us in (("branch_tree", 600.0), ("global_lut", 300.0), ("shared_lut", 200.0)):
        made.set_times(row(passes, "plain", kernel), [us] * 21)
    made.set_times(row(passes, "plain", "copy"), [150.0] * 21)
    text = texts()["ladder.md"]
    moved = 28672 * 8192 * 2.5625
    first = markdown_row(text, "`branch_tree`")
    assert first[2:7] == ["600.0", "-", "-", "62.4", f"{moved / 600e3:.0f}"]
    assert markdown_row(text, "`global_lut`")[2:6] == ["300.0", "2.00", "2.00", "26.6 (-57%)"]
    third = markdown_row(text, "`shared_lut`")
    assert third[2:6] == ["200.0", "1.50", "3.00", "23.1 (-13%)"]
    assert third[7:] == ["75.0", "48"]


def test_two_steps_that_are_not_told_apart_say_so(texts, passes):
    made.set_times(row(passes, "plain", "global_lut"), [200.0, 210.0, 220.0, 230.0, 240.0])
    made.set_times(row(passes, "plain", "shared_lut"), [199.0, 209.0, 219.0, 229.0, 239.0])
    assert line(texts()["ladder.txt"], "shared_lut ").split()[6] == "~1.00"


def test_the_nested_step_is_compared_with_two_launches_alone(texts):
    nested = texts()["ladder.md"].split("nested scales**")[1]
    assert markdown_row(nested, "`two_launches`")[3:5] == ["-", "-"]
    assert markdown_row(nested, "`two_launches`")[8] == "16 + 30"
    assert markdown_row(nested, "`streaming`")[3:5] == ["1.23", "-"]
    # an fp32 scale for 64 weights, written and read
    assert "reads it, 29.4 MB together" in nested


def test_the_fastest_ceiling_is_named(texts, passes):
    text = texts()["ladder.md"]
    assert "The fastest ceiling with plain scales is same_bytes, at 42" in text
    assert "write_only" not in text and "read_only" not in text
    made.set_times(row(passes, "plain", "copy_kernel"), [100.0] * 21)
    assert "The fastest ceiling with plain scales is copy_kernel, at 60" in texts()["ladder.md"]


def test_a_step_that_failed_has_its_reason_and_no_factor_on_either_side(texts, passes, drawn):
    made.fail(row(passes, "plain", "packed_store"), "mismatch")
    text = texts()["ladder.md"]
    found = markdown_row(text, "`packed_store`")
    assert found[2].startswith("mismatch <sup>") and found[3:5] == ["-", "-"]
    assert markdown_row(text, "`wide_store`")[3:5] == ["-", "3.08"]
    assert "packed_store: 1 of 8 weights differ" in text
    axes = drawn("steps").axes[0]
    assert "no time: see the table" in [t.get_text() for t in axes.texts]


def test_a_step_that_did_not_run(texts, passes):
    records = passes["plain"]["records"]
    passes["plain"]["records"] = [r for r in records if r["kernel"] != "wide_store_hints"]
    assert markdown_row(texts()["ladder.md"], "`wide_store_hints`")[2] == "not run"


def test_counters_that_are_missing_say_why(texts, passes, drawn):
    for r in passes["plain_counters"]["records"]:
        for m in r["metrics"]:
            m.pop("samples")
            m["missing"] = "not permitted"
    text = texts()["ladder.md"]
    assert markdown_row(text, "`streaming`")[5].startswith("- <sup>")
    assert "not permitted" in text
    texts_of = [t.get_text() for t in drawn("steps").axes[1].texts]
    assert texts_of == ["not counted"] * len(LADDERS["plain"])


def test_the_shape_of_the_last_step_is_said(texts, passes):
    """Of 1024 threads, as many as it takes for 8 weights each."""
    launched = row(passes, "plain_launches", "streaming")
    (kernel,) = launched["launch"]["kernels"]
    kernel |= {"grid": [launched["problem"]["n"] // 8 // 1024, 1, 1], "block": [1024, 1, 1]}
    said = "by the size: here 1024 threads with 1 word each for plain scales, "
    assert said in texts()["ladder.md"]
    for name in ("plain_launches", "nested_launches"):
        row(passes, name, "streaming")["launch"] = None
    assert "words of 8 weights per thread by the size.</sub>" in texts()["ladder.md"]


def bars(axes):
    return {bar.get_gid(): bar for bar in axes.patches if bar.get_gid()}


def test_the_figure_goes_from_step_to_step(drawn, passes):
    for kernel, us in (("branch_tree", 600.0), ("global_lut", 300.0), ("shared_lut", 400.0)):
        made.set_times(row(passes, "plain", kernel), [us] * 21)
    made.set_times(row(passes, "plain", "same_bytes"), [100.0] * 21)
    figure = drawn("steps", recorded=True)
    axes = figure.axes[0]
    found = bars(axes)
    assert set(found) == {step.kernel for step in LADDERS["plain"][1:]}
    assert (found["global_lut"].get_x(), found["global_lut"].get_width()) == (1, pytest.approx(1))
    assert found["shared_lut"].get_x() == pytest.approx(2)
    assert found["shared_lut"].get_width() == pytest.approx(-0.5)
    shown = [t.get_text() for t in axes.texts]
    assert {"x2.00", "2.00", "x0.75", "1.50"} <= set(shown)
    (ceiling,) = lines_of(axes, "ceiling")
    assert ceiling.get_xdata()[0] == pytest.approx(6, rel=1e-3)
    assert ceiling.get_label() == "fastest ceiling: same_bytes"
    assert axes.get_xlim()[1] > 6
    assert text_of(figure, "banner") == [BANNER]


@pytest.mark.parametrize("us", [90.0, 86.0, 60.0])
def test_a_factor_beside_its_bar_leaves_the_ceiling_free(drawn, passes, us):
    made.set_times(row(passes, "nested", "two_launches"), [100.0] * 21)
    made.set_times(row(passes, "nested", "streaming"), [90.0] * 21)
    for kernel in ("same_bytes", "copy_kernel", "copy"):
        made.set_times(row(passes, "nested", kernel), [us] * 21)
    figure = drawn("steps")
    axes = figure.axes[2]
    (factor,) = (t for t in axes.texts if t.get_text() == "x1.11")
    (ceiling,) = lines_of(axes, "ceiling")
    figure.draw_without_rendering()
    box = factor.get_window_extent()
    at = axes.transData.transform((ceiling.get_xdata()[0], 0))[0]
    assert not box.x0 < at < box.x1


def test_the_figure_has_the_instructions_beside_the_steps(drawn):
    found = bars(drawn("steps").axes[1])
    assert found["branch_tree"].get_width() == pytest.approx(62.4, rel=1e-3)
    assert found["streaming"].get_width() == pytest.approx(9.2, rel=1e-3)


def test_the_curves(drawn, passes):
    cold, warm = drawn("sizes").axes
    for axes in (cold, warm):
        assert {x.get_gid() for x in axes.lines} == {*ladder_fixtures.CURVES, "copy", "l2"}
        (curve,) = lines_of(axes, "streaming")
        assert list(curve.get_xdata())[::12] == [1 / 16, 3072]
        (l2,) = lines_of(axes, "l2")
        # 60 MiB hold 48.8 MiB of output, its codes and its scales
        assert l2.get_xdata()[0] == pytest.approx(60 / 2.5625 * 2)
    fastest = [max(lines_of(axes, "streaming")[0].get_ydata()) for axes in (cold, warm)]
    assert fastest[1] > 1.2 * fastest[0]


def test_warm_rows_stand_apart_from_cold_ones(texts):
    cold, warm = texts()["sizes.md"].split("**warm: every launch is in the same memory")
    assert markdown_row(cold, "32 MiB")[1] != markdown_row(warm, "32 MiB")[1]
    assert re.search(r"\ncold,32,.*\nwarm,", texts()["sizes.csv"], re.DOTALL)


@pytest.mark.parametrize(
    ("name", "warm", "said"), [("cold", True, "warm"), ("warm", False, "cold")]
)
def test_rows_of_the_wrong_cache_are_refused(passes, write, name, warm, said):
    passes[name] = ladder_fixtures.curve(warm) | {"pass": name}
    wanted = {"warm": "cold", "cold": "warm"}[said]
    message = rf"{name}\.json: records\[0\]\.problem: is {said}, but {wanted} rows are needed here"
    with pytest.raises(InputError, match=message):
        load_run("ladder", write("run", *passes.values()))


def test_one_problem_for_all_steps(passes, write, texts):
    other = ladder_fixtures.layer(1024)
    passes["plain_counters"]["records"][0]["problem"] = other
    with pytest.raises(InputError, match=r"plain_counters\.json: needs one problem, but has 2"):
        texts()
    for r in passes["plain_counters"]["records"]:
        r["problem"] = other
    with pytest.raises(InputError, match=rf"is of 1024x8192/fp16/b64, but plain\.json of {LAYER}"):
        texts()


def test_two_problems_of_one_size(passes, texts):
    for r in passes["cold"]["records"]:
        if r["problem"]["rows"] == 16:
            r["problem"] |= {"n": 4 * 8192}
    with pytest.raises(InputError, match="'16x8192/fp16/b64' has the size of another"):
        texts()
