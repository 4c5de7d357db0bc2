"""Tables from toml and slots of pages, on rows made by hand."""

import pandas as pd
import pytest

from plots.frame import prepared
from plots.tables import Table
from reprolab.claims.uncertainty import log_ratio
from reprolab.errors import InputError
from reprolab.results import Row

OF_ROW = {"origin": "project", "problem": {"family": "nf4"}}
COPY = {"origin": "ceiling", "bytes_read": 500, "bytes_moved": 1000}


def records(*rows):
    """A frame as reprolab.load has it; each row is (kernel, times, more)."""
    made = []
    for kernel, times, more in rows:
        low, middle, high = times or (None,) * 3
        made.append(
            {"kernel": kernel, "low": low, "median": middle, "high": high, "min": low, "max": high}
            | {"q1": low, "q3": high, "metric": "kernel_time" if times else None, "unit": "us"}
            | {"row": Row(samples=times, metric="kernel_time", gpu="T4", kernel=kernel, **OF_ROW)}
            | {"gb_per_s": 1 / (middle or 1) if times else None, "n": 3 if times else None}
            | {"outcome": "bit_exact", "origin": "project", "older_code": False, "sm_mhz": 1000.0}
            | {"bytes_read": 500, "bytes_moved": 1000, "pass": "shapes", "problem": "p"}
            | {
                "file": "shapes.json",
                "gpu": "T4",
                "peak_gb_s": 1.0,
                "experiment": "made",
                "problem_batch": 2,
            }
            | more
        )
    return prepared(pd.DataFrame(made))


def table(data, **spec):
    return Table("made", {"name": "t", "title": "T", "rows": ["kernel"]} | spec, data, None)


BASE = ("base", (9.0, 10.0, 11.0), {})
FAST = ("fast", (4.0, 5.0, 6.0), {})


def test_a_speed_up_is_the_ratio_of_geometric_means_as_in_verdicts():
    """(9 x 10 x 11 / 4 / 5 / 6) ** (1 / 3) = 2.02, and not 10 / 5."""
    rows = records(BASE, FAST)
    t = table(rows, over={"kernel": "base"}, values=["ratio"], interval=True)
    ratio = log_ratio(*rows.row).ratio
    assert t(kernel="fast") == "2.02"
    assert f"| fast | 2.02 ({ratio.low:.2f}-{ratio.high:.2f}) |" in t.markdown()
    assert t("time_ratio", kernel="fast") == "0.49" and t("change", kernel="fast") == "-50.5%"


def test_counts_are_divided_by_their_medians():
    counts = {"metric": "sectors", "unit": ""}
    rows = records(("base", (9.0, 10.0, 11.0), counts), ("fast", (0.0, 0.0, 6.0), counts))
    t = table(rows, over={"kernel": "base"}, values=["change"], metric="sectors")
    assert t(kernel="fast") == "-100.0%"


def test_bandwidths_are_shares_of_the_copy_and_of_the_fastest_ceiling():
    rows = records(BASE, ("copy", (3, 4, 5), COPY), ("faster_copy", (1, 2, 3), COPY))
    t = table(rows, values=["of_copy", "of_ceiling"])
    assert t(kernel="base") == "40.0%" and t("of_ceiling", kernel="base") == "20.0%"


def test_rows_and_columns_keep_their_order_and_a_missing_cell_is_a_dash():
    rows = records(FAST, BASE, ("fast", (7.0, 8.0, 9.0), {"problem": "q", "problem_batch": 1}))
    t = table(rows, columns=["batch"])
    assert t.markdown().splitlines()[2:6] == [
        "| kernel | 2 | 1 |",
        "| --- | ---: | ---: |",
        "| fast | 5.000 | 8.000 |",
        "| base | 10.00 | - |",
    ]


def test_a_wrong_output_has_its_outcome_and_no_number():
    wrong = ("wrong", (1.0, 1.0, 1.0), {"outcome": "mismatch"})
    untimed = ("untimed", None, {"outcome": "launch_failed"})
    t = table(records(BASE, wrong, untimed), over={"kernel": "base"}, values=["median", "ratio"])
    assert "| wrong | mismatch | mismatch |" in t.markdown()
    assert "| untimed | launch failed | launch failed |" in t.markdown()
    assert "wrong,project,mismatch,,,,,3," in t.csv()


def test_deviations_are_marked_and_have_no_speed_up():
    rows = records(BASE, ("off", (1.0, 2.0, 3.0), {"outcome": "deviation_as_declared"}))
    t = table(rows, over={"kernel": "base"}, values=["median", "ratio"])
    assert "| off | 2.000* | - |" in t.markdown() and "* Its output deviates" in t.markdown()


@pytest.mark.parametrize(("mhz", "is_marked"), [(980.0, False), (979.0, True)])
def test_a_clock_more_than_two_percent_lower_is_marked(mhz, is_marked):
    text = table(records(BASE, ("slow", (4.0, 5.0, 6.0), {"sm_mhz": mhz}))).markdown()
    assert ("\N{DAGGER}" in text) == is_marked


def test_older_code_is_in_no_table_and_fills_no_slot():
    old = ("old", (1.0, 1.0, 1.0), {"older_code": True})
    t = table(records(BASE, old))
    assert "old" not in t.markdown() and "old" not in t.csv()
    assert t(kernel="old") == "not measured with this code"


def test_a_slot_shows_the_range_of_its_cells_and_names_one_that_is_not_there():
    t = table(records(BASE, FAST))
    assert t() == "5.000-10.00" and t(kernel=["fast"]) == "5.000"
    with pytest.raises(InputError, match=r"made.t\(kernel='gone'\)"):
        t(kernel="gone")
    with pytest.raises(InputError, match="'no_column'"):
        t(no_column=1)


def test_two_rows_for_one_cell_are_an_error():
    with pytest.raises(ValueError, match=r"reindex|unique|duplicate"):
        table(records(BASE, FAST), rows=["problem"], columns=["batch"]).markdown()
