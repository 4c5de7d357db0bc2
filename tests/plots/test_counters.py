"""Latencies and divergence: rows that are wrong or missing, the reading, and what is refused."""

import counters_fixtures
import made
import pytest
from looking import markdown_row, rendered

from plots import counters
from plots.cli import main
from plots.counters.divergence import divergence_reading
from plots.experiments import load_run
from plots.figures import house_style


@pytest.fixture
def passes():
    """Every pass, to be changed at will."""
    return counters_fixtures.whole_run()


@pytest.fixture
def walks(passes):
    return passes["latency"]


@pytest.fixture
def divergence(passes):
    return passes["divergence"]


@pytest.fixture
def run(passes, write):
    """Loads all passes as they now are."""
    return lambda: load_run("counters", write("run", *passes.values()))


@pytest.fixture
def texts(passes, write):
    return lambda: rendered("counters", write("run", *passes.values()))


@pytest.fixture
def figure(run):
    def draw(name):
        with house_style():
            return counters.FIGURES[name][1](run())

    return draw


def test_nanoseconds_are_at_the_clock_of_the_row(texts, walks):
    (row,) = made.rows_of(walks, "global_dram")
    row["metrics"][1]["samples"] = [600.0] * 5
    row["metrics"][0]["samples"] = [1.0] * 5
    row["clocks"]["sm_mhz_during"] = 1500
    assert markdown_row(texts()["latency.md"], "`global_dram`")[5] == "400"
    row["clocks"]["sm_mhz_during"] = None
    assert markdown_row(texts()["latency.md"], "`global_dram`")[5] == "-"


def test_a_wrong_walk_has_no_number(texts, walks):
    (row,) = made.rows_of(walks, "global_dram")
    made.fail(row, "mismatch", "1 of 1 ends differ")
    text = texts()["latency.md"]
    assert markdown_row(text, "`global_dram`")[2:6] == ["290", "mismatch <sup>1</sup>", "-", "-"]
    assert "global_dram: 1 of 1 ends differ" in text
    ratio = markdown_row(text, "`global_dram / shared_load`")
    assert (ratio[3], ratio[6].split(" <")[0]) == ("-", "not testable")


def set_us(divergence, data, kernel, us):
    name = counters_fixtures.problem(data)["name"]
    made.set_times(made.find(divergence, f"{name}/{kernel}"), [us] * 5)


def test_the_reading_says_how_much_of_the_gain_is_divergence(run, divergence):
    for data, kernel, us in [
        ("normal", "branch_tree", 500.0),
        ("normal", "shared_lut", 250.0),
        ("equal", "branch_tree", 300.0),
        ("equal", "shared_lut", 240.0),
    ]:
        set_us(divergence, data, kernel, us)
    first, second = divergence_reading(run())
    assert "takes 300 us: 80 % of what is saved is divergence, and without it" in first
    assert second.startswith("branch_tree runs 63.52 instructions per weight with 19.60 of 32")
    set_us(divergence, "normal", "shared_lut", 500.0)
    assert divergence_reading(run()) == [], "nothing is saved"


@pytest.mark.parametrize("data", ["normal", "equal"])
@pytest.mark.parametrize("kernel", ["branch_tree", "shared_lut"])
def test_without_one_of_its_rows_there_is_no_reading(run, divergence, data, kernel):
    name = counters_fixtures.problem(data)["name"]
    made.fail(made.find(divergence, f"{name}/{kernel}"), "mismatch")
    assert divergence_reading(run()) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p.update(rows=64, n=64 * p["columns"]),
        lambda p: p.update(data="uniform"),
        lambda p: p.update(data="constant"),
    ],
)
def test_other_problems_than_one_shape_in_four_orders_are_refused(
    passes, divergence, write, capsys, tmp_path, spoil
):
    name = counters_fixtures.problem("equal")["name"]
    for row in divergence["records"]:
        if row["problem"]["name"] == name:
            spoil(row["problem"])
    folder = write("run", *passes.values())
    assert main(["render", "counters", "--results", str(folder), "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"error: {folder}/divergence.json: needs one shape, once on each of equal, sorted, normal, "
        "uniform\n"
    )


def test_figures_without_a_number_say_so(figure, walks, divergence):
    for row in walks["records"] + divergence["records"]:
        if row["outcome"] == "bit_exact":
            made.fail(row, "mismatch")
    assert figure("latency").axes[0].texts[0].get_text() == "no row was measured: see the table"
    assert figure("divergence").axes[0].texts[0].get_text() == "no timed row"
