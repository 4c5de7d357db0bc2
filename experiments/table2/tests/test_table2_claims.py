"""The paper's claims that a replay decides, and the rows that may decide a claim."""

from statistics import fmean

import made
import pytest

PAPER = made.all_sources()[0]
SPEEDUPS = {
    (cell.at["model"], cell.at["batch"]): cell.value
    for cell in next(c for c in PAPER.claims if c.id == "kernel-speedup").cells
}
MODELS, BATCHES = PAPER.every("model"), PAPER.every("batch")
CELL, AVERAGE = "qwen3-32b, batch 8", "qwen3-32b, average"  # where the paper says 2.19
EVERY, BYTES = "model all, batch all", "tiles of 512 bytes"
TREE, LUT, TILE512, GLOBAL = "branch_tree", "shared_lut", "shared_lut_tile512", "global_lut"
COOPERATIVE, CONTROL = "shared_lut_cooperative", "branch_tree_constant"


@pytest.fixture
def replay():
    """A replay with the paper's ratios, and 724 to 276 us of products."""
    times = {COOPERATIVE: 1200.0, GLOBAL: 1300.0, TILE512: 2100 / 1.83, TREE: 2100.0}
    times |= {CONTROL: 2000.0}
    records = []
    for model in MODELS:
        for batch in BATCHES:
            problem = made.forward_pass(model, batch)
            # The batch does not change the baseline's time, so this kernel's carries the ratio.
            for kernel, us in (times | {LUT: 2100.0 / SPEEDUPS[model, batch]}).items():
                samples = [us, us * 0.999, us * 1.001]
                products = [27.6 / 72.4 * time for time in samples]
                records.append(made.record(problem, kernel, samples, products=products))
    return made.results("table2", "replay", records)


def verdict(replay, claim, cell=EVERY, reading=""):
    return made.verdict(claim, cell, replay, reading=reading)


def row(replay, kernel, batch=8, model="qwen3-32b"):
    return made.find(replay, f"{model}/batch{batch}/fp16/b64/{kernel}")


def set_all(replay, kernel, us):
    for r in made.rows_of(replay, kernel):
        made.set_times(r, [us, us * 0.999, us * 1.001])


@pytest.mark.parametrize(
    ("speedup", "kind"),
    [(3.3, "reproduced"), (2.1, "reproduced"), (1.971, "undecided"), (1.8, "not_reproduced")],
)
def test_a_speed_up_may_be_greater_and_near_the_bound_is_undecided(replay, speedup, kind):
    """A tenth less than 2.19."""
    made.set_times(row(replay, TREE), [2000.0 * speedup])
    made.set_times(row(replay, LUT), [2000.0])
    v = verdict(replay, "kernel-speedup", CELL, BYTES)
    assert (v.kind, v.ours) == (kind, pytest.approx(speedup))
    assert ("runs differ" in v.note) is (kind == "undecided")


def test_an_average_is_the_mean_of_the_cells(replay):
    cells = [verdict(replay, "kernel-speedup", f"qwen3-32b, batch {b}", BYTES) for b in BATCHES]
    average = verdict(replay, "kernel-speedup", AVERAGE, BYTES)
    assert average.ours == pytest.approx(fmean(v.ours for v in cells))
    widths = [v.interval[1] - v.interval[0] for v in (cells[0], average)]
    assert widths[1] < widths[0]  # their errors are in part independent


@pytest.mark.parametrize(("least", "kind"), [(60, "not_reproduced"), (120, "reproduced")])
def test_the_bandwidth_of_products_is_of_two_bytes_for_each_weight(replay, write, least, kind):
    """10**9 weights in 1600 us are 1250 GB/s, whose share of the peak must be below the bound."""

    def change(paper):
        comparison = made.claim_in(paper, "products-underuse-memory")["comparisons"][0]
        comparison["arguments"]["least"] = least

    made.set_times(row(replay, TREE, 2), [2100.0], [1600.0])
    replay["provenance"]["gpu"]["theoretical_bandwidth_gb_s"] = 1250 / 0.75
    source = made.paper(write, change)
    v = made.verdict("products-underuse-memory", "qwen3-32b, batch 2", replay, source=source)
    assert (v.kind, v.ours) == (kind, pytest.approx(75))
    assert (
        PAPER.claims[[c.id for c in PAPER.claims].index("products-underuse-memory")]
        .cells[0]
        .arguments["least"]
        == 60
    )


