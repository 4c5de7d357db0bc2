"""Latencies and divergence from end to end: golden texts, readings, figures, what is refused."""

import counters_fixtures
import made
import pytest
from looking import lines_of, markdown_row, rendered, text_of

from plots import counters
from plots.cli import main
from plots.counters.divergence import divergence_reading
from plots.experiments import CLAIM_DETAILS, load_run
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


NAMES = (
    "nf4_counters",
    "transpose_counters",
    "latency",
    "divergence",
    "sass",
    "nf4_all_counters",
    "transpose_all_counters",
    "claims",
)


@pytest.mark.parametrize("name", NAMES)
def test_golden(texts, golden, name):
    golden(f"counters/{name}.md", texts()[f"{name}.md"])


def test_render(passes, write, capsys, monkeypatch, tmp_path):
    write("run", *passes.values())
    monkeypatch.chdir(tmp_path)
    assert main(["render", "counters", "--results", "run", "--output", "out", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    for title in (
        "Latency of memory",
        "Divergence alone: 28672 x 8192",
        "Claims that experiment counters bears on",
    ):
        assert title in text
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"{t}.{s}" for t in NAMES for s in ("txt", "md", "csv", "tex")} | {
        f"{figure}.{s}" for figure in counters.FIGURES for s in ("pdf", "png", "svg")
    } | {CLAIM_DETAILS}


def test_the_papers_cycles_stand_beside_what_measures_the_same(texts):
    text = texts()["latency.md"]
    papers = {k: markdown_row(text, f"`{k}`")[2] for k in counters_fixtures.CYCLES}
    expected = {"shared_load": "23", "shared_store": "19", "global_dram": "290"}
    assert papers == {k: expected.get(k, "-") for k in counters_fixtures.CYCLES}
    assert markdown_row(text, "`shared_load`")[4] == "+25 %"


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
    assert divergence_reading(run()) == [
        "On normal weights shared_lut is 2.00x as fast as branch_tree and saves 250 of 500 us. "
        "With equal codes, where no warp diverges, branch_tree takes 300 us: 80 % of what is saved "
        "is divergence, and without it the gain is 1.25x.",
        "branch_tree runs 63.52 instructions per weight with 19.60 of 32 threads active and "
        "21.98 M divergent targets on normal weights, 32 instructions per weight with 32 of 32 "
        "threads active and 0 divergent targets on equal codes.",
    ]
    set_us(divergence, "normal", "shared_lut", 500.0)
    assert divergence_reading(run()) == [], "nothing is saved"


@pytest.mark.parametrize("data", ["normal", "equal"])
@pytest.mark.parametrize("kernel", ["branch_tree", "shared_lut"])
def test_without_one_of_its_rows_there_is_no_reading(run, divergence, data, kernel):
    name = counters_fixtures.problem(data)["name"]
    made.fail(made.find(divergence, f"{name}/{kernel}"), "mismatch")
    assert divergence_reading(run()) == []


def test_rows_are_compared_with_themselves_on_equal_codes_and_with_the_baseline(texts, divergence):
    set_us(divergence, "equal", "constant_lut", 100.0)
    set_us(divergence, "uniform", "constant_lut", 300.0)
    set_us(divergence, "uniform", "branch_tree", 600.0)
    rows = texts()["divergence.md"].split("uniform:")[1]
    assert markdown_row(rows, "`constant_lut`")[5:7] == ["3.00", "2.00"]
    equal = texts()["divergence.md"].split("equal:")[1]
    assert markdown_row(equal, "`branch_tree`")[5:7] == ["-", "-"]
    assert "copy" not in texts()["divergence.md"].split("GB/s:")[0]
    assert ",copy,ceiling," in texts()["divergence.csv"]


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


def test_each_pass_is_of_its_own_family(walks, run):
    (row, *_) = walks["records"]
    row["problem"]["family"] = "elsewhere"
    with pytest.raises(Exception, match="family is 'elsewhere', but 'latency' is needed here"):
        run()


def test_latencies_are_drawn_beside_the_papers(figure):
    axes = figure("latency").axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == list(counters_fixtures.CYCLES)
    (paper,) = lines_of(axes, "paper")
    assert sorted(zip(paper.get_xdata(), paper.get_ydata(), strict=True)) == [
        (19, 2),
        (23, 1),
        (290, 8),
    ]
    assert axes.get_xscale() == "log"


def test_divergence_is_a_bar_per_kernel_and_data(figure):
    drawn = figure("divergence")
    axes = drawn.axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == list(counters_fixtures.DATA)
    bars = {bar.get_gid(): bar.get_height() for bar in axes.patches}
    kernels = counters_fixtures.KERNELS
    assert set(bars) == {f"{d}/{k}" for d in counters_fixtures.DATA for k in kernels}
    assert bars["normal/branch_tree"] > 1.5 * bars["equal/branch_tree"]
    assert "% of what is saved is divergence" in " ".join(text_of(drawn, "caption")[0].split())


def test_figures_without_a_number_say_so(figure, walks, divergence):
    for row in walks["records"] + divergence["records"]:
        if row["outcome"] == "bit_exact":
            made.fail(row, "mismatch")
    assert figure("latency").axes[0].texts[0].get_text() == "no row was measured: see the table"
    assert figure("divergence").axes[0].texts[0].get_text() == "no timed row"
