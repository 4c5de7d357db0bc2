"""The paper's claims that a replay decides, and the rows that may decide a claim."""

import made
import pytest

PAPER = made.all_sources()[0]
SPEEDUPS = {
    (cell.at["model"], cell.at["batch"]): cell.value
    for cell in next(c for c in PAPER.claims if c.id == "kernel-speedup").comparisons[0].cells
}
MODELS, BATCHES = PAPER.every("model"), PAPER.every("batch")
AVERAGE = "qwen3-32b, average"
CELL = "qwen3-32b, batch 8"  # where the paper says 2.19
EVERY = "model all, batch all"
BYTES, WEIGHTS = "tiles of 512 bytes", "tiles of 512 weights"
TREE, LUT, TILE512 = "branch_tree", "shared_lut", "shared_lut_tile512"
COOPERATIVE, CONTROL = "shared_lut_cooperative", "branch_tree_constant"
LITERALS = "the baseline's tree with its leaves in constant memory"


@pytest.fixture
def replay():
    """A replay in which every claim holds: the paper's ratios, and 724 to 276 us of products."""
    times = {COOPERATIVE: 1200.0, "global_lut": 1300.0, TILE512: 2100 / 1.83, TREE: 2100.0}
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


def decided(replay, claim, *cell):
    return made.decided(replay, sources=made.with_claim(claim))[claim, *cell]


def key(model, batch, kernel):
    return f"{model}/batch{batch}/fp16/b64/{kernel}"


def row(replay, kernel, batch=8, model="qwen3-32b"):
    return made.find(replay, key(model, batch, kernel))


def set_all(replay, kernel, *samples):
    for r in made.rows_of(replay, kernel):
        made.set_times(r, list(samples))


GUARDS = made.guards(0.163, 28)  # times of 1 ms and longer, 28 cells


@pytest.mark.parametrize(
    ("speedup", "verdict"),
    [(2.19 * 1.5, "reproduced"), *made.around(1.971, guards=GUARDS)],
)
def test_a_speed_up_may_be_greater_and_near_the_bound_is_undecided(replay, speedup, verdict):
    made.set_times(row(replay, TREE), [2000.0 * speedup])
    made.set_times(row(replay, LUT), [2000.0])
    v = decided(replay, "kernel-speedup", CELL, BYTES)
    assert v.verdict == verdict
    assert ("reaches over 1.971" in v.why) is (verdict == "undecided")
    assert v.difference_percent == pytest.approx(100 * (speedup / 2.19 - 1))


def test_an_average_is_the_mean_of_the_cells_and_of_their_interval_ends(replay):
    verdicts = made.decided(replay, sources=made.with_claim("kernel-speedup"))
    cells = [verdicts["kernel-speedup", f"qwen3-32b, batch {batch}", BYTES] for batch in BATCHES]
    average = verdicts["kernel-speedup", AVERAGE, BYTES]
    assert average.ours == pytest.approx(sum(v.ours for v in cells) / 6)
    for end in (0, 1):
        assert average.interval[end] == pytest.approx(sum(v.interval[end] for v in cells) / 6)


def test_the_bandwidth_of_products_is_of_two_bytes_for_each_weight(replay):
    v = decided(replay, "products-underuse-memory", "qwen3-32b, batch 2")
    bytes_moved = 2 * row(replay, TREE, 2)["problem"]["weights"]
    peak = replay["provenance"]["gpu"]["theoretical_bandwidth_gb_s"]
    us = 27.6 / 72.4 * 2100
    assert v.ours == pytest.approx(100 * bytes_moved / us / 1e3 / peak)


def test_the_gains_of_models_are_apart_by_their_averages(replay):
    means = [sum(SPEEDUPS[model, batch] for batch in BATCHES) / 6 for model in MODELS]
    v = decided(replay, "varies-by-model", EVERY)
    assert v.ours == pytest.approx(max(means) / min(means)) and v.ours > 1


def check(replay, kernel, model, percent):
    """A check for all batches of a kernel and model; 1 % is allowed."""
    keys = [key(model, batch, kernel) for batch in BATCHES]
    comparison = {"name": f"{model}/{kernel}: events against activity", "keys": keys, "unit": "us"}
    replay["checks"].append(
        comparison | {"first": 100 + percent, "second": 100, "allowed_percent": 1}
    )


def a_second_row(replay):
    second = dict(row(replay, TREE), key="second")
    replay["records"].append(second | {"problem": dict(second["problem"], name="second")})


def another_kind(replay, **changes):
    for r in replay["records"]:
        r["problem"] |= changes


