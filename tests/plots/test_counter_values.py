"""Formatted numbers of counters, and their changes."""

import pytest

from plots.counter_values import Value, change
from reprolab.counter_table import Counter


@pytest.mark.parametrize(
    ("unit", "base", "value", "text"),
    [
        ("sectors", 100, 41, "-59%"),
        ("sectors", 100, 0, "-100%"),
        ("sectors", 100, 999, "+899%"),
        ("sectors", 100, 1000, "x10"),
        ("sectors", 0, 5, ""),
        ("sectors", 5, 5, ""),
        ("%", 80.0, 82.25, "+2.2 pt"),
        ("%", 0.0, 5.0, "+5.0 pt"),
    ],
)
def test_changes(unit, base, value, text):
    counter = Counter("some", "group", "some", unit)
    assert change(Value(counter, value), Value(counter, base)) == text
    assert change(Value(counter, value), None) == ""
    assert change(Value(counter, None, missing="why"), Value(counter, base)) == ""
