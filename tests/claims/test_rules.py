"""The statistic and the edges of verdicts, with values by hand."""

import math
from types import SimpleNamespace

import pytest

from reprolab import stats
from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import NotTestable
from reprolab.results import Row
from reprolab.run_to_run import SpreadClass, common_of
from reprolab.stats import Estimate, LogMean

YES, NO, MAY_BE = rules.REPRODUCED, rules.NOT_REPRODUCED, rules.UNDECIDED


def known(value, percent, shared=True):
    """A ratio whose logarithm has this standard deviation."""
    return LogMean(math.log(value), (((percent / 100) ** 2, math.inf, shared),)).ratio


def case(direction, value, tolerance, cells=1, hosts=()):
    cell = SimpleNamespace(direction=direction, value=value, tolerance_percent=tolerance)
    cell.family_size, cell.unit = cells, "x"
    return SimpleNamespace(cell=cell, hosts=list(hosts))


# 2.576 standard deviations of 1 % decide one cell at 99 %, 3.54 one of 25.
@pytest.mark.parametrize(
    ("direction", "value", "cells", "ours", "kind"),
    [
        ("at_least", 2.0, 1, 1.8 * 1.027, YES),
        ("at_least", 2.0, 1, 1.8 * 1.024, MAY_BE),
        ("at_least", 2.0, 1, 1.8 * 0.973, NO),
        ("at_least", 2.0, 25, 1.8 * 1.027, YES),  # each has to hold as if it were the only one
        ("at_least", 2.0, 25, 1.8 * 0.973, MAY_BE),  # one of many fails by chance
        ("at_least", 2.0, 25, 1.8 * 0.96, NO),
        ("at_most", 2.0, 1, 2.2 * 0.97, YES),
        ("at_most", 2.0, 1, 2.2 * 1.03, NO),
        ("exactly", 2.0, 1, 2.0, YES),
        ("exactly", 2.0, 1, 1.7, NO),
        ("exactly", 2.0, 1, 2.3, NO),
        ("gain", 1.05, 1, 1.02, MAY_BE),  # a tenth less is allowed, and no loss
        ("gain", 1.05, 1, 0.97, NO),
        ("gain", 1.05, 1, 1.03, YES),
    ],
)
def test_our_value_is_judged_in_the_declared_direction(direction, value, cells, ours, kind):
    found = rules.judge(case(direction, value, 10, cells), known(ours, 1))
    assert (found.kind, found.ours) == (kind, pytest.approx(ours))


def test_a_value_without_samples_has_a_guard_band_of_2_percent():
    for ours, kind in ((1.84, YES), (1.8, MAY_BE), (1.76, NO)):
        assert rules.judge(case("at_least", 2.0, 10), Estimate(ours, ours, ours)).kind == kind
    exact = rules.judge(case("at_least", 2.0, 10), Estimate(1.8, 1.8, 1.8), spread_percent=0)
    assert exact.kind == YES


@pytest.mark.parametrize(
    ("nearest", "guard", "kind"),
    [(102.1, 2, YES), (101.9, 2, MAY_BE), (98.1, 2, MAY_BE), (97.9, 2, NO), (100.0, 0, YES)],
)
def test_the_nearest_of_all_places_decides(nearest, guard, kind):
    assert rules.all_above([150, nearest], 100, guard) == kind
    assert rules.all_above([250, nearest], [200, 100], guard) == kind
    assert rules.all_below([50, 200 - nearest], 100, guard) == kind


@pytest.mark.parametrize("under", [[1, 0], [0], [1, -1]])
def test_a_count_of_zero_at_one_place_divides_nothing(under):
    with pytest.raises(NotTestable):
        rules.quotients([1.0] * len(under), under)
    assert rules.quotients([0, 3], [1, 2], may_be_zero=True) == [0, 1.5]


def test_all_hold_or_one_fails():
    assert rules.worst([YES, YES]) == YES
    assert rules.worst([YES, MAY_BE, NO, YES]) == NO
    assert rules.worst([YES, MAY_BE, YES]) == MAY_BE


