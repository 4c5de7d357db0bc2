"""Merging result files of parts of a run."""

import made
import pytest

from reprolab import parts
from reprolab.sources import Sources

NOW = Sources("a" * 40, False)


def partial(**provenance):
    origin = made.provenance(**NOW.told() | provenance)
    return {"provenance": origin, "records": [{"outcome": "bit_exact", "reason": ""}]}


@pytest.mark.parametrize(
    ("then", "now", "done"),
    [
        ({}, NOW, True),
        ({"commit": "b" * 40}, NOW, False),
        ({"dirty": True}, NOW, False),
        ({}, NOW._replace(dirty=True), False),
        ({"dirty": True}, NOW._replace(dirty=True), False),  # nothing is known of how they differ
        ({"commit": "unknown"}, NOW._replace(commit="unknown", dirty=True), False),
    ],
)
def test_rows_of_other_sources_are_measured_again(then, now, done):
    file = partial(**then)
    assert parts.is_done(file, now, "") is done
    assert parts.is_done(file, now, file["provenance"]["gpu"]["name"]) is done
    assert parts.is_done(file, now, "another GPU") is False


def test_the_command_of_several_partial_results_measures_all_of_them():
    words = ["python", "-m", "e", "timing", "--peer", "a.so", "--output", "t.json", "--gpus", "2,3"]
    one, other = ([*words, "--model", name] for name in ("a", "b"))
    assert parts.command_of([one, one]) == one
    assert parts.command_of([one, other]) == words
    assert parts.command_of([[*words, "--batches", "2"], words]) == words


def test_joined_clocks_hold_every_range():
    """Each process has its own median; the common one is unknown."""
    one, two = ({"min": 1, "median": 2, "max": 3}, {"min": 0, "median": 5, "max": 9})
    names = ("sm_mhz", "memory_mhz", "power_w", "temperature_c")
    clocks = [dict.fromkeys(names, r) | {"policy": "observed"} for r in (one, two)]
    clocks[0] |= {"throttle_reasons": None, "power_w": None}
    clocks[1] |= {"throttle_reasons": ["sw_power_cap"], "power_w": None}
    joined = parts.join_clocks(clocks)
    assert joined["sm_mhz"] == {"min": 0, "max": 9}
    assert (joined["power_w"], joined["throttle_reasons"]) == (None, ["sw_power_cap"])
    assert parts.join_clocks(clocks[:1]) == clocks[0]
    clocks[0]["throttle_reasons"] = ["idle", "sw_power_cap"]
    clocks[1] |= {"memory_mhz": None, "throttle_reasons": ["hw_slowdown", "idle"]}
    joined = parts.join_clocks(clocks)
    assert joined["memory_mhz"] == {"min": 1, "max": 3}
    assert joined["throttle_reasons"] == ["hw_slowdown", "idle", "sw_power_cap"]


@pytest.mark.parametrize("outcome", ["bit_exact", "mismatch", "unsupported"])
def test_a_verdict_is_kept(outcome):
    assert parts.is_done(partial() | {"records": [{"outcome": outcome, "reason": ""}]}, NOW, "")


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [("not_measured", "the GPU was lost"), ("unsupported", "out of memory: 80 GB")],
)
def test_lost_rows_are_measured_again(outcome, reason):
    file = partial() | {"records": [{"outcome": outcome, "reason": reason}]}
    assert not parts.is_done(file, NOW, "")
    assert not parts.is_done(None, NOW, "")
