"""Failing comparisons, and kernels over their problems: edited copies of the recorded runs."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from reprolab.json_files import read_json
from edited import RECORDED, scale
from test_compare import GPU, KERNEL, PROBLEM, made_up

from plots.cli import main
from plots.compare import ALLOWED, compared, failures, figure_of
from plots.figures import figure_style
from plots.sides import load_side
from reprolab.comparison import (
    FASTER,
    SAME,
    SLOWER,
    UNDECIDED,
    compare,
    pools,
    times,
)
from reprolab.run_to_run import Budget, recorded_budgets

LATER = "2027-01-01T00:00:00Z"


@pytest.fixture
def two(edited):
    return edited("table2", "a"), edited("table2", "b")


@pytest.fixture
def first_line(tmp_path, capsys, monkeypatch):
    """`plots compare`: status and the first line."""
    monkeypatch.setattr("plots.compare.draw.encode", lambda figure, kind: b"")

    def run(a, b, *options):
        arguments = ["compare", "--a", str(a.write()), "--b", str(b.write())]
        status = main([*arguments, "--output", str(tmp_path / "out"), *options])
        text = capsys.readouterr().out.replace("\n  ", " ")
        return status, text.partition("\n")[0], " ".join(text.split())

    return run


def of_kernel(pools, kernel, pass_name="shapes"):
    (pool,) = (p for p in pools if p.kernel[1:] == (pass_name, "", kernel, "kernel_time"))
    return pool


def whole(name, change=lambda row: None):
    """A recorded pass with all its rows, and times modified by `change`."""
    file = read_json(RECORDED / f"{name}.json")
    for row in file["records"]:
        change(row)
    return file


@pytest.mark.parametrize("outcome", ["mismatch", "launch_failed"])
def test_a_kernel_that_became_wrong_fails_without_a_threshold(two, first_line, outcome):
    a, b = two
    wrong = b.rows("shapes", KERNEL)
    for row in wrong:
        row |= {"outcome": outcome, "mismatches": 1, "metrics": [], "launch": None, "reason": "x"}
    status, first, text = first_line(a, b)
    assert status == 1 and first.startswith(f"Failed: {len(wrong)} rows ")
    assert f"wrong in B: {KERNEL}" in text
    assert "Only in A" not in text and "0 lost" in first
    status, first, _ = first_line(b, a)
    assert (status, "Failed" in first) == (0, False)  # corrected


def test_lost_and_undecided_rows_fail_unless_allowed(two, first_line):
    a, b = two
    b.provenance(started=LATER)
    b.drop(lambda row: row["kernel"] == KERNEL, "shapes")
    status, first, _ = first_line(a, b)
    assert (status, "2 lost" in first, "Failed" in first) == (0, True, False)
    bound = ("--threshold", "1")
    status, first, _ = first_line(a, b, *bound)
    assert status == 1 and first.startswith("Failed: ") and "2 lost. B," in first
    assert first_line(a, b, *bound, "--allow", "lost")[0] == 1
    assert first_line(a, b, *bound, "--allow", "undecided")[0] == 1
    status, first, _ = first_line(a, b, *bound, "--allow", "undecided, lost")
    assert (status, first.startswith("Passed.")) == (0, True)
    scale(b.rows("replay", "branch_tree"), 1.5)
    assert first_line(a, b, *bound, "--allow", "undecided,lost")[0] == 1
    assert first_line(a, b, *bound, "--allow", "slower")[0] == 2


@pytest.mark.parametrize("reason", ["a single sample", "no repetitions of wall_time"])
def test_without_an_interval_a_slower_row_does_not_pass(two, first_line, reason):
    a, b = two
    scale(b.rows("replay", KERNEL), 10)
    for run in two:
        for row in run.rows():
            for metric in row["metrics"]:
                if "single" in reason:
                    metric["samples"] = metric["samples"][:1]
                metric["name"] = metric["name"].replace(
                    "kernel", "wall" if "wall" in reason else "kernel"
                )
    status, first, text = first_line(a, b, "--threshold", "1")
    assert (status, first.startswith("Failed: ")) == (1, True)
    assert f"{KERNEL} on {PROBLEM}" in text and f"B / A 10.000, no interval: {reason}" in text


def test_a_run_beside_itself_passes_every_threshold(two, first_line):
    """Equal samples in rows of different runs decide nothing."""
    a, b = two
    for row in (*a.rows("replay", KERNEL), *b.rows("replay", KERNEL)):
        for metric in row["metrics"]:
            metric["samples"] = metric["samples"][:1]
    for threshold in ("0", "1"):
        status, first, _ = first_line(a, b, "--threshold", threshold)
        assert (status, first.startswith("Passed.")) == (0, True)
        assert first.count(" 0 undecided") == 2  # rows and kernels
    b.rows("replay", KERNEL, PROBLEM)[0]["metrics"][0]["samples"] = [1e-3]
    status, first, _ = first_line(a, b, "--threshold", "1")
    assert status == 1 and first.startswith("Failed: 1 undecided.")
    a.provenance(started=LATER)
    assert first_line(a, b, "--threshold", "1")[0] == 1


def test_a_repeated_run_says_why_rows_are_undecided(two, first_line):
    two[1].provenance(started=LATER)
    status, first, text = first_line(*two)
    assert status == 0 and " 0 slower, 0 faster, " in first
    undecided = first.split(" no difference, ")[1].split()[0]
    assert f"undecided: {undecided}: runs differ" in text


@pytest.mark.parametrize("factor", [1.03, 1 / 1.03])
def test_three_percent_over_19_problems_are_found_alone(write, factor):
    """No single row of short kernels shows it, and nothing else is called slower or faster."""

    def change(row):
        if row["kernel"] == "streaming":
            scale([row], factor)

    a = load_side(str(write("a/shapes.json", whole("table2/shapes"))))
    b = load_side(str(write("b/shapes.json", whole("table2/shapes", change))))
    both = compared(a, b, 1)
    assert ("1 kernel slower" in failures(both, True, ALLOWED)) == (factor > 1)
    pooled = both.pools
    pool = of_kernel(pooled, "streaming")
    assert (pool.verdict, len(pool.pairs)) == (SLOWER if factor > 1 else FASTER, 19)
    assert pool.mean.ratio.value == pytest.approx(factor)
    assert 0 < pool.mean.ratio.high - pool.mean.ratio.low < 0.014
    assert {p.kernel[3] for p in pooled if p.verdict in (SLOWER, FASTER)} == {"streaming"}


def test_pools_hold_on_made_up_runs(two):
    """If all rows of a kernel deviate together in a run, pooling does not reduce the deviation."""
    run, spread = times(load_side(str(two[0].write())).files), recorded_budgets()[GPU].spread
    together, apart = ({GPU: Budget(spread, dict.fromkeys(spread, c))} for c in (1.0, 0.0))
    holds = {"together": [], "apart": [], "wrongly apart": []}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        deviations = {}
        moved = {}
        for key, time in run.items():
            kernel = (key.pass_name, key.kernel, key.metric)
            shift = deviations.setdefault(kernel, rng.normal())
            usual = [
                c.percent
                for c in spread[time.kind]
                if c.from_us <= time.us or c is spread[time.kind][0]
            ][-1]
            factor = math.exp(math.sqrt(2) * shift * usual / 100)
            samples = tuple(factor * x for x in time.metric.samples)
            moved[key] = replace(time, metric=replace(time.metric, samples=samples))
        pairs = compare(run, moved, together, 1)
        for name, budgets in (("together", together), ("wrongly apart", apart)):
            pooled = [p for p in pools(pairs, budgets, 1) if len(p.pairs) > 1]
            holds[name] += [p.mean.ratio.low <= 1 <= p.mean.ratio.high for p in pooled]
        pairs = compare(made_up(run, seed), made_up(run, 100 + seed), apart, 1)
        pooled = [p for p in pools(pairs, apart, 1) if len(p.pairs) > 1]
        holds["apart"] += [p.mean.ratio.low <= 1 <= p.mean.ratio.high for p in pooled]
    assert np.mean(holds["together"]) > 0.93 and 0.92 < np.mean(holds["apart"]) < 0.98
    assert np.mean(holds["wrongly apart"]) < np.mean(holds["together"])


def test_two_gpus_give_the_raw_ratio_too_and_say_so_first(two, first_line):
    a, b = two
    b.provenance(gpu={"name": "NVIDIA A100"})
    scale(b.rows(), 2)
    scale(b.rows("shapes", KERNEL), 1.5)
    _, first, text = first_line(a, b, "--verbose")
    assert "(NVIDIA A100 and NVIDIA H200)" in first
    assert "over copies, 3.000 as measured" in text
    _, first, text = first_line(*two[:1], two[0], "--verbose")
    assert "copy" not in first and "as measured" not in text


def test_sides_of_several_gpus_pair_the_rows_of_each(two, edited, write, first_line, refused):
    """A pass of one GPU is never divided by another GPU's copy."""
    a, b = two
    other = a.files["replay"] | {
        "provenance": json.loads(json.dumps(a.files["replay"]["provenance"]))
    }
    for run in two:
        run.files["other"] = json.loads(json.dumps(other))
        run.files["other"]["provenance"]["gpu"]["name"] = "NVIDIA A100"
        run.files["other"]["provenance"]["started"] = LATER  # the newest of the pass
    scale(b.rows("other"), 1.5)
    comparison = compared(load_side(str(a.write())), load_side(str(b.write())), 1)
    verdicts = {
        gpu: {p.verdict for p in comparison.pairs if p.key.gpu == gpu}
        for gpu in ("NVIDIA A100", "NVIDIA H200")
    }
    assert verdicts["NVIDIA A100"] == {SLOWER} and verdicts["NVIDIA H200"] <= {SAME, UNDECIDED}
    assert not any(pair.over_copy for pair in comparison.pairs) and not comparison.lost
    passes = {(pair.key.gpu, pair.key.pass_name) for pair in comparison.pairs}
    assert passes >= {("NVIDIA A100", "replay"), ("NVIDIA H200", "replay")}
    del b.files["other"]
    (b.folder / "other.json").unlink()
    comparison = compared(load_side(str(a.write())), load_side(str(b.write())), 1)
    assert {key.gpu for key in comparison.lost} == {"NVIDIA A100"}
    assert {pair.key.gpu for pair in comparison.pairs} == {"NVIDIA H200"}
    b.provenance(gpu={"name": "NVIDIA L4"})
    sides = load_side(str(a.folder)), load_side(str(b.write()))
    assert "NVIDIA L4" in refused(compared, *sides, 1)


def test_an_outlier_leaves_room_in_the_figure(two):
    a, b = two
    scale(b.rows("replay", KERNEL, PROBLEM), 9.5)
    with figure_style():
        (axes,) = figure_of(compared(load_side(str(a.write())), load_side(str(b.write())), 1)).axes
    ends, at = axes.get_xlim(), axes.transData.transform
    low, high = (at((x, 0))[0] for x in (1, 1.03))
    width = at((ends[1], 0))[0] - at((ends[0], 0))[0]
    assert ends[0] < 1 < 9.5 < ends[1] and (high - low) / width > 0.1
    assert 1 in axes.get_xticks() and 5 in axes.get_xticks()