@pytest.mark.parametrize(
    ("percent", "kind"),
    [(0.2, YES), (-0.2, YES), (2.0, MAY_BE), (-2.0, MAY_BE), (3.0, NO), (-3.0, NO)],
)
def test_equivalence_is_shown_on_both_sides(percent, kind):
    assert rules.equivalent([known(1 + percent / 100, 0.3)], 2, 1) == kind


def test_a_trend_is_the_change_on_the_line_of_least_squares():
    """0, 0, 0, 1, 1, 1 %: (2.5 + 1.5 + 0.5) * 5 / 17.5 = 1.286 %; noise of 1 % makes 1.195 %."""
    for shared in (False, True):
        values = [known(math.exp(y / 100), 1, shared).log for y in (0, 0, 0, 1, 1, 1)]
        change = rules.trend(values)
        assert (100 * change.value, 100 * change.error) == pytest.approx((1.2857, 1.1952), rel=1e-3)


def test_the_mean_of_six_rows_is_as_sure_as_their_errors_are_independent():
    for shared, percent in ((True, 1.0), (False, 1 / math.sqrt(6))):
        mean = stats.mean([known(2.0, 1, shared)] * 6)
        assert (mean.value, 100 * mean.log.error) == pytest.approx((2.0, percent))
    parts = [LogMean(0.0, ((1e-4, freedom, False),)).ratio for freedom in (2, 2, 2)]
    assert stats.mean(parts).log.freedom == pytest.approx(6)  # as of one pooled variance
    uneven = [LogMean(0.0, ((1e-4, 2, False),)).ratio, LogMean(0.0, ()).ratio]
    assert stats.mean(uneven).log.error == pytest.approx(0.005)  # one row has a single sample


@pytest.mark.parametrize(
    ("lost", "saved", "least", "kind", "percent"),
    [
        (1.03, 2.0, 50, NO, 3.0),
        (0.98, 2.0, 50, NO, -2.0),
        (1.6, 2.0, 50, YES, 60),
        (1.5, 2.0, 50, MAY_BE, 50),
    ],
)
def test_the_part_of_what_is_saved(lost, saved, least, kind, percent):
    found = rules.part_of_saving(known(lost, 0.5), known(saved, 0.5), least)
    assert (found.kind, found.ours) == (kind, pytest.approx(percent))
    assert found.interval[0] < percent < found.interval[1]
    with pytest.raises(NotTestable):
        rules.part_of_saving(known(1.5, 0.5), known(1.0, 0.5), 50)


def host_cell(gpu, batch, baseline, subject, model="m", weights=27e9):
    names = ("gpu", "batch", "baseline_us", "subject_us", "model", "weights")
    return dict(zip(names, (gpu, batch, baseline, subject, model, weights), strict=True))


CELLS = [
    host_cell("a", 2, [100, 100], [50, 55]),
    host_cell("a", 4, [100, 100, 100], [50, 50, 50]),
    host_cell("b", 2, [100, 110], [100, 100]),
    host_cell("a", 2, [9e6, 9e6], [5e6, 5e6], "large", 70e9),
]


@pytest.fixture
def hosts(monkeypatch):
    monkeypatch.setattr(uncertainty, "host_cells", lambda: CELLS)
    monkeypatch.setattr(uncertainty, "host_spread", uncertainty.host_spread.__wrapped__)


def test_a_hosts_batches_of_one_model_are_one_observation(hosts):
    """Gains differ by log 1.1 twice: variances of 1, 2 and 1 degrees of freedom are pooled; the
    freedom is of the 3 hosts of one GPU and the 2 of the other.
    """
    spread = uncertainty.host_spread(32e9)
    squares = 2 * (math.log(1.1) / 2) ** 2  # of one pair about its mean
    assert spread.gain_percent == pytest.approx(100 * math.sqrt((squares + 0 + squares) / 4))
    assert spread.baseline_percent == pytest.approx(100 * math.sqrt(squares / 4))
    assert spread.freedom == 2 + 1
    assert uncertainty.host_spread(70e9).gain_percent == 0


