"""The claims of Modular's post on occupancy, caches and its T4: each way that they can go."""

import made
import pytest

FAST, SLOW = "packed_512", "packed_1024"
LAYER = "rows 28672, columns 8192"
MLPS = {"2048x8192": 16777216, "1024x4096": 4194304, "4096x14336": 58720256}
H200_L2, T4_L2, L4_L2 = 62914560, 4194304, 50331648


def row(kernel, seconds, parts=(1.0, 1.0, 1.0), **changes):
    """`parts`: what each MLP takes, times its share of the weights."""
    problem = made.puzzle_problem()
    metrics = [made.metric("wall_time", [1e6 * seconds] * 5)]
    for (name, size), part in zip(MLPS.items(), parts, strict=True):
        us = 1e6 * seconds * part * 3 * size / problem["weights"]
        metrics.append(made.metric(f"wall_time.{name}", [us] * 5))
    moved = {"read": 123331584000, "written": 478150656000}
    return made.record(problem, kernel, metrics=metrics, bytes=moved) | changes


def puzzle(*rows, gpu="NVIDIA H200", l2_bytes=H200_L2):
    found = made.results("puzzle", "mlps", list(rows))
    found["provenance"]["gpu"] |= {"name": gpu, "l2_bytes": l2_bytes}
    return found


def occupied(fit=(4, 2), achieved=(90.0, 80.0), holds=64):
    """The passes of counters: blocks of 512 and of 1024 threads, and how many warps are there."""
    layer = made.layer(28672, 8192)
    launches, counters = [], []
    for kernel, threads, blocks, share in zip((FAST, SLOW), (128, 256), fit, achieved, strict=True):
        facts = {"block": [threads, 4, 1], "blocks_per_multiprocessor": blocks}
        launches.append(made.launched(layer, kernel, 200.0, **facts))
        values = {"achieved_occupancy": share, "active_warps": holds * share / 100}
        counters.append(made.counted(layer, kernel, values))
    return [
        made.results("counters", "nf4_launches", launches),
        made.results("counters", "nf4_counters", counters),
    ]


def threads_512(*found):
    decided = made.decided(*found)
    reading = "kernels as they compile"
    return decided["threads-512", "", reading], decided["threads-512", LAYER, reading]


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(0.5, "reproduced"), (0.4, "undecided"), (0.3, "not_reproduced")]
)
def test_the_smaller_blocks_are_faster_in_the_puzzle(seconds, verdict):
    time, occupancy = threads_512(puzzle(row(SLOW, seconds), row(FAST, 0.4)))
    assert (time.verdict, time.ours) == (verdict, pytest.approx(seconds / 0.4))
    assert time.reason == f"{SLOW}: {seconds:.3f} s, {FAST}: 0.400 s"
    assert occupancy.verdict == "not_tested"


def test_faster_within_the_interval_is_not_faster():
    slow = row(SLOW, 0.41)
    slow["metrics"][0]["samples"] = [390000.0, 395000.0, 410000.0, 420000.0, 430000.0]
    assert threads_512(puzzle(slow, row(FAST, 0.4)))[0].verdict == "undecided"


@pytest.mark.parametrize(
    ("fit", "achieved", "holds", "verdict"),
    [
        ((4, 1), (90.0, 45.0), 64, "reproduced"),  # one block of 1024 threads, as the post has it
        ((4, 2), (90.0, 80.0), 64, "not_testable"),  # two of them: all 64 warps
        ((4, 1), (45.0, 45.0), 64, "not_reproduced"),
        ((4, 2), (80.0, 90.0), 64, "not_testable"),
        ((2, 1), (90.0, 80.0), 32, "not_testable"),  # a T4's: one block is all of its warps
        ((3, 1), (90.0, 60.0), 48, "not_testable"),  # an L4's: two thirds
    ],
)
def test_occupancy_explains_what_a_limit_of_half_the_warps_makes(fit, achieved, holds, verdict):
    found = threads_512(*occupied(fit, achieved, holds))[1]
    assert (found.verdict, found.ours) == (verdict, pytest.approx(achieved[0] / achieved[1]))
    assert len(found.evidence) == 4


def test_without_launches_or_counters_occupancy_decides_nothing():
    launches, counters = occupied()
    for alone, missing in ((launches, "nf4_counters"), (counters, "nf4_launches")):
        found = threads_512(alone)[1]
        assert (found.verdict, found.reason) == (
            *("not_tested", f"no results of the pass counters/{missing}"),
        )
    found = threads_512(*occupied(fit=(None, 2)))[1]
    assert (found.verdict, found.reason) == (
        *("not_testable", "the occupancy calculator does not know this GPU"),
    )
    launches["records"][0]["launch"] = None
    assert threads_512(launches, counters)[1].verdict == "not_tested"


def test_without_warps_there_is_no_occupancy():
    assert threads_512(*occupied(achieved=(90.0, 0.0)))[1].verdict == "not_testable"


TARGET = "mojo_packed_512"


@pytest.mark.parametrize(
    ("gpu", "seconds", "verdict"),
    [
        *(("Tesla T4", *case) for case in made.around(1, 4.63)[4:]),
        ("NVIDIA T400", 3.46, "not_testable"),
        ("NVIDIA H200", 0.43, "not_testable"),
    ],
)
def test_the_target_is_a_t4s(gpu, seconds, verdict):
    found = made.decided(puzzle(row(TARGET, seconds), gpu=gpu))["puzzle-target", "T4"]
    assert (found.verdict, found.cell.value) == (verdict, 4.63)
    assert found.ours == pytest.approx(seconds)
    if gpu == "NVIDIA H200":
        assert found.why == "a number of the source's T4, which only such a GPU can show"
        assert found.reason == (
            f"{found.why}; on this NVIDIA H200: mojo_packed_512: 0.430 s; -90.7 % from the "
            "source's value, 0 % more allowed"
        )


