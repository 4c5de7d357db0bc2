"""What holds for all claims that counters, launches and compiled code decide."""

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
    SUBJECT,
    THIS_GPU,
)


def test_what_an_h200_counts_decides_every_claim(run):
    assert {claim: run.words(claim) for claim in CLAIMS} == AS_ON_AN_H200


def test_without_a_launch_there_are_no_launch_facts(run):
    for row in run.rows("nf4_launches", SUBJECT):
        row["launch"] = None
    assert run.words("smem-64-bytes") == ["not_tested"]


def test_two_launches_have_no_one_size(run):
    for row in run.rows("nf4_launches", SUBJECT):
        row["launch"]["kernels"] *= 2
    assert run.words("smem-64-bytes") == ["not_testable"]


OF_CODE = {"instructions-71", "no-divergence", "immediates-icache", "seven-to-two"}
OF_CODE |= {"compact-binary"}
NEEDED = {
    ("nf4_counters", SUBJECT): {"instructions-71", "lut-traffic-64", "no-divergence"}
    | {"broadcast-no-conflicts", "immediates-icache", "more-ilp", "single-thread-fill"},
    ("nf4_counters", BASELINE): {"instructions-71", "no-divergence", "more-ilp", "memory-bound"}
    | {"broadcast-no-conflicts", "immediates-icache", "lut-traffic-64"},
    ("nf4_counters", READER): {"lut-traffic-64"},
    ("nf4_counters", OTHER_FILL): {"single-thread-fill"},
    ("nf4_counters", IMMEDIATES): {"immediates-icache"},
    ("nf4_counters", CONSTANT): {"constant-broadcast"},
    ("nf4_launches", SUBJECT): {"smem-64-bytes", "single-thread-fill"},
    ("divergence_counters", CONSTANT): {"constant-broadcast"},
    ("transpose_counters", "tma_naive"): {"swizzle-conflicts"},
    ("sass", SUBJECT): OF_CODE | {"occupancy-2-3"},
    ("sass", BASELINE): OF_CODE,
    ("sass", IMMEDIATES): {"immediates-icache"},
}


@pytest.mark.parametrize("place", NEEDED, ids="/".join)
def test_a_missing_or_failed_row_decides_nothing(run, place):
    rows = run.rows(*place)
    if place[0] != "sass":  # of which nothing ran, nor failed
        made.fail(rows[-1], "mismatch")
        rows[-1]["launch"] = None
        assert all("not_testable" in run.words(claim) for claim in NEEDED[place])
    for row in rows:
        run.files[place[0]]["records"].remove(row)
    if run.files[place[0]]["records"]:
        assert {c for c in CLAIMS if "not_tested" in run.words(c)} == NEEDED[place]


NOTHING = [
    ("blocks_launched", SUBJECT, {"lut-traffic-64", "no-divergence"}),
    ("divergent_targets", BASELINE, {"no-divergence"}),
    ("stall_wait", BASELINE, {"more-ilp"}),
    ("warp_instructions", BASELINE, {"instructions-71", "memory-bound"}),
    ("warp_instructions", SUBJECT, {"instructions-71", "single-thread-fill"}),
    ("stall_wait", SUBJECT, {"more-ilp"}),
    ("global_loads", BASELINE, {"lut-traffic-64"}),
    ("idc_replays", CONSTANT, {"constant-broadcast"}),
]


@pytest.mark.parametrize(("metric", "kernel", "claims"), NOTHING)
def test_what_counts_nothing_divides_nothing(run, metric, kernel, claims):
    run.change(kernel, **{metric: 0})
    assert all("not_testable" in run.words(claim) for claim in claims)


@pytest.mark.parametrize("kernel", [BASELINE, SUBJECT])
def test_code_without_an_index_computation_is_no_code(run, kernel):
    run.code(kernel, "sm_90", "index_per_weight.least", 0)
    assert run.words("instructions-71") == ["reproduced", "not_testable", "not_reproduced"]
    assert run.words("seven-to-two") == ["reproduced", "not_testable"]


def test_no_rounds_are_no_sign_of_a_swizzle(run):
    run.change("tma_swizzle", "transpose_counters", shared_store_wavefronts=0)
    assert run.words("swizzle-conflicts") == ["not_testable"]


def test_a_kernel_that_never_diverges_is_without_divergence(run):
    run.change(SUBJECT, divergent_targets=0)
    (found,) = run.decided("no-divergence")
    assert (found.verdict, found.ours) == ("reproduced", 100)


