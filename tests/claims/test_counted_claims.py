"""The claims that counters, launches and compiled code decide: each way that they can go."""

import made
import pytest
from counted_run import (
    AS_ON_AN_H200,
    BASELINE,
    CLAIMS,
    CONSTANT,
    IMMEDIATES,
    INDEX,
    OTHER_FILL,
    PAPERS_GPU,
    READER,
    STALLS,
    SUBJECT,
    THIS_GPU,
)

YES, NO, MAY_BE, CANNOT = "reproduced", "not_reproduced", "undecided", "not_testable"
SECOND_LAYER = (1, 2)
SWIZZLE, TRANSPOSES, LAUNCHES = "tma_swizzle", "transpose_counters", "nf4_launches"
SHORTEST, PER_WEIGHT = "index_per_weight.least", "instructions_per_weight.least"


def count(kernel, pass_name="nf4_counters", only=None, **values):
    return lambda run: run.change(kernel, pass_name, only, **values)


def code(kernel, arch, fact, value):
    return lambda run: run.code(kernel, arch, fact, value)


def launch(kernel, **facts):
    return lambda run: run.launch(kernel, **facts)


# A claim's cell, its verdict, and what is changed of a run on an H200.
EDGES = [
    # At least 71 % fewer, less a tenth.
    ("instructions-71", 2, YES, count(SUBJECT, warp_instructions=2033 * (1 - 0.6391))),
    ("instructions-71", 2, NO, count(SUBJECT, warp_instructions=2033 * (1 - 0.6389))),
    ("instructions-71", 2, YES, count(SUBJECT, warp_instructions=10)),
    (
        *("instructions-71", 2, NO),
        count(SUBJECT, warp_instructions=10),
        count(SUBJECT, only=SECOND_LAYER, warp_instructions=1000),
    ),
    ("instructions-71", 1, YES, code(SUBJECT, "sm_90", SHORTEST, 5.36)),  # of 14.875
    ("instructions-71", 1, NO, code(SUBJECT, "sm_90", SHORTEST, 5.38)),
    ("instructions-71", 1, CANNOT, code(BASELINE, "sm_90", SHORTEST, 0)),
    # 3.5 times fewer, less a tenth; a compiler's output has no spread.
    ("seven-to-two", 1, YES, code(SUBJECT, "sm_90", SHORTEST, 14.875 / 3.151)),
    ("seven-to-two", 1, NO, code(SUBJECT, "sm_90", SHORTEST, 14.875 / 3.149)),
    ("compact-binary", 0, YES, code(SUBJECT, "sm_80", "code_bytes", 15423)),
    ("compact-binary", 0, NO, code(SUBJECT, "sm_80", "code_bytes", 15424)),
    ("compact-binary", 0, YES, code(SUBJECT, "sm_80", PER_WEIGHT, 34.2)),
    ("compact-binary", 0, NO, code(SUBJECT, "sm_80", PER_WEIGHT, 34.3)),
    # Only the fill may diverge, once a block.
    ("no-divergence", 0, YES, count(SUBJECT, divergent_targets=0)),
    ("no-divergence", 0, NO, count(SUBJECT, divergent_targets=1.01)),
    ("no-divergence", 0, NO, count(SUBJECT, only=SECOND_LAYER, divergent_targets=3)),
    ("no-divergence", 0, NO, count(SUBJECT, threads_per_instruction=19.6)),
    ("no-divergence", 0, NO, code(SUBJECT, "sm_90", "branches_may_diverge", 1)),
    ("no-divergence", 0, CANNOT, count(BASELINE, divergent_targets=0)),
    ("immediates-icache", 0, YES, code(BASELINE, "sm_80", "code_bytes", 6705)),
    ("immediates-icache", 0, NO, code(BASELINE, "sm_80", "code_bytes", 6703)),
    ("immediates-icache", 3, YES, code(IMMEDIATES, "sm_80", "code_bytes", 6705)),
    ("immediates-icache", 2, NO, count(BASELINE, stall_no_instruction=0.05)),
    ("immediates-icache", 2, NO, count(SUBJECT, stall_no_instruction=2.0)),
    ("immediates-icache", 2, NO, count(BASELINE, only=SECOND_LAYER, stall_no_instruction=0.03)),
    ("immediates-icache", 5, YES, count(IMMEDIATES, stall_no_instruction=1.0)),
    ("more-ilp", 0, YES, count(SUBJECT, stall_wait=2.25)),  # 2.5 in the baseline
    ("more-ilp", 0, NO, count(SUBJECT, stall_wait=2.26)),
    ("more-ilp", 0, NO, count(SUBJECT, only=SECOND_LAYER, stall_wait=2.4)),
    ("more-ilp", 0, CANNOT, count(BASELINE, stall_wait=0)),
    # What the baseline loads beyond 18 codes and scales, against 32 of a kernel with a table.
    ("lut-traffic-64", 0, "premise_false", count(BASELINE, global_loads=18.4)),
    ("lut-traffic-64", 0, YES, count(BASELINE, global_loads=18 + 80)),
    ("lut-traffic-64", 0, YES, count(BASELINE, global_loads=18 + 32 * 0.9 / 0.979)),
    ("lut-traffic-64", 0, MAY_BE, count(BASELINE, global_loads=18 + 32 * 0.9 / 0.981)),
    ("lut-traffic-64", 0, NO, count(BASELINE, global_loads=18 + 32 * 0.9 / 1.021)),
    ("lut-traffic-64", 0, CANNOT, count(SUBJECT, blocks_launched=0)),
    ("smem-64-bytes", 0, NO, launch(SUBJECT, dynamic_shared_bytes=4)),
    ("smem-64-bytes", 0, NO, launch(SUBJECT, static_shared_bytes=2656)),
    ("smem-64-bytes", 0, YES, launch(SUBJECT, static_shared_bytes=2656, dynamic_shared_bytes=64)),
    # The memory busier than the schedulers and 60 % busy, or most warps wait for it.
    ("memory-bound", 0, YES, count(BASELINE, dram_utilisation=60, issue_utilisation=59.9)),
    ("memory-bound", 0, NO, count(BASELINE, dram_utilisation=59.9, issue_utilisation=20)),
    ("memory-bound", 0, NO, count(BASELINE, dram_utilisation=60, issue_utilisation=60)),
    ("memory-bound", 0, YES, count(BASELINE, stall_long_scoreboard=2.51)),
    ("memory-bound", 0, NO, count(BASELINE, stall_long_scoreboard=2.5)),
    ("memory-bound", 0, CANNOT, count(BASELINE, **{f"stall_{name}": 0 for name in STALLS})),
    # By arithmetic: 432 schedulers at 1.41 GHz against 2039 GB/s.
    ("memory-bound", 1, YES, count(BASELINE, warp_instructions=783.5)),
    ("memory-bound", 1, NO, count(BASELINE, warp_instructions=783.9)),
    # 50 loads and 62.9 rounds are the baseline's too.
    ("broadcast-no-conflicts", 0, YES, count(SUBJECT, shared_load_wavefronts=62.9 + 32 * 1.09)),
    ("broadcast-no-conflicts", 0, NO, count(SUBJECT, shared_load_wavefronts=62.9 + 32 * 1.11)),
    ("broadcast-no-conflicts", 0, CANNOT, count(SUBJECT, shared_loads=50)),
    ("swizzle-conflicts", 0, YES, count(SWIZZLE, TRANSPOSES, shared_store_wavefronts=1.1e6)),
    ("swizzle-conflicts", 0, NO, count(SWIZZLE, TRANSPOSES, shared_store_wavefronts=1.11e6)),
    ("swizzle-conflicts", 0, CANNOT, count(SWIZZLE, TRANSPOSES, shared_store_wavefronts=0)),
    ("constant-broadcast", 0, NO, count(CONSTANT, "divergence_counters", idc_replays=1)),
    ("constant-broadcast", 0, CANNOT, count(CONSTANT, idc_replays=0)),
    # As slow as the other fill, 2.3 % more allowed.
    ("single-thread-fill", 0, YES, count(SUBJECT, LAUNCHES, kernel_time=247.3 * 1.0229)),
    ("single-thread-fill", 0, NO, count(SUBJECT, LAUNCHES, kernel_time=247.3 * 1.0231)),
    ("single-thread-fill", 0, YES, count(SUBJECT, LAUNCHES, kernel_time=247.3 * 0.97)),
    # Two or three blocks, where shared memory leaves room for no more.
    ("occupancy-2-3", 0, NO, code(SUBJECT, "sm_80", "registers", 255)),
    ("occupancy-2-3", 0, CANNOT, code(SUBJECT, "sm_80", "registers", 0)),
    ("occupancy-2-3", 0, YES, code(SUBJECT, "sm_80", "static_shared_bytes", 80 << 10)),
    ("occupancy-2-3", 0, YES, code(SUBJECT, "sm_80", "static_shared_bytes", 50 << 10)),
    ("occupancy-2-3", 0, NO, code(SUBJECT, "sm_80", "static_shared_bytes", 39 << 10)),
    ("occupancy-2-3", 0, NO, code(SUBJECT, "sm_80", "static_shared_bytes", 82 << 10)),
]