PEER = {"origin": {"kind": "peer", "maker": "bitsandbytes 0.47.0"}}
OF_A_T4 = "packed-stores l2-explains-l4 seconds bandwidth lineage puzzle-target".split()


def of_a_t4(gpu, mojo=3.4619, unsloth=3.69844, packed=4.25, warps=4.51):
    rows = [row(TARGET, mojo), row("bitsandbytes_0_47_0", unsloth, **PEER)]
    rows += [row("scalar_store", 8.0), row("packed_store", packed)]
    rows += [row("mojo_tiled_2d", 4.25), row("mojo_warp_per_block", warps)]
    rows += [row("tiled_packed", 4.25), row("warp_per_block", warps)]
    decisions = made.decisions(puzzle(*rows, gpu=gpu))
    return {name: decisions[name] for name in OF_A_T4}


def test_a_t4s_numbers_are_treated_alike_in_every_claim():
    there = of_a_t4("Tesla T4")
    assert {name: d.verdict for name, d in there.items()} == dict.fromkeys(OF_A_T4, "reproduced")
    other = of_a_t4("Tesla T4", mojo=9.0, unsloth=9.0, packed=7.0, warps=3.5)
    assert {name: d.verdict for name, d in other.items()} == dict.fromkeys(
        OF_A_T4, "not_reproduced"
    )
    for gpu in ("NVIDIA H200", "NVIDIA L40S", "NVIDIA T4G"):
        for d in of_a_t4(gpu).values():
            assert {v.verdict for v in d.verdicts} == {d.verdict} == {"not_testable"}
            assert all(v.elsewhere and v.ours is not None for v in d.verdicts)
            assert all(v.why.startswith("a number of the source's ") for v in d.verdicts)


@pytest.mark.parametrize("claim", ["seconds", "bandwidth"])
@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.1 / 1.024, "reproduced"), (1.15, "not_reproduced"), (0.9, "undecided")],
)
def test_seconds_and_the_bandwidth_that_follows_are_held_to_both_sides(claim, factor, verdict):
    factor = factor if claim == "seconds" else 1 / factor
    found = of_a_t4("Tesla T4", mojo=3.4619 * factor, unsloth=3.69844 * factor)[claim]
    decided = [v for v in found.verdicts if not v.elsewhere]
    assert [v.verdict for v in decided] == [verdict] * 2
    values = [162.6, 173.7] if claim == "bandwidth" else [3.69844, 3.4619]
    assert [v.cell.value for v in decided] == values
    scale = factor if claim == "seconds" else 1 / factor
    assert [v.ours for v in decided] == pytest.approx([v * scale for v in values], rel=1e-3)


TILED, WARPS = "tiled_packed", "warp_per_block"


def flip(gpu, l2_bytes, ratio, parts=(1.0, 1.0, 1.0)):
    """The warps' time is `ratio` of the tiles', and in each MLP a part of that."""
    found = made.decided(
        puzzle(row(TILED, 1.0), row(WARPS, ratio, parts), gpu=gpu, l2_bytes=l2_bytes)
    )
    return found["l2-explains-l4", "T4"], found["l2-explains-l4", "L4"]


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.06, "reproduced"), (1.0, "undecided"), (0.9, "not_reproduced")]
)
def test_on_a_t4_the_tiles_are_faster(ratio, verdict):
    here, there = flip("Tesla T4", T4_L2, ratio)
    assert (here.verdict, here.ours) == (verdict, pytest.approx(ratio))
    assert here.cell.value == pytest.approx(4.51 / 4.25)
    assert there.verdict == "not_testable"


@pytest.mark.parametrize(
    ("ratio", "parts", "verdict"),
    [
        (0.95, (1.0, 0.9, 1.02), "reproduced"),  # by more where an MLP stays in the cache
        (0.95, (1.0, 1.0, 1.0), "premise_false"),
        (0.95, (0.9, 1.1, 1.0), "premise_false"),
        (1.06, (1.0, 0.9, 1.02), "not_reproduced"),
    ],
)
def test_on_an_l4_the_warps_are_faster_where_its_cache_helps(ratio, parts, verdict):
    there, here = flip("NVIDIA L4", L4_L2, ratio, parts)
    assert here.verdict == verdict
    assert here.cell.value == pytest.approx(2.45 / 2.59)
    assert there.verdict == "not_testable"


@pytest.mark.parametrize("l2_bytes", [T4_L2, 1 << 30])
def test_a_cache_that_no_mlp_or_every_mlp_fits_tells_nothing(l2_bytes):
    here = flip("NVIDIA L4", l2_bytes, 0.95)[1]
    assert here.verdict == "not_testable"


def test_an_mlp_as_large_as_the_cache_fits():
    rows = [row(TILED, 1.0), row(WARPS, 0.95, (0.9, 0.9, 1.02))]
    of_2048x8192 = (123331584000 + 478150656000) // 1000 * 4 // 19
    found = made.decided(puzzle(*rows, gpu="NVIDIA L4", l2_bytes=of_2048x8192))
    assert found["l2-explains-l4", "L4"].verdict == "reproduced"


@pytest.mark.parametrize("ratio", [0.98, 1.02])
def test_an_order_within_the_intervals_is_undecided(ratio):
    rows = [row(TILED, 1.0), row(WARPS, ratio)]
    rows[0]["metrics"][0]["samples"] = [8e5, 9e5, 1e6, 1.1e6, 1.2e6]
    found = made.decided(puzzle(*rows, gpu="Tesla T4"))["l2-explains-l4", "T4"]
    assert (found.verdict, found.ours) == ("undecided", pytest.approx(ratio))
