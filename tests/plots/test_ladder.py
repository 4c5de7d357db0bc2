"""The ladder: steps that are missing or not told apart, and what is refused."""

import ladder_fixtures
import made
import pytest
from looking import line, lines_of, markdown_row, rendered

from experiments import declared
from plots import ladder
from plots.experiments import load_run
from plots.figures import house_style
from plots.ladder.steps import LADDERS
from records.errors import InputError

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


def test_the_passes_run_the_steps_in_their_order():
    passes = declared.experiment("ladder").passes
    for name, steps in LADDERS.items():
        for end in ("", "_launches", "_counters"):
            assert passes[name + end].kernels == tuple(step.kernel for step in steps)
            assert ("--nested" in passes[name + end].arguments) == (name == "nested")
    assert passes["warm"].arguments == (*passes["cold"].arguments, "--warm")


def test_two_steps_that_are_not_told_apart_say_so(texts, passes):
    made.set_times(row(passes, "plain", "global_lut"), [200.0, 210.0, 220.0, 230.0, 240.0])
    made.set_times(row(passes, "plain", "shared_lut"), [199.0, 209.0, 219.0, 229.0, 239.0])
    assert line(texts()["ladder.txt"], "shared_lut ").split()[6] == "~1.00"


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
