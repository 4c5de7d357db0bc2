"""Numbers from ncu's raw page, in the units of data/counters.json."""

import pytest
import stand_ins
from ncu.report import Value, launches, number

from reprolab.errors import InputError


@pytest.mark.parametrize(
    ("text", "unit", "value", "rounding"),
    [
        ("60948480", "inst", 60948480, 0),
        ("60,948,480", "inst", 60948480, 0),
        ("14336.000000", "sector", 14336, 5e-7),
        ("1.274368", "Mbyte", 1274368, 0.5),
        ("4.29", "Gbyte", 4.29e9, 5e6),
        ("4294967296", "byte", 4294967296, 0),
        ("31.30", "", 31.3, 0.005),
        ("1.98", "cycle/nsecond", 1.98e9, 5e6),
        ("1980.12", "cycle/usecond", 1980.12e6, 5e3),
        ("1980120000", "cycle/second", 1980120000, 0),
        ("-1", "%", -1, 0),
    ],
)
def test_a_number_has_the_base_unit_and_its_rounding(text, unit, value, rounding):
    parsed = number(text, unit)
    assert parsed.value == pytest.approx(value, rel=1e-12)
    assert parsed.rounding == pytest.approx(rounding, rel=1e-9)


@pytest.mark.parametrize("text", ["", "n/a", "nan", "inf", "(2, 1, 1)", "1.5 (2; 3)", "1e999", "x"])
def test_a_value_that_is_not_a_number_is_none(text):
    assert number(text, "inst") is None


def test_a_page_is_read_past_what_ncu_says_before_it():
    (launch,) = launches("==PROF== Connected\n" + stand_ins.page())
    assert launch.kernel == stand_ins.KERNEL
    assert launch.values["warp_instructions"] == Value(60948480)
    assert launch.values["dram_bytes_read"].value == pytest.approx(132120576)
    assert launch.values["sm_clock"].value == pytest.approx(1980.12e6)
    assert "pipe_fp16" not in launch.values  # n/a on this chip
    assert len(launch.values) == len(stand_ins.OURS)


def test_the_second_name_of_a_metric_is_read_too():
    (launch,) = launches(stand_ins.page({"dram__bytes_op_read.sum": ("Kbyte", "2.5")}))
    assert launch.values == {"dram_bytes_read": Value(2500, 50)}


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("", "not a table"),
        ("==WARNING== nothing\n", "not a table"),
        (stand_ins.page(launches=0), "not a table"),
        (stand_ins.page() + '"0","1"\n', "not a table"),
        (stand_ins.page({"gpu__time_duration.sum": ("ns", "1")}), "none of the counters"),
    ],
)
def test_another_text_is_refused(page, message):
    with pytest.raises(InputError, match=message):
        launches(page)
