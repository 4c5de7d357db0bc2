"""Predictions for another GPU, by hand: its issue takes 2 times as long, its memory 4 times."""

from types import SimpleNamespace

import pytest

from reprolab.claims import prediction
from reprolab.claims.prediction import Card, Scale

HERE, THERE = Card(100, 1000.0, 4000.0), Card(50, 1000.0, 1000.0)


def case(times, unit="x", **arguments):
    """`times`: by kernel and metric."""

    def measured(kernel, metric, *_):
        summaries = {name: SimpleNamespace(median=us) for name, us in times[kernel].items()}
        return SimpleNamespace(summary_of=summaries.__getitem__)

    comparison = SimpleNamespace(arguments=arguments, unit=unit, rule="puzzle.seconds")
    cell = SimpleNamespace(at={}, gpu="H100-PCIe", value=9.0)
    return SimpleNamespace(comparison=comparison, cell=cell, place={"batch": 2}, measured=measured)


@pytest.fixture(autouse=True)
def scaled(monkeypatch):
    monkeypatch.setattr(prediction, "to", lambda case, row, target: prediction.scale(HERE, target))


def test_times_scale_with_issue_and_with_bandwidth():
    assert prediction.scale(HERE, THERE) == Scale(2.0, 4.0)


def test_the_rest_of_a_step_scales_by_the_mean_of_both():
    names = ("kernel_time.step", "product_time.step", "busy_time.step")
    us = {"slow": (10.0, 20.0, 40.0), "fast": (5.0, 20.0, 35.0)}
    times = {kernel: dict(zip(names, values, strict=True)) for kernel, values in us.items()}
    cell = case(times, metric="wall_time", baseline="slow", subject="fast")
    assert prediction.gain(cell, THERE) == pytest.approx((20 + 80 + 30) / (10 + 80 + 30))


PUZZLE = {"k": {"wall_time": 7e6, "kernel_time": 1e6}}


def test_the_hosts_part_of_the_puzzle_stays_as_it_is():
    assert prediction.seconds(case(PUZZLE, unit="s", kernel="k"), THERE) == pytest.approx(2 + 6)


def test_the_error_of_a_prediction_is_the_largest_of_the_validation(monkeypatch):
    monkeypatch.setattr(prediction, "validation", lambda: {"kernel_time": 9.0, "seconds": -3.0})
    monkeypatch.setitem(prediction.CARDS, "H100-PCIe", THERE)
    predicted = prediction.predict(case(PUZZLE, unit="s", kernel="k"))
    assert (predicted.gpu, predicted.value, predicted.error_percent) == (
        "H100-PCIe",
        pytest.approx(8),
        3.0,
    )
