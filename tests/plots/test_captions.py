"""The sentence about the machine: clocks that were locked, throttled, or not observed."""

import pytest
from edited import few

from reprolab.captions import machine
from reprolab.results import parse

EMPTY = dict.fromkeys(("sm_mhz", "power_w", "temperature_c"))
LOCKED = {"policy": "locked", "locked_mhz": 1410} | EMPTY
AT = "SM clock locked at 1410 MHz, "
THROTTLED = {"power_w": {"max": 655}, "temperature_c": {"max": 52}}
THROTTLED |= {"throttle_reasons": ["sw_power_cap", "hw_thermal"]}
REASONS = "; throttle reasons seen: sw_power_cap, hw_thermal"
NO_NVML = "driver not known, CUDA 13.0; clocks not locked, SM clock not known (no NVML)"


@pytest.mark.parametrize(
    ("clocks", "gpu", "sm_mhz", "text"),
    [
        (LOCKED, {}, (1410, 1409.6), f"{AT}1410 MHz seen; no throttle reasons seen"),
        (LOCKED, {}, (1400, 1410), f"{AT}1400-1410 MHz seen; "),
        (LOCKED, {}, (1395, 1410), f"{AT}but 1395-1410 MHz seen (more than 1 % off); "),
        (LOCKED, {}, (), f"{AT}not known whether it was held; "),
        (THROTTLED, {}, (), f"{REASONS} (up to 655 of 700 W, 52 C)"),
        (THROTTLED, {"power_limit_w": None}, (), f"{REASONS} (up to 655 W, 52 C)"),
        (THROTTLED | EMPTY, {}, (), REASONS),
        ({"throttle_reasons": None}, {}, (), "; throttle reasons not known"),
        (EMPTY, {"driver": None}, (), NO_NVML),
    ],
)
def test_clocks_and_throttling(tmp_path, clocks, gpu, sm_mhz, text):
    """`sm_mhz`: the clocks of the rows, in their order."""
    file = few("table2/shapes")
    file["provenance"]["clocks"] |= {"throttle_reasons": []} | clocks
    file["provenance"]["gpu"] |= gpu
    for i, row in enumerate(file["records"]):
        row["clocks"]["sm_mhz_during"] = sm_mhz[i % len(sm_mhz)] if sm_mhz else None
    assert text in "; ".join(machine(parse(tmp_path / "shapes.json", file))[:3])