def test_the_gains_of_models_are_apart_by_their_averages(replay):
    means = [fmean(SPEEDUPS[model, batch] for batch in BATCHES) for model in MODELS]
    v = verdict(replay, "varies-by-model")
    assert (v.kind, v.ours) == ("reproduced", pytest.approx(max(means) / min(means)))


@pytest.mark.parametrize(
    ("slower", "kind"),
    [(1.0, "reproduced"), (1.05, "reproduced"), (1.074, "undecided"), (1.1, "not_reproduced")],
)
def test_gains_of_all_models_are_within_the_tolerance(replay, slower, kind):
    set_all(replay, TREE, 2000.0)
    set_all(replay, LUT, 1000.0)
    for batch in BATCHES:
        made.set_times(row(replay, TREE, batch), [2000 * slower, 2001 * slower, 1999 * slower])
    v = verdict(replay, "consistent", reading=BYTES)
    assert (v.kind, v.ours) == (kind, pytest.approx(100 * (slower - 1), abs=1e-3))


@pytest.mark.parametrize(
    ("us", "kind", "percent"),
    [(1030.0, "not_reproduced", 3.0), (1700.0, "reproduced", 70), (1500.0, "undecided", 50)],
)
def test_the_table_in_global_memory_loses_a_part_of_what_is_saved(replay, us, kind, percent):
    """1000 us of 2000 are saved."""
    for kernel, time in ((TREE, 2000.0), (LUT, 1000.0), (GLOBAL, us)):
        set_all(replay, kernel, time)
    v = verdict(replay, "shared-memory-makes-it")
    assert (v.kind, v.ours) == (kind, pytest.approx(percent, abs=0.01))


@pytest.mark.parametrize(
    ("us", "of_qwen", "kind", "ours"),
    [
        (1100, 1100, "reproduced", 1.1),
        (1000.1, 1000.1, "undecided", 1.0001),
        (900, 1100, "not_reproduced", 0.95),  # of the average: places are one experiment
    ],
)
def test_slower_on_average(replay, us, of_qwen, kind, ours):
    set_all(replay, LUT, 1000.0)
    for r in made.rows_of(replay, COOPERATIVE):
        time = of_qwen if r["problem"]["model"] == "qwen3-32b" else us
        made.set_times(r, [0.999 * time, time, 1.001 * time])
    v = verdict(replay, "single-thread-fill")
    assert (v.kind, v.ours) == (kind, pytest.approx(ours, rel=1e-3))
    made.set_times(made.rows_of(replay, LUT)[-1], [1100.0])
    assert verdict(replay, "single-thread-fill").note == f"a single sample of {LUT} has no interval"


@pytest.mark.parametrize(
    ("trend", "kind"), [(0.0, "reproduced"), (0.019, "undecided"), (0.03, "not_reproduced")]
)
def test_times_that_change_with_the_batch(replay, trend, kind):
    for i, batch in enumerate(BATCHES):
        us = 2100 * (1 + trend) ** (i / 5)
        made.set_times(row(replay, TREE, batch), [us, us * 0.999, us * 1.001])
    v = verdict(replay, "batch-invariant", "qwen3-32b, batch all", "a replay")
    assert (v.kind, v.ours) == (kind, pytest.approx(100 * trend, abs=0.05))


