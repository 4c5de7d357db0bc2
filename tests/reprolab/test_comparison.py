"""The test and the verdict of a comparison, at known values."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from scipy.stats import norm, t

from plots.compare import compared
from plots.sides import Side
from reprolab.comparison import (
    FASTER,
    SAME,
    SLOWER,
    UNDECIDED,
    Key,
    NotComparable,
    Pool,
    correlation,
    decide,
    mean_of,
    parts_of,
    shared_of,
    spread_of,
    times,
    usual,
    wrong_rows,
)
from reprolab.run_to_run import Budget, SpreadClass
from reprolab.stats import LogMean


def mean(value, error, freedom=math.inf):
    return LogMean(value, ((error**2, freedom),))


@pytest.mark.parametrize("value", [0.03, -0.03, 0.005, 0.0])
@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_the_chance_is_of_both_tails_beyond_the_threshold(value, margin):
    """Not beyond 0: a difference below the threshold does not count."""
    away = abs(value)
    wanted = norm.sf((away - margin) / 0.01) + norm.sf((away + margin) / 0.01)
    assert mean(value, 0.01).chance(margin) == pytest.approx(min(1, wanted))
    few = t.sf((away - margin) / 0.01, 2) + t.sf((away + margin) / 0.01, 2)
    assert mean(value, 0.01, 2).chance(margin) == pytest.approx(min(1, few))


REACH = norm.ppf(0.975)


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (0.0, 0.0099 / REACH, SAME),
        (0.0, 0.0101 / REACH, UNDECIDED),
        (0.006, 0.0038 / REACH, SAME),
        (0.006, 0.0042 / REACH, UNDECIDED),  # the upper end alone is beyond
        (-0.006, 0.0042 / REACH, UNDECIDED),  # the lower
        (0.02, 0.001, SLOWER),
        (-0.02, 0.001, FASTER),
        (0.02, 0.02, UNDECIDED),
    ],
)
def test_the_threshold_of_each_verdict(value, error, verdict):
    one = Pool(("e", "p", "", "k", "kernel_time"), [], mean(value, error))
    decide([one], 100 * math.expm1(0.01))
    assert one.verdict == verdict


class Time:
    """As in a row."""

    kind, variance, mean = "kernel_time", 1e-6, 3.0

    def __init__(self, us, gpu="a GPU", kernel="k"):
        self.us = us
        self.record = SimpleNamespace(gpu=gpu, kernel=kernel, code=None)
        self.metric = type("Metric", (), {"samples": (1.0, 2.0, 3.0)})


def test_the_deviation_is_that_of_times_as_long():
    spread = {"kernel_time": [SpreadClass(5, 2.0, 1), SpreadClass(10, 1.0, 1)]}
    budgets = {"a GPU": Budget(spread, {})}
    deviations = [usual(Time(us), budgets) for us in (1, 5, 9.9, 10, 99)]
    assert deviations == [0.02, 0.02, 0.02, 0.01, 0.01]
    assert mean_of(Time(10), budgets).parts == ((1e-6, 2), (1e-4, math.inf))
    with pytest.raises(NotComparable, match="wall_time"):
        time = Time(10)
        time.kind = "wall_time"
        usual(time, budgets)


def test_the_deviation_is_that_of_the_gpu_and_of_a_kernel_that_varies_more():
    by_kernel = {"steady": 0.5, "worst": 3.0}
    mine = {"kernel_time": [SpreadClass(0, 1.0, 9, by_kernel)]}
    others = {"kernel_time": [SpreadClass(0, 2.0, 9)], "wall_time": [SpreadClass(0, 4.0, 9)]}
    budgets = {"another": Budget(others, {}), "mine": Budget(mine, {"kernel_time": 0.5})}
    kernels = ("steady", "worst", "not repeated")
    assert [usual(Time(9, "mine", k), budgets) for k in kernels] == [0.01, 0.03, 0.03]
    assert usual(Time(9, "unknown", "worst"), budgets) == 0.02
    time = Time(9, "mine", "worst")
    assert correlation(time, budgets) == 0.5
    time.kind = "wall_time"  # was not repeated on this GPU
    assert (usual(time, budgets), correlation(time, budgets)) == (0.04, 1.0)


def repeated(*means, variance=1e-6):
    """A kernel on two problems, with these means in each run."""
    keys = [Key("e", "p", name, "k", "kernel_time", 1) for name in ("large", "small")]
    runs = []
    for i, mean in enumerate(means):
        times = (Time(9), Time(9))
        for time in times:
            time.mean, time.variance = mean, variance
            time.results = SimpleNamespace(file=Path(f"{i}.json"))
        runs.append(times)
    return [
        (key, dict(enumerate(rows)))
        for key, rows in zip(keys, zip(*runs, strict=True), strict=True)
    ]


def test_the_deviation_between_runs_is_without_that_within_them():
    (spread,) = spread_of(repeated(0.0, 0.04, variance=3e-4))["kernel_time"]
    assert (spread.from_us, spread.percent) == (5, pytest.approx(100 * math.sqrt(5e-4), abs=5e-4))


def test_a_shared_difference_is_a_correlation():
    """Their covariance is 0.05**2, by a standard deviation of 10 %."""
    spread = {"kernel_time": [SpreadClass(0, 10.0, 9)]}
    assert shared_of(repeated(0.0, 0.05, 0.1), spread) == {"kernel_time": 0.25}


def test_a_mean_has_a_part_of_each_row_and_a_common_one():
    spread = {"kernel_time": [SpreadClass(0, 2.0, 9)]}
    budgets = {"a GPU": Budget(spread, {"kernel_time": 0.25})}
    variances = [variance for variance, _ in parts_of([(Time(9), 0.5), (Time(9), 0.5)], budgets)]
    assert variances == pytest.approx([2.5e-7, 0.75e-4, 2.5e-7, 0.75e-4, 1e-4])
    copy = Time(9)  # of two rows
    variances = [variance for variance, _ in parts_of([(copy, 0.5), (copy, 0.5)], budgets)]
    assert variances == pytest.approx([1e-6, 3e-4, 1e-4])


def side(*rows, pass_name="p"):
    """A side with one file, whose rows are (kernel, outcome, samples)."""
    records = [
        SimpleNamespace(
            kernel=kernel,
            outcome=outcome,
            is_verified=outcome == "bit_exact",
            is_ceiling=False,
            problem={"name": "64x64"},
            bytes_moved=1,
            metrics={"time": SimpleNamespace(name="time", unit="us", samples=samples)},
        )
        for kernel, outcome, samples in rows
    ]
    return [SimpleNamespace(experiment="e", pass_name=pass_name, gpu="a GPU", records=records)]


def test_a_wrong_row_counts_where_the_other_side_verified_it():
    a = side(("one", "bit_exact", []), ("two", "not_verified", []))
    b = side(("one", "mismatch", []), ("two", "mismatch", []))
    assert [row.kernel for row in wrong_rows(a, b, by_gpu=False).values()] == ["one"]


def test_a_row_is_lost_if_only_another_pass_has_it_wrong():
    right = ("one", "bit_exact", [1.0, 2.0])
    a, b = side(right) + side(right, pass_name="q"), side(("one", "mismatch", []))
    comparison = compared(Side("A", a), Side("B", b), 1.0)
    assert (len(comparison.wrong), [key.pass_name for key in comparison.lost]) == (1, ["q"])


def test_a_row_with_a_sample_of_no_time_is_not_compared():
    by_key = times(side(("one", "bit_exact", [1.0, 2.0]), ("two", "bit_exact", [1.0, 0.0])))
    assert [key.kernel for key in by_key] == ["one"]
