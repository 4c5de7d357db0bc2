"""data/counters.json: rules that its schema cannot express."""

from itertools import pairwise

from reprolab.json_files import ROOT, read_json

COUNTERS = read_json(ROOT / "data/counters.json")["counters"]


def test_no_column_metric_or_title_comes_twice():
    metrics = [metric for counter in COUNTERS for metric in counter["metrics"]]
    for values in (metrics, *([c[key] for c in COUNTERS] for key in ("id", "title"))):
        assert len(set(values)) == len(values)


def test_a_group_stands_together():
    groups = [counter["group"] for counter in COUNTERS]
    changes = sum(a != b for a, b in pairwise(groups))
    assert changes + 1 == len(set(groups))


def test_no_column_is_a_time():
    for counter in COUNTERS:
        assert counter["unit"] not in ("us", "ns", "s")
        assert not any(metric.startswith("gpu__time") for metric in counter["metrics"])
