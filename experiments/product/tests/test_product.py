"""What the tables of experiment product derive: floors, the fastest of ours, and generate()."""

import pandas as pd
import pytest

from experiments.product import derived
from plots.machine import machines
from reprolab.json_files import ROOT
from reprolab.results import Row

H100 = ROOT / "data/recorded/h100/product"


def row(kernel, us, batch=1, **more):
    """A product with a 1000 x 1000 layer, whose codes and scales are 562,500 bytes."""
    facts = {"pass": "layers", "problem": f"{batch}x", "layer": "1000x1000", "rows": 1000}
    facts |= {"columns": 1000, "batch": batch, "bias": False, "kernel": kernel, "median": us}
    facts |= {"low": us * 0.99, "high": us * 1.01, "origin": "project", "outcome": "within_bound"}
    facts |= {"bytes_read": 562_500 + 2_000 * batch, "metric": "kernel_time", "ranked": True}
    us = Row(**facts | {"problem": {"family": "f"}}, samples=(us, us), unit="us", gpu="a")
    return facts | {"gb_per_s": None, "older_code": False, "row": us} | more


def read_only(gb_per_s):
    return row("read_only", 1.0, origin="ceiling", ranked=False, gb_per_s=gb_per_s)


def test_the_floor_is_the_longer_of_reading_and_multiplying():
    rows = [read_only(1000.0), row("few_rows", 1.0), row("few_rows", 4.0, 1000)]
    made = derived.floors(pd.DataFrame(rows), None).set_index(["kernel", "batch"])
    few, many = (made.loc[("few_rows", batch)] for batch in (1, 1000))
    assert few.floor_us == pytest.approx(0.5625) and few.of_floor == pytest.approx(0.5625)
    # 2e9 operations in 4 us are the highest rate, which one row would take 0.004 us at.
    assert many.floor_us == pytest.approx(4.0) and few.multiplying_us == pytest.approx(0.004)


def test_the_fastest_of_ours_is_compared_with_a_librarys_gemm_where_it_has_one():
    rows = [read_only(1000.0), row("few_rows", 2.0), row("many_rows", 3.0), row("simple", 1.0)]
    peer = {"origin": "peer"}
    rows += [row("lib_gemv", 4.0, **peer), row("lib_gemm", 5.0, **peer)]
    rows += [row("streaming_then_cublas", 8.0), row("shared_lut_then_cublas", 7.0)]
    best = derived.ours(pd.DataFrame(rows), None).set_index("group")
    assert best.loc["ours"].kernel == "few_rows" and best.loc["lib"].kernel == "lib_gemm"
    assert best.over[["lib", "dequantizing"]].tolist() == pytest.approx([2.5, 3.5])


def test_another_kernel_takes_over_where_it_stays_faster():
    times = {1: (1.0, 2.0), 2: (1.0, 0.5), 4: (1.0, 2.0), 8: (1.0, 0.5), 16: (1.0, 0.4)}
    rows = [read_only(1000.0)]
    for batch, (ours, other) in times.items():
        rows += [row("few_rows", ours, batch), row("cublas_16bit", other, batch, origin="peer")]
    made = derived.crossover(pd.DataFrame(rows), None)
    assert made.to_dict("records") == [
        {"layer": "1000x1000", "other": "cublas_16bit", "from_rows": "8"}
    ]
    for one in rows[1::2][2:]:  # ours from 4 rows on is of older code
        one["older_code"] = True
    (few,) = derived.crossover(pd.DataFrame(rows), None).to_dict("records")
    assert few["from_rows"] == "2"
    rows[3]["older_code"] = True
    (few,) = derived.crossover(pd.DataFrame(rows), None).to_dict("records")
    assert few["from_rows"] == "not up to 1"


def test_generations_are_a_table():
    machine = machines([H100])[0]
    table = machine.product["generation"]
    speeds = [
        table(cache="dynamic", sequences=1, backend=name) for name in ("planned", "bitsandbytes")
    ]
    gain = table("gain", cache="dynamic", sequences=1, backend="planned")
    assert float(gain) == pytest.approx(float(speeds[0]) / float(speeds[1]), abs=0.01)
    assert set(machine.product["steps"].data.sequences) == {1, 4, 16}
