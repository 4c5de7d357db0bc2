"""Statistics against values worked out by hand."""

import pytest

from plots.stats import Summary, gb_per_s, overlap, significant, speed_up, summarize


def test_quartiles_by_hand():
    s = summarize([4.0, 1.0, 3.0, 2.0])
    assert s == Summary(median=2.5, q1=1.75, q3=3.25, min=1.0, max=4.0, n=4)


def test_three_passes_by_hand():
    assert summarize([10.0, 30.0, 20.0]) == Summary(20.0, 15.0, 25.0, 10.0, 30.0, 3)


def test_one_sample():
    assert summarize([7.0]) == Summary(7.0, 7.0, 7.0, 7.0, 7.0, 1)


def test_speed_up_by_hand():
    slow = Summary(200.0, 190.0, 220.0, 180.0, 300.0, 9)
    ratio = speed_up(slow, Summary(100.0, 95.0, 110.0, 90.0, 150.0, 9))
    assert ratio.value == 2.0
    assert ratio.low == pytest.approx(190 / 110)
    assert ratio.high == pytest.approx(220 / 95)
    assert ratio.seen


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((1, 2), (3, 4), False),
        ((1, 3), (2, 4), True),
        ((1, 4), (2, 3), True),
        ((1, 2), (2, 3), True),  # one common point is an overlap
        ((3, 4), (1, 2), False),
    ],
)
def test_overlap(a, b, expected):
    first, second = (Summary(sum(x) / 2, x[0], x[1], 0, 9, 5) for x in (a, b))
    assert overlap(first, second) is expected
    assert speed_up(first, second).seen is not expected


def test_interval_is_the_range_below_five_samples():
    few, enough = summarize([4.0, 1.0, 2.0, 3.0]), summarize([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (few.low, few.high) == (1.0, 4.0)
    assert (enough.low, enough.high) == (2.0, 4.0)
    # The quartiles, 15-25 and 26-36, do not overlap, but the ranges, 10-30 and 21-41, do.
    ratio = speed_up(summarize([21.0, 31.0, 41.0]), summarize([10.0, 20.0, 30.0]))
    assert not ratio.seen
    assert (ratio.low, ratio.high) == (21 / 30, 41 / 10)


def test_bandwidth_by_hand():
    # 2.5 GB in a millisecond is 2500 GB/s
    assert gb_per_s(2_500_000_000, 1000.0) == 2500.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(138.72, "138.7"), (4.1419, "4.142"), (12345.6, "12346"), (0.0312349, "0.03123"), (0, "0")],
)
def test_significant(value, text):
    assert significant(value) == text
