"""The claims on instructions, branches and code: each way that counters can decide them."""

import pytest
from counted_run import BASELINE, IMMEDIATES, SUBJECT


def test_instructions_are_those_executed_and_those_of_the_index_computation(run):
    papers, here, layers = run.decided("instructions-71")
    assert layers.ours == pytest.approx(100 * (1 - 840 / 2033))
    assert papers.ours == here.ours == pytest.approx(100 * (1 - 1.5 / 14.875))
    assert len(layers.evidence) == 8
    assert [key for _, key in papers.evidence] == ["sm_80/branch_tree", "sm_80/shared_lut"]
    assert [key for _, key in here.evidence] == ["sm_90/branch_tree", "sm_90/shared_lut"]
    assert papers.reason == (
        "89.9 % fewer; index computation per weight: 14.9 instructions on the shortest way through "
        "branch_tree, 37.9 on all of its ways together, 1.50 in shared_lut"
    )


@pytest.mark.parametrize(
    ("executed", "verdict"),
    [(1000 - 639.1, "reproduced"), (1000 - 638.9, "not_reproduced"), (10, "reproduced")],
)
def test_at_least_71_percent_fewer_less_a_tenth(run, executed, verdict):
    run.change(BASELINE, warp_instructions=1000)
    run.change(SUBJECT, warp_instructions=executed)
    assert run.words("instructions-71")[2] == verdict


def test_every_layer_must_hold(run):
    run.change(SUBJECT, warp_instructions=2033 * 0.29)
    assert run.words("instructions-71")[2] == "reproduced"
    run.change(SUBJECT, only=(2, 3), warp_instructions=2033 * 0.5)
    found = run.decided("instructions-71")[2]
    assert found.verdict == "not_reproduced"
    assert found.interval == pytest.approx((50, 71))


@pytest.mark.parametrize(("index", "verdict"), [(5.36, "reproduced"), (5.38, "not_reproduced")])
def test_the_index_computation_on_each_architecture(run, index, verdict):
    run.code(SUBJECT, "sm_90", "index_per_weight.least", index)  # of 14.875
    assert run.words("instructions-71") == ["reproduced", verdict, "not_reproduced"]


def test_divergence_is_eliminated_but_for_the_fill(run):
    (found,) = run.decided("no-divergence")
    assert found.ours == pytest.approx(100 * (1 - 1 / 96))
    assert found.reason == (
        "branches in the loop that may diverge: 48 and 0; divergent branches that warps took, "
        "per layer: 10.8 to 22.0 M and 0.113 to 0.229 M, which are 1.00 a block, where one thread "
        "fills the table; threads per instruction, of 32: 19.6 and 31.4"
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run.change(SUBJECT, divergent_targets=1.01),
        lambda run: run.change(SUBJECT, only=(1, 2), divergent_targets=3),
        lambda run: run.change(SUBJECT, threads_per_instruction=19.6),
        lambda run: run.code(SUBJECT, "sm_90", "branches_may_diverge", 1),
    ],
)
def test_any_other_divergence_is_not_eliminated(run, spoil):
    spoil(run)
    assert run.words("no-divergence") == ["not_reproduced"]


@pytest.mark.parametrize(("kernel", "cell"), [(BASELINE, 0), (IMMEDIATES, 3)])
@pytest.mark.parametrize(("size", "verdict"), [(6705, "reproduced"), (6703, "not_reproduced")])
def test_the_size_of_the_code(run, kernel, cell, size, verdict):
    before = run.words("immediates-icache")[cell + 1]
    run.code(kernel, "sm_80", "code_bytes", size)
    papers, here = run.decided("immediates-icache")[cell : cell + 2]
    assert (papers.verdict, here.verdict) == (verdict, before)
    assert papers.ours == pytest.approx(size / 6704)


@pytest.mark.parametrize(("kernel", "cell"), [(BASELINE, 2), (IMMEDIATES, 5)])
@pytest.mark.parametrize(
    ("with_literals", "with_table", "verdict"),
    [(1.0, 0.03, "reproduced"), (1.0, 2.0, "not_reproduced"), (0.05, 0.03, "not_reproduced")],
)
def test_pressure_is_what_warps_wait_for(run, kernel, cell, with_literals, with_table, verdict):
    run.change(kernel, stall_no_instruction=with_literals)
    run.change(SUBJECT, stall_no_instruction=with_table)
    assert run.words("immediates-icache")[cell] == verdict


def test_what_the_trees_literals_cost_an_h200(run):
    papers, _, layers = run.decided("immediates-icache")[:3]
    assert papers.reason == "15424 bytes of code in branch_tree, 6704 in shared_lut"
    assert layers.why == "waits for code 15 % against 0.33 %"


@pytest.mark.parametrize(
    ("index", "verdict"),
    [(1.5, "reproduced"), (14.875 / 3.151, "reproduced"), (14.875 / 3.149, "not_reproduced")],
)
def test_seven_to_two_is_of_counts_that_no_run_changes(run, index, verdict):
    """3.5 times fewer, less a tenth; a compiler's output has no spread."""
    run.code(SUBJECT, "sm_90", "index_per_weight.least", index)
    papers, here = run.decided("seven-to-two")
    assert (papers.verdict, here.verdict) == ("reproduced", verdict)
    assert (here.ours, here.cell.value) == (pytest.approx(14.875 / index), 3.5)
    assert papers.why == "14.9 to 1.50 instructions per weight, where it says 7 to 2"


@pytest.mark.parametrize(
    ("fact", "value", "verdict"),
    [
        ("code_bytes", 15423, "reproduced"),
        ("code_bytes", 15424, "not_reproduced"),
        ("instructions_per_weight.least", 34.2, "reproduced"),
        ("instructions_per_weight.least", 34.3, "not_reproduced"),
    ],
)
def test_a_more_compact_binary_has_less_code_and_fewer_instructions(run, fact, value, verdict):
    run.code(SUBJECT, "sm_80", fact, value)
    papers, here = run.decided("compact-binary")
    assert (papers.verdict, here.verdict) == (verdict, "reproduced")
    if verdict == "reproduced" and fact == "code_bytes":
        assert papers.reason.startswith("15424 bytes of code become 15423, and 34.3 instructions")


@pytest.mark.parametrize(("wait", "verdict"), [(2.25, "reproduced"), (2.26, "not_reproduced")])
def test_a_tenth_less_to_wait_out(run, wait, verdict):
    run.change(SUBJECT, stall_wait=wait)  # 2.5 in the baseline
    (found,) = run.decided("more-ilp")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(wait / 2.5))
    assert found.reason.endswith("so that a scheduler has 3.80 and 2.80 warps to choose from")