@pytest.mark.parametrize(
    ("times", "products", "ours", "kind"),
    [
        ([30.0, 60.0, 50.0], [70.0, 40.0, 50.0], 50.0, "not_reproduced"),  # 30, 60 and 50 %
        ([60.0, 66.0, 70.0], [40.0, 34.0, 30.0], 66.0, "undecided"),  # its interval alone
        ([95.0], [5.0], 95.0, "not_testable"),  # an upper bound shows nothing
        ([63.8], [36.2], 63.8, "not_reproduced"),
    ],
)
def test_an_upper_bound_of_an_a100s_share_can_only_refute_it(replay, times, products, ours, kind):
    made.set_times(row(replay, TREE), times, products)
    v = verdict(made.on("NVIDIA A100-SXM4-80GB", replay), "qmatmul-72", CELL)
    assert (v.ours, v.kind) == (pytest.approx(ours), kind)
    v = verdict(made.on("NVIDIA H200", replay), "qmatmul-72", CELL)
    assert (v.ours, v.kind, v.elsewhere) == (pytest.approx(ours), "not_testable", True)


def a_second_row(replay):
    second = dict(row(replay, TREE), key="second")
    replay["records"].append(second | {"problem": dict(second["problem"], name="second")})


def failed_check(replay):
    check = {"name": "clocks", "keys": [row(replay, TREE)["key"]], "unit": "us"}
    replay["checks"].append(check | {"first": 97.5, "second": 100, "allowed_percent": 1})


def other_code(replay):
    row(replay, LUT, 2)["code"] = made.code_of("sm_90", LUT, "edited")


NO_TIME = {"name": "kernel_time", "unit": "us", "missing": "CUPTI lost records"}
ROUNDED = {"outcome": "deviation_as_declared", "deviation": "rounds down"}
NOT_YET, CANNOT = "not_tested", "not_testable"
WHY_NOT = [  # a change of the replay, and what the average then comes to
    (lambda r: r["records"].remove(row(r, LUT)), NOT_YET, "did not run on qwen3-32b, batch 8"),
    (lambda r: row(r, TREE)["problem"].update(warm=True), NOT_YET, f"{TREE} did not run on"),
    (lambda r: row(r, LUT)["metrics"].pop(0), NOT_YET, "kernel_time was not measured"),
    (lambda r: row(r, LUT).update(metrics=[NO_TIME]), CANNOT, "CUPTI lost records"),
    (lambda r: made.fail(row(r, LUT), "launch_failed", "no memory"), CANNOT, "failed: no memory"),
    (lambda r: row(r, LUT).update(ROUNDED), CANNOT, "deviates as declared: rounds down"),
    (lambda r: row(r, LUT)["problem"].update(output="bf16"), CANNOT, "decided on problems with"),
    (lambda r: row(r, TREE).update(disturbed={"repeated": 0, "kept": 2}), CANNOT, "host was slow"),
    (a_second_row, CANNOT, "several rows"),
    (failed_check, CANNOT, "the instruments disagree: clocks, -2.5 %"),
    (other_code, CANNOT, "ran different code"),
]


@pytest.mark.parametrize(("spoil", "kind", "note"), WHY_NOT)
def test_a_row_that_does_not_serve_decides_nothing_and_says_why(replay, spoil, kind, note):
    spoil(replay)
    average = verdict(replay, "kernel-speedup", AVERAGE, BYTES)
    assert (average.kind, average.ours) == (kind, None) and note in average.note
    assert kind == CANNOT or average.rows == ()
    of_another_model = verdict(replay, "kernel-speedup", "gemma-2-27b, average", BYTES)
    assert of_another_model.kind == "reproduced"


def test_one_wrong_output_decides_wherever_it_is(replay):
    wrong = row(replay, LUT, 2, MODELS[-1])
    wrong.update(outcome="deviation_as_declared", deviation="x", reason="1 of 8 weights differ")
    v = verdict(replay, "token-exact", "model all, batch 2")
    assert v.kind == "not_reproduced" and v.note.endswith("1 of 8 weights differ")
    made.fail(wrong, "mismatch", "2 of 8 weights differ")
    v = verdict(replay, "token-exact", "model all, batch 2")
    assert v.kind == "not_testable"  # our fault, which says nothing of the paper