@pytest.mark.parametrize(
    ("claim", "cell", "verdict", "changes"),
    [(claim, cell, verdict, changes) for claim, cell, verdict, *changes in EDGES],
)
def test_where_a_verdict_turns(run, claim, cell, verdict, changes):
    for change in changes:
        change(run)
    assert run.words(claim)[cell] == verdict


def test_what_an_h200_counts_decides_every_claim(run):
    assert run.every_word() == AS_ON_AN_H200


def test_without_a_launch_or_with_two_there_are_no_launch_facts(run):
    for row in run.rows("nf4_launches", SUBJECT):
        row["launch"]["kernels"] *= 2
    assert run.words("smem-64-bytes") == ["not_testable"]
    for row in run.rows("nf4_launches", SUBJECT):
        row["launch"] = None
    assert run.words("smem-64-bytes") == ["not_tested"]


OF_CODE = {"instructions-71", "no-divergence", "immediates-icache", "seven-to-two"}
OF_CODE |= {"compact-binary"}
NEEDED = {
    ("nf4_counters", SUBJECT): {"instructions-71", "lut-traffic-64", "no-divergence"}
    | {"broadcast-no-conflicts", "immediates-icache", "more-ilp", "single-thread-fill"},
    ("nf4_counters", READER): {"lut-traffic-64"},
    ("nf4_counters", OTHER_FILL): {"single-thread-fill"},
    ("nf4_launches", SUBJECT): {"smem-64-bytes", "single-thread-fill"},
    ("sass", BASELINE): OF_CODE,
}