def test_code_that_takes_no_registers_is_no_code(run):
    run.code(SUBJECT, "sm_80", "registers", 0)
    assert run.words("occupancy-2-3")[0] == "not_testable"


@pytest.mark.parametrize(
    ("metric", "claims"),
    [
        ("stall_wait", {"more-ilp"}),
        ("stall_short_scoreboard", {"more-ilp"}),
        ("stall_long_scoreboard", {"more-ilp", "memory-bound"}),
        ("stall_no_instruction", {"immediates-icache"}),
        ("stall_barrier", {"single-thread-fill"}),
        ("icc_misses", set()),  # is shown, and decides nothing
    ],
)
def test_a_counter_that_the_gpu_lacks(run, metric, claims):
    for row in run.files["nf4_counters"]["records"]:
        row["metrics"] = [
            {"name": m["name"], "unit": m["unit"], "missing": "not on this chip"}
            if m["name"] == metric
            else m
            for m in row["metrics"]
        ]
    changed = {c for c in CLAIMS if run.words(c) != AS_ON_AN_H200[c]}
    assert changed == claims
    assert all("not_testable" in run.words(claim) for claim in claims)


def test_other_output_types_decide_nothing(run):
    for row in run.files["nf4_counters"]["records"]:
        row["problem"]["output"] = "bf16"
    found = run.decided("memory-bound")[0]
    assert found.verdict == "not_testable"
    assert found.reason.startswith("decided on problems with output fp16 and block_size 64 and ")


def test_code_alone_decides_for_the_papers_gpu_and_for_no_other(run):
    found = made.decided(run.files["sass"])
    assert found["instructions-71", PAPERS_GPU, INDEX].verdict == "reproduced"
    here = found["instructions-71", THIS_GPU, INDEX]
    assert (here.verdict, here.reason) == ("not_tested", "nothing ran on a GPU")


def test_code_for_another_gpu_does_not_decide_for_this_one(run):
    for file in run.files.values():
        if file["provenance"]["gpu"]:
            file["provenance"]["gpu"]["compute_capability"] = "8.6"
    found = run.decided("instructions-71")
    assert [v.verdict for v in found] == ["reproduced", "not_tested", "not_reproduced"]
    assert found[1].reason == "sass.json has no branch_tree for sm_86"


@pytest.mark.parametrize(
    ("claim", "kernel", "pass_name", "metric", "value"),
    [
        ("broadcast-no-conflicts", SUBJECT, "nf4_counters", "shared_load_wavefronts", 200.0),
        ("more-ilp", SUBJECT, "nf4_counters", "stall_wait", 2.4),
        ("no-divergence", SUBJECT, "nf4_counters", "divergent_targets", 2),
    ],
)
def test_one_layer_that_does_not_hold_is_enough(run, claim, kernel, pass_name, metric, value):
    assert run.words(claim) == ["reproduced"]
    run.change(kernel, pass_name, only=(1, 2), **{metric: value})
    assert run.words(claim) == ["not_reproduced"]


@pytest.mark.parametrize(("kernel", "cell"), [(BASELINE, 2), (IMMEDIATES, 5)])
def test_one_layer_without_pressure_is_enough(run, kernel, cell):
    run.change(kernel, stall_no_instruction=1.0)
    assert run.words("immediates-icache")[cell] == "reproduced"
    run.change(kernel, only=(1, 2), stall_no_instruction=0.03)
    assert run.words("immediates-icache")[cell] == "not_reproduced"


def test_a_claim_that_holds_in_one_reading_is_right(run):
    """The section is about the tree's literals; those of the fill press on nothing."""
    assert run.whole("immediates-icache") == run.whole("instructions-71") == "reproduced"
    run.change(BASELINE, stall_no_instruction=0.03)
    assert run.whole("immediates-icache") == "not_reproduced"
    run.code(SUBJECT, "sm_80", "index_per_weight.least", 14)
    assert run.whole("instructions-71") == "not_reproduced"


def test_a_check_of_times_that_failed_leaves_counters_alone(run):
    """The instruments that disagreed are clocks."""
    file = run.files["nf4_counters"]
    check = {"name": "clock", "keys": [r["key"] for r in file["records"]], "allowed_percent": 1.0}
    file["checks"] = [check | {"first": 2.0, "second": 1.0, "unit": "us"}]
    assert run.words("more-ilp") == ["reproduced"]
