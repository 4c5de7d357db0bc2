"""The cases in which ncu's number and ours agree or disagree."""

from pathlib import Path

import pytest
import stand_ins
from ncu import agreement
from ncu.agreement import DIFFERS, EQUAL, NOT_HELD, WITHIN, compare, judge
from ncu.report import Value, launches

from reprolab.counter_table import known
from reprolab.errors import InputError
from reprolab.json_files import ROOT, read_json
from reprolab.results import parse

BY_ID = known()


def record(ours=stand_ins.OURS, **changes):
    file = stand_ins.result_file(ours, **changes)
    return parse(Path("counters.json"), file).records[0]


@pytest.mark.parametrize(
    ("counter", "ours", "ncu", "verdict"),
    [
        ("warp_instructions", [100, 200, 100, 200], Value(200), EQUAL),
        ("warp_instructions", [1e6, 2e6, 1e6, 2e6], Value(1e6 + 1), DIFFERS),
        ("warp_instructions", [1e6], Value(1e6 - 1), DIFFERS),
        # A loop that waits: no sample is like another.
        ("branches", [1000, 1100, 1050], Value(1075), WITHIN),
        ("branches", [1000, 1100, 1050], Value(1111), WITHIN),
        ("branches", [1000, 1100, 1050], Value(1112), DIFFERS),
        ("branches", [1000, 1100, 1050], Value(989), DIFFERS),
        ("dram_bytes_read", [1e8, 1e8], Value(1.01e8), WITHIN),
        ("dram_bytes_read", [1e8, 1e8], Value(1.0101e8), DIFFERS),
        ("dram_bytes_read", [1e8, 1e8], Value(0.9899e8), DIFFERS),
        ("dram_bytes_read", [1e8, 1e8], Value(1.0101e8, 5e5), WITHIN),
        ("l2_hit_rate", [82.0, 82.0], Value(82.8), WITHIN),
        ("l2_hit_rate", [82.0, 82.0], Value(82.9), DIFFERS),
        ("l1_hit_rate", [0.0, 0.0], Value(0.09), WITHIN),
        ("l1_hit_rate", [0.0, 0.0], Value(0.11), DIFFERS),
        ("threads_per_instruction", [31.3, 31.3], Value(31.3, 0.005), EQUAL),
        ("threads_per_instruction", [31.3, 31.3], Value(30.9), DIFFERS),
        ("active_warps", [40.0, 40.0], Value(20.0), NOT_HELD),
        ("sm_cycles", [5e5, 5e5], Value(9e5), NOT_HELD),
        ("stall_wait", [2.0, 2.0], Value(1.0), NOT_HELD),
        ("shared_load_bank_conflicts", [10.0, 10.0], Value(900), NOT_HELD),
    ],
)
def test_verdicts(counter, ours, ncu, verdict):
    assert judge(BY_ID[counter], ours, ncu) == verdict


def test_each_counter_that_both_have_is_compared():
    rows = {row["counter"]: row for row in compare(record(), launches(stand_ins.page()))}
    assert {counter: row["verdict"] for counter, row in rows.items()} == {
        "warp_instructions": EQUAL,
        "threads_per_instruction": WITHIN,
        "l1_hit_rate": WITHIN,
        "l2_hit_rate": WITHIN,
        "dram_bytes_read": WITHIN,
        "stall_long_scoreboard": NOT_HELD,
        "sm_clock": NOT_HELD,
    }
    differences = {counter: row["difference_percent"] for counter, row in rows.items()}
    assert differences["warp_instructions"] == 0
    assert differences["l1_hit_rate"] is None
    assert differences["stall_long_scoreboard"] == pytest.approx(100 * 2.5 / 7)


def test_nothing_that_is_held_is_no_agreement():
    with pytest.raises(InputError, match="none of our counters"):
        compare(record({"stall_wait": ("warps/issue", [1.0] * 6)}), launches(stand_ins.page()))


def test_recorded_agreement_fits_the_schema(tmp_path):
    file = ROOT / "data/recorded/h200/counters/ncu.json.xz"
    recorded = read_json(file)
    agreement.SCHEMA.check(file, recorded)
    recorded["rows"][0]["verdict"] = "fine"
    with pytest.raises(InputError, match=r"rows\[0\].verdict must be one of equal, "):
        agreement.write(tmp_path, None, recorded)
    assert not list(tmp_path.iterdir())