@pytest.mark.parametrize("place", NEEDED, ids="/".join)
def test_a_missing_or_failed_row_decides_nothing(run, place):
    rows = run.rows(*place)
    if place[0] != "sass":  # of which nothing ran, nor failed
        made.fail(rows[-1], "mismatch")
        rows[-1]["launch"] = None
        assert all("not_testable" in run.every_word()[claim] for claim in NEEDED[place])
    for row in rows:
        run.files[place[0]]["records"].remove(row)
    words = run.every_word()
    assert {c for c in CLAIMS if "not_tested" in words[c]} == NEEDED[place]


@pytest.mark.parametrize(
    ("metric", "claims"),
    [
        ("stall_long_scoreboard", {"more-ilp", "memory-bound"}),
        ("icc_misses", set()),  # is shown, and decides nothing
    ],
)
def test_a_counter_that_the_gpu_lacks(run, metric, claims):
    for row in run.files["nf4_counters"]["records"]:
        for found in [m for m in row["metrics"] if m["name"] == metric]:
            del found["samples"]
            found["missing"] = "not on this chip"
    words = run.every_word()
    assert {c for c in CLAIMS if words[c] != AS_ON_AN_H200[c]} == claims
    assert all("not_testable" in words[claim] for claim in claims)


def test_code_decides_for_its_own_gpu_alone(run):
    found = made.decided(run.files["sass"])
    assert found["instructions-71", PAPERS_GPU, INDEX].verdict == "reproduced"
    here = found["instructions-71", THIS_GPU, INDEX]
    assert (here.verdict, here.reason) == ("not_tested", "nothing ran on a GPU")
    for file in run.files.values():
        if file["provenance"]["gpu"]:
            file["provenance"]["gpu"]["compute_capability"] = "8.6"
    found = run.decided("instructions-71")
    assert [v.verdict for v in found] == ["reproduced", "not_tested", "not_reproduced"]
    assert found[1].reason == "sass.json has no branch_tree for sm_86"


def test_a_claim_that_holds_in_one_reading_is_right(run):
    """The section is about the tree's literals; those of the fill press on nothing."""
    assert run.whole("immediates-icache") == run.whole("instructions-71") == "reproduced"
    run.change(BASELINE, stall_no_instruction=0.03)
    assert run.whole("immediates-icache") == "not_reproduced"
    assert run.whole("occupancy-2-3") == "not_reproduced"
    run.code("shared_lut_tile512", "sm_80", "static_shared_bytes", 50 << 10)
    assert run.words("occupancy-2-3") == ["not_reproduced", "reproduced"]
    assert run.whole("occupancy-2-3") == "reproduced"


def test_a_check_of_times_that_failed_leaves_counters_alone(run):
    """The instruments that disagreed are clocks."""
    file = run.files["nf4_counters"]
    check = {"name": "clock", "keys": [r["key"] for r in file["records"]], "allowed_percent": 1.0}
    file["checks"] = [check | {"first": 2.0, "second": 1.0, "unit": "us"}]
    assert run.words("more-ilp") == ["reproduced"]


def test_the_sources_own_library_decides_where_it_ran(run):
    rows, name = run.files["nf4_counters"]["records"], "bitsandbytes_0.47.0"
    for row in made.rows_of(run.files["nf4_counters"], READER):
        rows.append(row | {"kernel": name, "key": row["key"].replace(READER, name)})
    (found,) = run.decided("lut-traffic-64")
    assert (found.verdict, found.ours) == ("reproduced", pytest.approx(64))