def generation(kernel, us, weights=27e9):
    problem = {"way": "eager", "weights": weights, "model": "m", "batch": 2}
    wall_time = {"metric": "wall_time", "samples": (us, us), "median": us}
    return Row(kernel=kernel, gpu="a", problem=problem, **wall_time)


def test_every_host_of_a_cell_enters_and_narrows_it(hosts, monkeypatch):
    spreads = (uncertainty.HostSpread(3.0, 8.0, 5), uncertainty.HostSpread(1.0, 2.0, 2))
    monkeypatch.setattr(uncertainty, "host_spread", lambda weights: spreads[weights > 50e9])
    rows = generation("branch_tree", 100.0), generation("shared_lut", 50.4)
    others = uncertainty.other_hosts(*rows)
    assert others == [pytest.approx(math.log(100 / 55))]  # its own is left out
    assert len(uncertainty.other_hosts(rows[0], generation("shared_lut", 60.0))) == 2
    assert uncertainty.other_hosts(*rows[::-1]) == []
    alone = uncertainty.log_ratio(*rows)
    both = uncertainty.log_ratio(*rows, others)
    assert (100 * alone.error, alone.freedom) == (pytest.approx(8.0), 5)
    assert 100 * both.error == pytest.approx(8.0 / math.sqrt(2))
    assert both.value == pytest.approx((math.log(100 / 50.4) + math.log(100 / 55)) / 2)
    large = [generation(kernel, 1.0, 70e9) for kernel in ("branch_tree", "shared_lut")]
    assert 100 * uncertainty.log_ratio(*large).error == pytest.approx(2.0)
    assert 100 * uncertainty.log_baseline(rows[0]).error == pytest.approx(3.0)


def test_an_undecided_gain_says_how_many_hosts_would_decide():
    """2.576 * 10 / sqrt(n) % reach 10 % with 6.6 hosts of which one was measured."""
    log = known(1.0 * math.exp(0.1), 10).log
    assert uncertainty.hosts_to_decide(log, 1.0, 1, 1) == 7
    note = rules.judge(case("at_least", 1.0, 0, hosts=[1]), log.ratio).note
    assert note.endswith("undecided on 1 host, about 7 would decide")


def test_a_row_varies_between_runs_as_on_the_problem_where_it_varies_most(monkeypatch):
    """The class of a row is that of its mean, here of 10 us."""
    classes = [SpreadClass(0, 5.0, 9)]
    classes += [SpreadClass(9, 0.5, 9, {"k": 0.3}, {"k": 0.7, "other": 0.9}, {"k": 0.2, "x": 0.4})]
    monkeypatch.setattr(uncertainty, "recorded_budgets", lambda: {"a": {"kernel_time": classes}})
    assert uncertainty.between_runs("a", "kernel_time", 10, "k") == (0.7, 0.2)
    assert uncertainty.between_runs("a", "kernel_time", 10, "unknown") == (0.9, 0.4)
    of_row = {"origin": "project", "problem": {"family": "f"}, "samples": (8.0, 12.5)}
    log = uncertainty.log_time(Row(gpu="a", kernel="k", metric="kernel_time", **of_row))
    cublas = uncertainty.log_time(Row(gpu="a", kernel="cublas", metric="kernel_time", **of_row))
    assert 100 * LogMean(0, cublas.parts[1:]).error == pytest.approx(1.0)  # was not repeated
    log = LogMean(log.value, log.parts[1:])  # without the part of the samples
    assert 100 * log.error == pytest.approx(0.7)
    mean = stats.mean([log.ratio] * 4).log  # of four problems: 0.2 and 0.67 / 2
    assert 100 * mean.error == pytest.approx(math.sqrt(0.2**2 + (0.7**2 - 0.2**2) / 4))


def test_what_all_problems_of_a_run_share_is_their_covariance():
    runs = [[0.00, 0.01, 0.02], [0.00, 0.01, 0.02]]  # two problems that move together
    assert common_of(runs) == pytest.approx(1.0)
    assert common_of([[0.00, 0.01, 0.02], [0.02, 0.01, 0.00]]) == 0
    assert common_of([[0.00, 0.01, 0.02]]) == pytest.approx(1.0)  # nothing tells them apart
