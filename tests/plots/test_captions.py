"""The sentence on the machine: clocks that were locked, throttled, or not seen at all."""

import copy

import pytest
from edited import few

from plots.captions import machine
from records.results import parse

EMPTY = dict.fromkeys(("sm_mhz", "power_w", "temperature_c"))
REASONS = "throttle reasons seen: sw_power_cap, hw_thermal"


def said(tmp_path, clocks, gpu=(), seen=()):
    """`seen`: the clocks of the rows, in turn."""
    file = copy.deepcopy(few("table2/shapes"))
    file["provenance"]["clocks"] |= {"throttle_reasons": []} | clocks
    file["provenance"]["gpu"] |= dict(gpu)
    for i, row in enumerate(file["records"]):
        row["clocks"]["sm_mhz_during"] = seen[i % len(seen)] if seen else None
    return "; ".join(machine(parse(tmp_path / "shapes.json", file))[:3])


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ((1410, 1409.6), "1410 MHz seen"),
        ((1400, 1410), "1400-1410 MHz seen"),
        ((1395, 1410), "but 1395-1410 MHz seen (more than 1 % off)"),
        ((1980,), "but 1980 MHz seen (more than 1 % off)"),
        ((), "not known whether it was held"),
    ],
)
def test_locked_clocks_and_whether_they_were_held(tmp_path, seen, words):
    found = said(tmp_path, {"policy": "locked", "locked_mhz": 1410} | EMPTY, seen=seen)
    assert found.endswith(f"SM clock locked at 1410 MHz, {words}; no throttle reasons seen")


@pytest.mark.parametrize(
    ("clocks", "gpu", "words"),
    [
        ({}, {}, f"{REASONS} (up to 655 of 700 W, 52 C)"),
        ({}, {"power_limit_w": None}, f"{REASONS} (up to 655 W, 52 C)"),
        (EMPTY, {}, REASONS),
        ({"throttle_reasons": None}, {}, "throttle reasons not known"),
    ],
)
def test_throttling_is_shown_with_power_and_temperature(tmp_path, clocks, gpu, words):
    seen = {"power_w": {"max": 655}, "temperature_c": {"max": 52}}
    seen |= {"throttle_reasons": ["sw_power_cap", "hw_thermal"]}
    assert said(tmp_path, seen | clocks, gpu).endswith(f"; {words}")


def test_no_nvml(tmp_path):
    found = said(tmp_path, EMPTY, {"driver": None})
    assert "driver not known" in found
    assert "clocks not locked, SM clock not known (no NVML)" in found
