"""data/counters.json against its schema, and what the schema cannot say."""

from itertools import pairwise

import pytest

from records.json_files import ROOT, Schema, read_json

FILE = ROOT / "data/counters.json"
SCHEMA = Schema("counters.schema.json")


@pytest.fixture
def table():
    return read_json(FILE)


def test_the_table_is_as_its_schema_says(table):
    SCHEMA.check(FILE, table)


def test_no_column_metric_or_title_comes_twice(table):
    for key in ("id", "title"):
        values = [counter[key] for counter in table["counters"]]
        assert len(set(values)) == len(values)
    columns = {}
    for counter in table["counters"]:
        for metric in counter["metrics"]:
            assert metric not in columns, (counter["id"], columns.get(metric))
            columns[metric] = counter["id"]


def test_a_group_stands_together(table):
    groups = [counter["group"] for counter in table["counters"]]
    changes = sum(a != b for a, b in pairwise(groups))
    assert changes + 1 == len(set(groups))


def test_no_column_is_a_time(table):
    for counter in table["counters"]:
        assert counter["unit"] not in ("us", "ns", "s")
        assert not any(metric.startswith("gpu__time") for metric in counter["metrics"])