NO_TIME = {"name": "kernel_time", "unit": "us", "missing": "CUPTI lost records"}
ROUNDED = {"outcome": "deviation_as_declared", "deviation": "rounds down"}
ON = "qwen3-32b/batch8/fp16/b64"
NOT_YET, CANNOT = "not_tested", "not_testable"
WHY_NOT = [  # a change of the replay, and what the cell then comes to
    (lambda r: r["records"].remove(row(r, LUT)), NOT_YET, f"{LUT} did not run on {CELL}"),
    (lambda r: another_kind(r, warm=True), NOT_YET, f"{TREE} did not run on {CELL}"),
    (
        lambda r: row(r, LUT)["metrics"].pop(0),
        *(NOT_YET, f"{LUT} on {ON}: kernel_time was not measured"),
    ),
    (
        lambda r: row(r, LUT).update(metrics=[NO_TIME]),
        *(CANNOT, f"{LUT} on {ON}: no kernel_time: CUPTI lost records"),
    ),
    (
        lambda r: made.fail(row(r, LUT), "launch_failed", "no memory"),
        *(CANNOT, f"{LUT} on {ON}: launch failed: no memory"),
    ),
    (
        lambda r: row(r, LUT).update(ROUNDED),
        *(CANNOT, f"{LUT} on {ON}: its output deviates as declared: rounds down"),
    ),
    (
        lambda r: another_kind(r, output="bf16"),
        CANNOT,
        "decided on problems with output fp16 and block_size 64 and nested False; "
        f"{TREE} ran on {ON}",
    ),
    (
        a_second_row,
        *(CANNOT, f"{TREE} has several rows that could decide it: {ON}, second"),
    ),
    (
        lambda r: check(r, TREE, "qwen3-32b", -2.5),
        *(CANNOT, f"the instruments disagree: qwen3-32b/{TREE}: events against activity, -2.5 %"),
    ),
]


@pytest.mark.parametrize(("spoil", "verdict", "reason"), WHY_NOT)
def test_a_row_that_does_not_serve_decides_nothing_and_says_why(replay, spoil, verdict, reason):
    spoil(replay)
    verdicts = made.decided(replay, sources=made.with_claim("kernel-speedup"))
    v, average = (verdicts["kernel-speedup", cell, BYTES] for cell in (CELL, AVERAGE))
    assert (v.verdict, v.reason, v.ours) == (verdict, reason, None)
    assert (average.verdict, average.ours) == (verdict, None)
    assert verdict == "not_testable" or v.evidence == ()


def test_a_failed_check_concerns_times_of_its_rows_alone(replay):
    check(replay, LUT, "gemma-2-27b", 0.5)
    check(replay, TREE, "qwen3-32b", -2.5)
    check(replay, LUT, "llama-3.3-70b", 9)
    verdicts = made.decided(replay)
    of_tree = {n for n, v in verdicts.items() if f"qwen3-32b/{TREE}: events" in v.reason}
    speedups = {n for n in verdicts if n[0] == "kernel-speedup" and n[1].startswith("qwen3-32b")}
    invariant = ("batch-invariant", "qwen3-32b, batch all")
    consistent = {("consistent", EVERY, reading) for reading in (BYTES, WEIGHTS)}
    consistent |= {("varies-by-model", EVERY), ("products-underuse-memory", "qwen3-32b, batch 2")}
    consistent |= {("immediates-icache", EVERY, LITERALS)}
    assert of_tree == {("qmatmul-72", CELL), invariant} | speedups | consistent
    assert verdicts["token-exact", "model all, batch 2"].verdict == "reproduced"
    assert verdicts["kernel-speedup", "gemma-2-27b, average", BYTES].verdict == "reproduced"
    assert verdicts["single-thread-fill", EVERY].verdict == "not_testable"


@pytest.mark.parametrize(
    ("us", "verdict"),
    [(2000.0, "reproduced"), (2100.0, "undecided"), (2200.0, "not_reproduced")],
)
def test_literals_cost_what_the_same_tree_without_them_saves(replay, us, verdict):
    for record in made.rows_of(replay, CONTROL):
        made.set_times(record, [us, us * 0.999, us * 1.001])
    assert decided(replay, "immediates-icache", EVERY, LITERALS).verdict == verdict


