"""A row that is faster than its ceiling says so in every table that shows its speed."""

import copy

import ceilings_fixtures
import fixtures
import ladder_fixtures
import made
import numpy as np
import puzzle_fixtures
import pytest
import streaming_fixtures
import transpose_fixtures
from looking import rendered

from plots.bandwidth import PASSED_NOTE, measure

MODELS = ("qwen3-32b",)
# By experiment: its files, the kernel that is made faster, and the tables that then say so. The
# sweep's own forms are ceilings to be: what they gain is a column there.
RUNS = {
    "ceilings": ([ceilings_fixtures.sweep()], "copy_128x1_plain_plain", set()),
    "ladder": ([*ladder_fixtures.whole_run().values()], "streaming", {"ladder", "sizes"}),
    "puzzle": ([puzzle_fixtures.mlps()], "shared_lut", {"puzzle"}),
    "streaming": (
        [*streaming_fixtures.whole_run().values()],
        "streaming",
        {"formats", "layers", "layers_nested", "places"},
    ),
    "table2": (
        [fixtures.replay(models=MODELS), fixtures.shapes(n=5, models=MODELS)],
        "streaming",
        {"shapes", "shapes_summary"},
    ),
    "transpose": (
        [transpose_fixtures.matrix(), transpose_fixtures.sizes(chosen=(256, 1024, 8191))],
        "column_walk",
        {"matrix", "sizes", "sizes_summary"},
    ),
}


def set_share(file, kernel, share, apart=0.0):
    """Gives the kernel this share of every fastest ceiling, in samples that lie `apart`."""
    rows = []
    for p in made.read(file).problems():
        for m in measure(made.read(file), p["name"]):
            if m.record.kernel == kernel and m.ceiling and m.record.ranked:
                us = m.record.bytes_moved / m.ceiling.speed.value / share / 1e3
                row = made.find(file, m.record.key)
                (time,) = (found for found in row["metrics"] if found["name"] == "kernel_time")
                off = np.linspace(-apart, apart, m.record.times.n)
                time["samples"] = [us * (1 + x) for x in off]
                rows.append(row)
    return rows


@pytest.mark.parametrize("name", RUNS)
def test_every_table_with_its_speed_says_so_once(write, name):
    files, kernel, expected = copy.deepcopy(RUNS[name])
    for file in files:
        set_share(file, kernel, 0.99)
    before = rendered(name, write("run", *files))
    assert not any(PASSED_NOTE in text for text in before.values())
    for file in files:
        set_share(file, kernel, 1.1)
    found = rendered(name, write("run", *files))
    for kind in ("md", "txt"):
        said = {t for t in found if t.endswith(kind) and "Passes its ceiling" in found[t]}
        assert said == {f"{table}.{kind}" for table in expected}
    for table in expected:
        assert found[f"{table}.md"].count(PASSED_NOTE) == 1


@pytest.mark.parametrize(
    ("share", "apart", "changes", "passes"),
    [
        (1.1, 0.0, {}, True),
        (1.1, 0.2, {}, False),  # the intervals overlap
        (0.9, 0.0, {}, False),
        (1.1, 0.0, {"outcome": "deviation_as_declared", "deviation": "wrong scale"}, False),
        (1.1, 0.0, {"outcome": "mismatch", "metrics": []}, False),
    ],
)
def test_beyond_both_intervals_and_with_a_right_output(sizes, share, apart, changes, passes):
    for row in set_share(sizes, "column_walk", share, apart):
        row.update(copy.deepcopy(changes))
    rows = {m.record.kernel: m for m in measure(made.read(sizes), "4096x4096")}
    assert rows["column_walk"].passes_ceiling is passes
    assert (PASSED_NOTE in rows["column_walk"].marks) is passes
