"""Statistics compared with values computed by hand."""

import math

import numpy as np
import pytest

from reprolab.stats import (
    Estimate,
    LogMean,
    Summary,
    gb_per_s,
    is_at_least,
    is_within,
    log_mean,
    mean,
    out_of,
    pool,
    ratio,
    share_percent,
    significant,
    span,
    summarize,
)


def test_quartiles_by_hand():
    assert summarize([4.0, 1.0, 3.0, 2.0]) == Summary(2.5, q1=1.75, q3=3.25, min=1.0, max=4.0, n=4)
    assert summarize([10.0, 30.0, 20.0]) == Summary(20.0, 15.0, 25.0, 10.0, 30.0, 3)
    assert summarize([7.0]) == Summary(7.0, 7.0, 7.0, 7.0, 7.0, 1)
    random = np.random.default_rng(3)
    for size in range(1, 40):
        samples = random.lognormal(size=size).round(size % 5)
        summary = summarize([float(x) for x in samples])
        assert [summary.q1, summary.median, summary.q3] == list(
            np.quantile(samples, (0.25, 0.5, 0.75))
        )


def test_shares_are_said_with_small_numbers_where_these_are_exact():
    assert out_of(7 << 27, 1 << 30) == "7 of 8" and out_of(0, 5) == "0 of 1"
    assert out_of(2000006, 1 << 21) == "2000006 of 2097152"


def test_interval_is_the_range_below_five_samples():
    few, enough = summarize([4.0, 1.0, 2.0, 3.0]), summarize([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (few.low, few.high) == (1.0, 4.0)
    assert (enough.low, enough.high) == (2.0, 4.0)
    assert few.estimate == Estimate(2.5, 1.0, 4.0)


def test_ratio_is_of_medians_with_the_ends_crossed():
    three = ratio(summarize([30.0, 10.0, 20.0]), summarize([4.0, 5.0, 8.0]))
    assert three == Estimate(20 / 5, 10 / 8, 30 / 4)
    five = ratio(summarize([50, 10, 20, 30, 40]), summarize([5, 1, 2, 3, 4]))
    assert five == Estimate(30 / 3, 20 / 4, 40 / 2)


def test_an_estimate_is_scaled_and_widened_with_both_ends():
    assert Estimate(2.0, 1.0, 4.0).scaled(2) == Estimate(4.0, 2.0, 8.0)
    assert Estimate(2.0, 1.0, 4.0).widened(50) == Estimate(2.0, 0.5, 6.0)
    assert Estimate(-2.0, -4.0, -1.0).widened(50) == Estimate(-2.0, -6.0, -0.5)


def test_mean_and_pool_by_hand():
    estimates = [Estimate(1.0, 0.5, 1.5), Estimate(2.0, 1.9, 2.1), Estimate(6.0, 0.6, 9.0)]
    assert mean(estimates) == Estimate(3.0, 1.0, 4.2)
    assert pool(estimates) == Estimate(2.0, 0.5, 9.0)


def test_the_mean_of_logarithms_by_hand():
    log = log_mean([1.0, math.e**2])
    assert log.value == pytest.approx(1)
    assert log.parts == (pytest.approx((1.0, 1, False)),)
    assert log_mean([math.e]).parts == ()


def test_one_of_several_cells_is_decided_by_a_wider_interval():
    ratio = LogMean(0.0, ()).with_part(1).ratio
    for cells, reach in ((1, 2.5758), (4, 3.0233)):  # quantiles of 0.995 and 0.99875
        assert ratio.deciding(cells).high == pytest.approx(math.exp(0.01 * reach), rel=1e-6)


def test_shares_and_bandwidths_by_hand():
    s = share_percent([30.0, 60.0, 50.0], [70.0, 40.0, 50.0])  # sample by sample
    assert (s.median, s.q1, s.q3, s.n) == (50.0, 40.0, 55.0, 3)
    # 2.5 GB in a millisecond is 2500 GB/s; the longest time is the lowest bandwidth
    times = summarize([1000.0, 2000.0, 500.0])
    assert gb_per_s(2_500_000_000, times.estimate) == Estimate(2500.0, 1250.0, 5000.0)


def test_the_bound_itself_is_within():
    for ours, inside in ((90.0, True), (110.0, True), (89.999, False), (110.001, False)):
        assert is_within(ours, 100.0, 10) is inside
        assert is_within(ours / 50, 2.0, 10) is inside  # also where decimals are no binary numbers
    assert [is_at_least(ours, 2.0, 10) for ours in (9.0, 1.8, 1.7999)] == [True, True, False]


@pytest.mark.parametrize(
    ("value", "text"),
    [(138.72, "138.7"), (4.1419, "4.142"), (12345.6, "12346"), (0.0312349, "0.03123")]
    + [(0, "0"), (1e400, "inf")],
)
def test_significant(value, text):
    assert significant(value) == text


def test_a_span_has_one_end_where_both_look_the_same():
    assert span([58.71, 52.1, 55.0]) == "52.1 to 58.7"
    assert span([52.14, 52.11]) == "52.1"
