"""The claims that counters, launches, latencies and compiled code decide: each possible verdict."""

import made
import pytest
from counters_run import (  # noqa: F401, a fixture
    AS_ON_AN_H200,
    CANNOT,
    LUT,
    MAY_BE,
    NO,
    NOT_YET,
    PREMISE,
    READER,
    TREE,
    YES,
    put_run,
)

from experiments.counters.rules.occupancy import MULTIPROCESSORS


def test_counters_of_an_h200_decide_every_claim(run):
    assert run.every_word() == AS_ON_AN_H200


def test_without_a_launch_or_with_two_there_are_no_launch_facts(run):
    for row in run.rows("nf4_launches", LUT):
        row["launch"]["kernels"] *= 2
    assert run.words("smem-64-bytes") == [CANNOT] * 2
    for row in run.rows("nf4_launches", LUT):
        row["launch"] = None
    assert run.words("smem-64-bytes") == [NOT_YET] * 2


OF_CODE = {"instructions-71", "no-divergence", "compact-binary", "register-pressure"}
OF_COUNTERS = {"instructions-71", "lut-traffic-64", "no-divergence", "broadcast-no-conflicts"}
OF_COUNTERS |= {"immediates-icache", "more-ilp", "single-thread-fill"}


@pytest.mark.parametrize(
    ("pass_name", "kernel", "needed_by"),
    [
        ("nf4_counters", LUT, OF_COUNTERS),
        ("nf4_counters", READER, {"lut-traffic-64"}),
        ("nf4_launches", LUT, {"smem-64-bytes", "single-thread-fill"}),
        ("sass", TREE, OF_CODE),
    ],
)
def test_a_missing_or_failed_row_decides_nothing(run, pass_name, kernel, needed_by):
    rows = run.rows(pass_name, kernel)
    if pass_name != "sass":  # of which nothing ran, nor failed
        made.fail(rows[-1], "mismatch")
        assert all(CANNOT in run.words(claim) for claim in needed_by)
    for row in rows:
        run.files[pass_name]["records"].remove(row)
    words = run.every_word()
    lacking = {c for c in words if words[c].count(NOT_YET) > AS_ON_AN_H200[c].count(NOT_YET)}
    assert lacking == needed_by


@pytest.mark.parametrize(
    ("metric", "claims"),
    [
        ("stall_long_scoreboard", {"more-ilp", "memory-bound"}),
        ("icc_misses", set()),  # is shown, and decides nothing
        ("icc_requests", set()),
    ],
)
def test_a_counter_that_the_gpu_lacks(run, metric, claims):
    for row in run.files["nf4_counters"]["records"]:
        for counter in [m for m in row["metrics"] if m["name"] == metric]:
            del counter["samples"]
            counter["missing"] = "not on this chip"
    words = run.every_word()
    assert {c for c in words if words[c] != AS_ON_AN_H200[c]} == claims
    assert all(CANNOT in words[claim] for claim in claims)


def test_code_decides_for_its_own_gpu_alone(run):
    of_an_a100, here, *_ = run.verdicts("instructions-71", run.files["sass"])
    assert of_an_a100.verdict == YES
    assert here.verdict == NOT_YET and "nothing ran" in here.reason
    for file in run.files.values():
        if file["provenance"]["gpu"]:
            file["provenance"]["gpu"]["compute_capability"] = "8.6"
    of_an_a100, here, _, _, counted, *_ = run.verdicts("instructions-71")
    assert [of_an_a100.verdict, counted.verdict] == [YES, NO]
    assert here.verdict == NOT_YET and " branch_tree for sm_86" in here.reason
    assert "make triton" in run.verdicts("triton")[0].reason


def test_compiled_code_is_shown_beside_a_judgement(run):
    assert [v.ours for v in run.verdicts("triton")] == [16 / 2, 8]


def test_a_check_of_times_that_failed_leaves_counters_alone(run):
    """The instruments that disagree are clocks."""
    file = run.files["nf4_counters"]
    check = {"name": "clock", "keys": [r["key"] for r in file["records"]], "allowed_percent": 1.0}
    file["checks"] = [check | {"first": 2.0, "second": 1.0, "unit": "us"}]
    assert run.words("more-ilp") == [MAY_BE]


def test_the_sources_own_library_decides_where_it_ran(run):
    rows, name = run.files["nf4_counters"]["records"], "bitsandbytes_0.47.0"
    for row in made.rows_of(run.files["nf4_counters"], READER):
        rows.append(row | {"kernel": name, "key": row["key"].replace(READER, name)})
    (v,) = run.verdicts("lut-traffic-64")
    assert (v.verdict, v.ours) == (YES, pytest.approx(64))


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared_bytes", "blocks"),
    [
        ("sm_80", 64, 56, 2720, 18),  # registers
        ("sm_80", 64, 33, 0, 24),  # registers in units of 256
        ("sm_80", 64, 32, 1392, 32),  # blocks
        ("sm_80", 1024, 32, 0, 2),  # threads
        ("sm_80", 1024, 65, 0, 0),  # does not run
        ("sm_80", 96, 56, 0, 12),  # warps of three
        ("sm_80", 64, 16, 4096, 32),  # shared memory
        ("sm_80", 64, 16, 4225, 31),  # 128 bytes more
        ("sm_75", 512, 16, 64, 2),
        ("sm_75", 513, 16, 64, 1),  # a warp of one thread
        ("sm_75", 160, 80, 0, 4),  # registers of each quarter: 6 warps, not 25 of all together
        ("sm_75", 32, 16, 0, 16),
        ("sm_75", 32, 16, 4096, 16),
        ("sm_75", 32, 16, 4097, 15),  # 256 bytes more
    ],
)
def test_blocks_per_multiprocessor(arch, threads, registers, shared_bytes, blocks):
    """As cuda_occupancy.h has it."""
    assert MULTIPROCESSORS[arch].blocks_that_fit(threads, registers, shared_bytes) == blocks


@pytest.mark.parametrize(
    ("claim", "number", "text", "documented"),
    [
        ("constant-cache", "constant_cache_kb", 64, 8),
    ],
)
def test_documentation_decides_what_no_program_measures(write, claim, number, text, documented):
    for value, verdict in ((text, PREMISE), (documented, YES)):
        source = made.paper(write, lambda paper, kb=value: paper["tables"].update({number: kb}))
        (v,) = made.decisions(sources=[source])[claim].verdicts
        assert (v.verdict, v.ours, v.documented) == (verdict, None, documented)
