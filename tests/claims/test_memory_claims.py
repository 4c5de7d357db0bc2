"""The claims on tables, traffic and shared memory: each way that counters can decide them."""

import made
import pytest
from counted_run import BASELINE, CONSTANT, READER, STALLS, SUBJECT


def test_a_baseline_without_table_has_no_traffic_to_reduce(run):
    (found,) = run.decided("lut-traffic-64")
    assert found.ours is None
    assert found.reason == (
        "branch_tree reads no table: global loads a block: branch_tree 18.0, shared_lut 18.0, "
        "global_lut 50.0; global_lut, which does read one, loads it 64.0 times for shared_lut's "
        "once, but from caches: bytes that device memory is read for a block: 576, 576, 576"
    )


@pytest.mark.parametrize(
    ("loads", "verdict"),
    [
        (18.4, "premise_false"),
        (50, "reproduced"),
        (18 + 80, "reproduced"),  # more to save than it says
        (18 + 32 * 0.9 / 0.979, "reproduced"),
        (18 + 32 * 0.9 / 0.981, "undecided"),
        (18 + 32 * 0.9 / 1.019, "undecided"),
        (18 + 32 * 0.9 / 1.021, "not_reproduced"),
        (34, "not_reproduced"),
    ],
)
def test_a_baseline_that_reads_a_table_would_be_counted(run, loads, verdict):
    run.change(BASELINE, global_loads=loads)
    (found,) = run.decided("lut-traffic-64")
    assert found.verdict == verdict
    if verdict != "premise_false":
        assert found.ours == pytest.approx(2 * (loads - 18))


def test_the_sources_own_library_decides_where_it_ran(run):
    rows, name = run.files["nf4_counters"]["records"], "bitsandbytes_0.47.0"
    for row in made.rows_of(run.files["nf4_counters"], READER):
        rows.append(row | {"kernel": name, "key": row["key"].replace(READER, name)})
    (found,) = run.decided("lut-traffic-64")
    assert (found.verdict, found.ours) == ("reproduced", pytest.approx(64))


@pytest.mark.parametrize(
    ("facts", "verdict", "added"),
    [
        ({}, "reproduced", 64),
        ({"dynamic_shared_bytes": 4}, "not_reproduced", 68),
        ({"static_shared_bytes": 2656}, "not_reproduced", 0),
        ({"static_shared_bytes": 2656, "dynamic_shared_bytes": 64}, "reproduced", 64),
    ],
)
def test_the_table_adds_exactly_64_bytes(run, facts, verdict, added):
    run.launch(SUBJECT, **facts)
    (found,) = run.decided("smem-64-bytes")
    assert (found.verdict, found.ours) == (verdict, added)
    whole = f"the whole of shared_lut takes {2656 + added}, of which 2656 are branch_tree's already"
    assert found.reason == f"the table adds {added} bytes a block; {whole}"


@pytest.mark.parametrize(
    ("memory", "issue", "waiting", "verdict"),
    [
        (60, 59.9, 0.3, "reproduced"),
        (59.9, 20, 0.3, "not_reproduced"),
        (60, 60, 0.3, "not_reproduced"),
        (10, 20, 2.51, "reproduced"),
        (10, 20, 2.5, "not_reproduced"),  # as many as wait for another reason
        (10, 20, 2.49, "not_reproduced"),  # after stall_wait; those that could issue do not wait
    ],
)
def test_bound_by_bandwidth_or_by_latency(run, memory, issue, waiting, verdict):
    run.change(BASELINE, dram_utilisation=memory, issue_utilisation=issue)
    run.change(BASELINE, stall_long_scoreboard=waiting)
    found = run.decided("memory-bound")[0]
    assert (found.verdict, found.ours) == (verdict, memory)


def test_warps_that_wait_for_nothing_show_no_bound(run):
    run.change(BASELINE, **{f"stall_{name}": 0 for name in STALLS})
    found = run.decided("memory-bound")[0]
    assert (found.verdict, found.reason) == (
        *("not_testable", "no warps of branch_tree wait for anything"),
    )


def test_what_an_h200s_baseline_is_bound_by(run):
    assert run.decided("memory-bound")[0].reason == (
        "branch_tree keeps device memory 23.3 % busy and the schedulers 85.6 %; at each issue "
        "0.300 warps wait for global memory; the most common waits: wait 2.50, "
        "no_instruction 1.53, barrier 1.40"
    )


