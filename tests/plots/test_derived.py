"""What experiments derive from several rows: by hand, or against the samples of recorded files."""

from statistics import geometric_mean, median

import pandas as pd
import pytest

from experiments.counters.derived import attribution
from plots.machine import machines
from reprolab.json_files import ROOT, read_json

H200 = ROOT / "data/recorded/h200"


def samples(file, kernel, metric, **problem):
    """Of the only such row."""
    (row,) = [
        r
        for r in read_json(H200 / f"{file}.json.xz")["records"]
        if r["kernel"] == kernel and problem.items() <= r["problem"].items()
    ]
    (found,) = [m["samples"] for m in row["metrics"] if m["name"] == metric]
    return found


def test_the_part_of_a_gain_that_is_divergence():
    """The tree saves 60 us where no warp diverges, of the 80 that the table saves."""
    times = {("normal", "branch_tree"): 120.0, ("normal", "shared_lut"): 40.0}
    times |= {("equal", "branch_tree"): 60.0, ("equal", "shared_lut"): 30.0}
    rows = [
        {"data": data if data != "normal" else None, "kernel": kernel, "geometric_mean": us}
        | {"pass": "divergence", "ranked": True, "older_code": False}
        for (data, kernel), us in times.items()
    ]
    (row,) = attribution(pd.DataFrame(rows), None).to_dict("records")
    assert (row["saved_us"], row["divergence_us"], row["divergence_share"]) == (80, 60, 0.75)
    assert (row["gain"], row["gain_on_equal"]) == (3, 2)


def test_steps_of_the_ladder_multiply_to_the_whole():
    steps = machines([H200 / "ladder"])[0].ladder["steps"].data
    plain = steps[steps["pass"] == "plain"]
    assert plain.step_ratio.prod() == pytest.approx(plain.ratio.iloc[-1])
    assert plain.ratio.iloc[0] == 1 and list(plain.kernel)[-1] == "streaming"


def test_a_generations_gain_share_and_prediction_are_of_its_samples():
    at = {"model": "llama-3.3-70b", "batch": 2, "way": "eager"}
    rows = machines([H200 / "end_to_end"])[0].end_to_end["amdahl"].data
    (row,) = rows[(rows.model == at["model"]) & (rows.batch == 2) & (rows.way == "eager")].iloc

    def us(kernel, metric, name):
        return geometric_mean(samples(f"end_to_end/{name}", kernel, metric, **at))

    before, after = (us(k, "wall_time", "timing") for k in ("branch_tree", "shared_lut"))
    slow, fast = (us(k, "kernel_time", "profile") for k in ("branch_tree", "shared_lut"))
    assert row.part_gain == pytest.approx(before / after)
    assert row.base_share == pytest.approx(100 * slow / before)
    predicted = 1 / (1 - slow / before + slow / before / (slow / fast))
    assert row.predicted == pytest.approx(predicted)


def test_dequantizations_share_of_a_pass_is_of_pairs_of_samples():
    at = {"model": "qwen3-32b", "batch": 8}
    both = [
        samples("table2/replay", "branch_tree", f"{m}_time", **at) for m in ("kernel", "product")
    ]
    shares = [100 * k / (k + p) for k, p in zip(*both, strict=True)]
    table = machines([H200 / "table2"])[0].table2["share"]
    assert table("share", kernel="branch_tree", **at) == f"{median(shares):.1f}"


def test_one_launch_of_an_mlp_takes_its_part_of_the_launches():
    rows = machines([H200 / "puzzle"])[0].puzzle["mlps"].data
    row = rows[(rows.kernel == "streaming") & (rows.mlp == "2048x8192")].iloc[0]
    us = median(samples("puzzle/mlps", "streaming", "kernel_time.2048x8192"))
    assert row.graphs_us == pytest.approx(us / 3000)
    # Three matrices of 16.8 million weights: codes, scales, nested scales and 16 bits.
    assert row.graphs_gb_per_s == pytest.approx(2.516 * 2048 * 8192 / row.graphs_us / 1e3, rel=0.01)