@pytest.mark.parametrize(
    ("times", "products", "ours", "verdict"),
    [
        ([30.0, 60.0, 50.0], [70.0, 40.0, 50.0], 50.0, "not_reproduced"),  # 30, 60 and 50 %
        ([60.0, 66.0, 70.0], [40.0, 34.0, 30.0], 66.0, "undecided"),  # its interval alone
        ([95.0], [5.0], 95.0, "not_testable"),  # an upper bound shows nothing
        ([66.6], [33.4], 66.6, "not_testable"),  # 2 % above what is allowed, and below
        ([63.8], [36.2], 63.8, "not_reproduced"),
    ],
)
def test_an_upper_bound_of_an_a100s_share_can_only_refute_it(
    replay, times, products, ours, verdict
):
    made.set_times(row(replay, TREE), times, products)
    v = decided(made.on("NVIDIA A100-SXM4-80GB", replay), "qmatmul-72", CELL)
    assert (v.ours, v.verdict) == (pytest.approx(ours), verdict)
    v = decided(made.on("NVIDIA H200", replay), "qmatmul-72", CELL)
    assert (v.ours, v.verdict) == (pytest.approx(ours), "not_testable")


@pytest.mark.parametrize(
    ("slowest", "verdict"),
    [(2110.0, "reproduced"), (2142.0, "undecided"), (2180.0, "not_reproduced")],
)
def test_times_at_all_batches_are_within_the_tolerance(replay, slowest, verdict):
    made.set_times(row(replay, TREE, 16, "gemma-3-27b"), [slowest])
    v = decided(replay, "batch-invariant", "gemma-3-27b, batch all")
    assert (v.verdict, v.interval) == (verdict, None)
    assert v.ours == pytest.approx(100 * (slowest / 2100 - 1), rel=1e-3)
    assert v.reason == f"kernel time 2100 to {slowest:.0f} us in 6 rows"


@pytest.mark.parametrize(
    ("slower", "verdict"),
    [(1.08, "reproduced"), (1.1, "undecided"), (1.13, "not_reproduced")],
)
def test_gains_of_all_models_and_batches_are_within_the_tolerance(replay, slower, verdict):
    set_all(replay, TREE, 2000)
    set_all(replay, LUT, 1000)
    made.set_times(row(replay, TREE, 16, "gemma-3-27b"), [2000 * slower])
    v = decided(replay, "consistent", EVERY, BYTES)
    assert (v.verdict, v.ours) == (verdict, pytest.approx(100 * (slower - 1)))
    assert f" 2.000 to {2 * slower:.3f} x in 24 rows" in v.reason


@pytest.mark.parametrize(
    ("us", "of_qwen", "verdict", "counts"),
    [
        (1100, 1100, "reproduced", (24, 0, 0)),
        (1000.1, 1000.1, "undecided", (0, 0, 24)),
        (1200, 1000.1, "undecided", (18, 0, 6)),
        (1200, 900, "not_reproduced", (18, 6, 0)),  # one place would be enough
        (1003, 997, "undecided", (0, 0, 24)),  # but not for what runs of equal kernels differ by
    ],
)
def test_slower_in_every_comparison(replay, us, of_qwen, verdict, counts):
    set_all(replay, LUT, 999, 1000, 1001)
    for r in made.rows_of(replay, COOPERATIVE):
        median = of_qwen if r["problem"]["model"] == "qwen3-32b" else us
        made.set_times(r, [0.999 * median, median, 1.001 * median])
    v = decided(replay, "single-thread-fill", EVERY)
    assert (v.verdict, v.ours) == (verdict, pytest.approx(us / 1000))
    assert v.interval[0] < min(us, of_qwen) / 1000 and v.interval[1] > max(us, of_qwen) / 1000
    slower, faster, neither = counts
    assert v.reason == (
        f"{COOPERATIVE} against {LUT}: slower in {slower} of 24 places, faster in {faster}, no "
        f"difference seen in {neither}"
    )


def test_one_sample_is_beyond_no_interval(replay):
    made.set_times(made.rows_of(replay, LUT)[-1], [1100.0])
    v = decided(replay, "single-thread-fill", EVERY)
    text = f"a single sample of {LUT} has no interval"
    assert (v.verdict, v.reason) == ("not_testable", text)


def test_one_wrong_output_decides_wherever_it_is(replay):
    wrong = row(replay, LUT, 2, MODELS[-1])
    wrong.update(outcome="deviation_as_declared", deviation="x", reason="1 of 8 weights differ")
    v = decided(replay, "token-exact", "model all, batch 2")
    assert v.verdict == "not_reproduced" and v.reason.endswith("1 of 8 weights differ")
    made.fail(wrong, "mismatch", "2 of 8 weights differ")
    v = decided(replay, "token-exact", "model all, batch 2")
    assert v.verdict == "not_testable"  # our fault, which says nothing of the paper
    assert v.reason.endswith(": mismatch: 2 of 8 weights differ")
