"""The claims of Modular's post that the puzzle decides: each way that they can go."""

import made
import pytest

SCALAR, PACKED = "scalar_store", "packed_store"
VALUE = 8 / 4.25


def file(scalar_us, packed_us, iterations=1000):
    """Two rows that were timed as published; by graphs the gain is 3."""
    problem = made.puzzle_problem(iterations)
    records = []
    for kernel, us, graph_us in ((SCALAR, scalar_us, 300000.0), (PACKED, packed_us, 100000.0)):
        metrics = [made.metric("wall_time", [us] * 5), made.metric("kernel_time", [graph_us] * 5)]
        records.append(made.record(problem, kernel, metrics=metrics))
    return made.results("puzzle", "mlps", records)


def verdict(found):
    return made.decided(found)["packed-stores", ""]


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        (VALUE, "reproduced"),
        (VALUE * 0.9, "reproduced"),
        (VALUE * 0.899, "not_reproduced"),
        (VALUE * 2, "reproduced"),
        (1.0, "not_reproduced"),
    ],
)
def test_the_gain_as_published_decides(gain, expected):
    v = verdict(file(gain * 200000, 200000.0))
    assert v.verdict == expected
    assert v.ours == pytest.approx(gain)
    assert v.cell.value == VALUE
    assert [key for _, key in v.evidence] == [
        f"three MLPs, 1000 times/{kernel}" for kernel in (SCALAR, PACKED)
    ]


def test_the_reason_has_both_ways():
    assert verdict(file(400000.0, 200000.0)).reason == (
        "scalar_store: 0.400 s, packed_store: 0.200 s; without the host between launches 3.00 x"
    )


def test_without_a_graph_the_host_decides_alone():
    found = file(400000.0, 200000.0)
    missing = {"name": "kernel_time", "unit": "us", "missing": "cannot be captured"}
    found["records"][0]["metrics"][1] = missing
    v = verdict(found)
    assert v.verdict == "reproduced"
    assert v.reason == "scalar_store: 0.400 s, packed_store: 0.200 s"


def test_fewer_iterations_decide_nothing():
    v = verdict(file(400000.0, 200000.0, iterations=999))
    assert (v.verdict, v.ours) == ("not_testable", None)
    assert v.reason.startswith("decided on problems with iterations at least 1000; ")


@pytest.mark.parametrize("kernel", [SCALAR, PACKED])
def test_a_missing_or_failed_row_decides_nothing(kernel):
    found = file(400000.0, 200000.0)
    (row,) = made.rows_of(found, kernel)
    made.fail(row, "mismatch")
    assert verdict(found).verdict == "not_testable"
    found["records"].remove(row)
    assert verdict(found).verdict == "not_tested"
    assert verdict(found).reason == f"{kernel} did not run"


def test_the_other_claims_wait_for_what_they_name():
    decided = made.decided(file(400000.0, 200000.0))
    for claim, cell in (("threads-512", ""), ("puzzle-target", "T4"), ("mojo-1.07-1.84", "T4")):
        assert decided[claim, cell].verdict == "not_tested"
        assert decided[claim, cell].reason.startswith("needs the post's ")