def test_what_the_papers_gpu_would_be_bound_by(run):
    """1.985 instructions per weight on 432 schedulers at 1.41 GHz, and 2.56 bytes at 2039 GB/s."""
    run.change(BASELINE, warp_instructions=2032.5)
    found = run.decided("memory-bound")[1]
    assert (found.verdict, found.ours) == ("not_reproduced", pytest.approx(38.6, abs=0.1))
    assert found.why == (
        "on the source's A100-80GB, issuing the instructions of 28672 x 8192 takes 0.765 ms, its "
        "bytes 0.295 ms"
    )
    assert "1.985 warp instructions per weight" in found.reason


@pytest.mark.parametrize(
    ("instructions", "verdict"), [(783.5, "reproduced"), (783.9, "not_reproduced")]
)
def test_fewer_instructions_than_bytes_would_be_bound_by_memory(run, instructions, verdict):
    run.change(BASELINE, warp_instructions=instructions)
    assert run.words("memory-bound")[1] == verdict


@pytest.mark.parametrize(
    ("rounds", "verdict"), [(1.0, "reproduced"), (1.09, "reproduced"), (1.11, "not_reproduced")]
)
def test_rounds_of_the_look_ups_alone(run, rounds, verdict):
    """50 loads and 62.9 rounds are the baseline's too."""
    run.change(SUBJECT, shared_load_wavefronts=62.9 + 32 * rounds)
    (found,) = run.decided("broadcast-no-conflicts")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(rounds))
    ours = f"{rounds:.2f}"
    assert found.reason == f"rounds for each access of shared_lut that branch_tree lacks: {ours}"


def test_without_look_ups_there_are_no_rounds_of_them(run):
    run.change(SUBJECT, shared_loads=50)
    (found,) = run.decided("broadcast-no-conflicts")
    assert found.verdict == "not_testable"
    assert found.reason == "shared_lut has no shared loads that branch_tree lacks"


@pytest.mark.parametrize(("rounds", "verdict"), [(1.1, "reproduced"), (1.11, "not_reproduced")])
def test_a_swizzle_without_conflicts(run, rounds, verdict):
    run.change("tma_swizzle", "transpose_counters", shared_store_wavefronts=1e6 * rounds)
    (found,) = run.decided("swizzle-conflicts")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(rounds))
    assert found.reason == (
        "Mojo itself was not run; in CUDA: rounds for each access of tma_swizzle: "
        f"{rounds:.2f}; of tma_naive: 32.3"
    )


@pytest.mark.parametrize(("replays", "verdict"), [(0, "reproduced"), (1, "not_reproduced")])
def test_one_read_of_a_constant_serves_a_warp(run, replays, verdict):
    run.change(CONSTANT, "divergence_counters", idc_replays=replays)
    (found,) = run.decided("constant-broadcast")
    assert found.verdict == verdict
    assert "; on the codes of weights 12.0 times, once for each further" in found.reason
    keys = [key for _, key in found.evidence]
    assert keys == ["28672x8192/fp16/b64/equal/constant_lut", "28672x8192/fp16/b64/constant_lut"]


@pytest.mark.parametrize(
    ("slower", "verdict"), [(-3, "reproduced"), (2.29, "reproduced"), (2.31, "not_reproduced")]
)
def test_a_fill_that_costs_less_than_table_2_varies_is_negligible(run, slower, verdict):
    run.change(SUBJECT, "nf4_launches", kernel_time=247.3 * (1 + slower / 100))
    (found,) = run.decided("single-thread-fill")
    assert (found.verdict, found.ours) == (verdict, pytest.approx(slower))
    assert found.why.startswith(f"the time differs by {slower:+.1f} % from that of ")


def test_counters_say_what_a_batch_keeps_under_way(run):
    times = {"tma_swizzle": 6000.0, "tma_batched": 3000.0}
    problem = made.matrix_problem(32768)
    moved = {"bytes": {"read": problem["n"] * 4, "written": problem["n"] * 4}}
    rows = [made.record(problem, kernel, [us], **moved) for kernel, us in times.items()]
    matrix = made.results("transpose", "matrix", rows)
    alone = made.decided(matrix)["batched", "random"]
    assert (alone.verdict, len(alone.evidence)) == ("reproduced", 2)
    said = "Mojo itself was not run; in CUDA: tma_swizzle: 1432 GB/s, tma_batched: 2863 GB/s"
    assert alone.reason.startswith(f"{said}; +")
    run.change("tma_swizzle", "transpose_counters", warps_launched=32e6)
    both = made.decided(matrix, *run.files.values())["batched", "random"]
    assert (both.verdict, both.ours, len(both.evidence)) == ("reproduced", alone.ours, 4)
    assert both.reason == (
        f"{alone.reason}; tiles of tma_swizzle and tma_batched under way on a multiprocessor at "
        "once: 1.88 (7.68 kB) and 15.0 (61.4 kB)"
    )
