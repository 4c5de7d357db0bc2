"""How partial results are joined."""

import made

from experiments.end_to_end import partial_results, plan
from experiments.end_to_end.plan import Cell
from records.results import SCHEMA


def test_the_command_of_several_partial_results_measures_all_of_them():
    words = ["python", "-m", "e", "timing", "--peer", "a.so", "--output", "t.json", "--gpus", "2,3"]
    one, other = ([*words, "--model", name] for name in ("a", "b"))
    assert partial_results.command_of([one, one]) == one
    assert partial_results.command_of([one, other]) == words
    assert partial_results.command_of([[*words, "--batches", "2"], words]) == words


def test_joined_clocks_hold_every_range():
    """Each process has a median of its own; of all together none is known."""
    one, two = ({"min": 1, "median": 2, "max": 3}, {"min": 0, "median": 5, "max": 9})
    names = ("sm_mhz", "memory_mhz", "power_w", "temperature_c")
    clocks = [dict.fromkeys(names, r) | {"policy": "observed"} for r in (one, two)]
    clocks[0] |= {"throttle_reasons": None, "power_w": None}
    clocks[1] |= {"throttle_reasons": ["sw_power_cap"], "power_w": None}
    found = partial_results.join_clocks(clocks)
    assert found["sm_mhz"] == {"min": 0, "max": 9}
    assert (found["power_w"], found["throttle_reasons"]) == (None, ["sw_power_cap"])
    assert partial_results.join_clocks(clocks[:1]) == clocks[0]
    clocks[1]["memory_mhz"] = None
    assert partial_results.join_clocks(clocks)["memory_mhz"] == {"min": 1, "max": 3}


def test_joined_parts_name_every_gpu_that_they_ran_on():
    rows = [made.record(made.generated("qwen3-32b", batch), "streaming") for batch in (2, 4)]
    parts = [made.results("end_to_end", "timing", [row]) for row in rows]
    assert "unit" not in partial_results.join(parts)["provenance"]["gpu"]
    for part, unit in zip(parts, ("a" * 16, "b" * 16), strict=True):
        part["provenance"]["gpu"]["unit"] = unit
    joined = partial_results.join(parts)
    assert joined["provenance"]["gpu"]["unit"] == f"{'a' * 16} {'b' * 16}"
    SCHEMA.check("timing.json", joined)


def test_two_checkpoints_of_one_name_have_files_of_their_own(tmp_path):
    folders = [tmp_path / name / "qwen3-32b" for name in "ab"]
    for folder in folders:
        folder.mkdir(parents=True)
    cells = [Cell("timing", str(x), 2) for x in folders] + [Cell("timing", "qwen3-32b", 2)]
    assert len({partial_results.file_of(tmp_path / "x.json", cell, "run") for cell in cells}) == 3
    assert [plan.plain(c.model) for c in cells] == ["qwen3-32b-checkpoint"] * 2 + ["qwen3-32b"]
