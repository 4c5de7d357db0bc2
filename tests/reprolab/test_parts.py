"""Result files of parts of a pass: which are kept, and what may be joined."""

import made
import pytest

from reprolab import parts
from reprolab.errors import InputError
from reprolab.sources import Sources

NOW = Sources("a" * 40, False)


def part(outcome="bit_exact", reason="", **provenance):
    problem = made.generated("qwen3-32b", 2)
    origin = made.provenance(**NOW._asdict() | provenance)
    rows = [made.record(problem, "streaming") | {"outcome": outcome, "reason": reason}]
    return made.results("end_to_end", "timing", rows) | {"provenance": origin}


@pytest.mark.parametrize(
    ("then", "now", "done"),
    [
        (part(), NOW, True),
        (part("mismatch"), NOW, True),
        (part("not_measured", "the GPU was lost"), NOW, False),
        (part("unsupported", "out of memory: 80 GB"), NOW, False),
        (part(commit="b" * 40), NOW, False),
        (part(), NOW._replace(dirty=True), False),
        (part(dirty=True), NOW._replace(dirty=True), False),  # how they differ is not known
        (None, NOW, False),
    ],
)
def test_what_was_measured_from_these_sources_is_kept(then, now, done):
    name, driver = made.GPU["name"], made.GPU["driver"]
    assert parts.is_done(then, now, []) is parts.is_done(then, now, [name, driver]) is done
    assert not parts.is_done(then, now, ["another GPU", driver])
    assert not parts.is_done(then, now, [name, "another driver"])


def test_parts_of_other_conditions_are_not_joined():
    other = {"commit": "b" * 40, "build": {"compiler": "another torch"}}
    other["gpu"] = made.GPU | {"driver": "1.2.3"}
    for name, value in other.items():
        with pytest.raises(InputError, match="another GPU, driver, library or source"):
            parts.join([part(), part(**{name: value})], ["command"])
    units = [part(gpu=made.GPU | {"unit": unit}) for unit in ("one", "two", "one")]
    joined = parts.join(units, ["command"])
    assert joined["provenance"]["gpu"]["unit"] == "one two"
    assert joined["provenance"]["argv"] == ["command"] and len(joined["records"]) == 3


def test_joined_clocks_hold_every_range():
    """Each process has its own median; the common one is unknown."""
    one, two = ({"min": 1, "median": 2, "max": 3}, {"min": 0, "median": 5, "max": 9})
    names = ("sm_mhz", "memory_mhz", "power_w", "temperature_c")
    clocks = [dict.fromkeys(names, r) | {"policy": "observed"} for r in (one, two)]
    clocks[0] |= {"throttle_reasons": ["idle", "sw_power_cap"], "power_w": None}
    clocks[1] |= {"throttle_reasons": ["hw_slowdown"], "power_w": None, "memory_mhz": None}
    joined = parts.join_clocks(clocks)
    assert (joined["sm_mhz"], joined["power_w"]) == ({"min": 0, "max": 9}, None)
    assert joined["memory_mhz"] == {"min": 1, "max": 3}
    assert joined["throttle_reasons"] == ["hw_slowdown", "idle", "sw_power_cap"]
    assert parts.join_clocks(clocks[:1]) == clocks[0]
