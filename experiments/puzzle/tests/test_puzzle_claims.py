"""The claims of Modular's post that the puzzle decides: each possible verdict."""

import copy
from dataclasses import replace
from statistics import geometric_mean

import made
import pytest

MOJO, PEER, NEWEST = "mojo_packed_512", "bitsandbytes_0_47_0", "bitsandbytes_newest"
FAST, SLOW = "packed_512", "packed_1024"
TILED, WARPS = "mojo_tiled_2d", "mojo_warp_per_block"
LAYER = "rows 28672, columns 8192"
FIRST, AS_COMPILED = "two bytes loaded, then stored", "kernels as they compile"
MLPS = {"2048x8192": 16777216, "1024x4096": 4194304, "4096x14336": 58720256}
MOVED = {"read": 123331584000, "written": 478150656000}
T4_L2, L4_L2 = 4194304, 50331648


def row(kernel, seconds, parts=(1.0, 1.0, 1.0), iterations=1000, **changes):
    """With graphs it takes a tenth of a second; `parts`: each MLP's time, times its share."""
    problem = {"name": f"three MLPs, {iterations} times", "family": "puzzle"}
    problem |= {"iterations": iterations, "iterations_per_graph": min(iterations, 100)}
    problem |= {"launches": 9 * iterations, "weights": 239075328}
    problem |= {"block_size": 64, "nested": True}
    samples = [seconds] if isinstance(seconds, float) else seconds
    metrics = [made.metric("wall_time", [1e6 * s for s in samples] * (5 // len(samples)))]
    metrics.append(made.metric("kernel_time", [100000.0] * 5))
    for (name, size), part in zip(MLPS.items(), parts, strict=True):
        us = 1e6 * samples[0] * part * 3 * size / problem["weights"]
        metrics.append(made.metric(f"wall_time.{name}", [us] * 5))
    return made.record(problem, kernel, metrics=metrics, bytes=MOVED) | changes


def peer(seconds, name=PEER):
    return row(name, seconds, origin={"kind": "peer", "maker": "bitsandbytes 0.47.0"})


def puzzle(*rows, gpu="NVIDIA H200"):
    return made.on(gpu, made.results("puzzle", "mlps", list(rows)))


def decided(claim, cell, *results):
    return made.decided(*results, sources=made.with_claim(claim))[claim, *cell]


def of_packed_stores(*rows):
    decisions = made.decisions(
        puzzle(*rows, gpu="Tesla T4"), sources=made.with_claim("packed-stores")
    )
    return decisions["packed-stores"].verdicts


@pytest.mark.parametrize(
    ("gain", "expected"),
    [(3.8, "reproduced"), *made.around(8 / 4.25 * 0.9, guards=made.guards(1, 4))],
)
def test_the_gain_as_published_decides(gain, expected):
    rows = row("scalar_store", gain * 0.2), row("packed_store", 0.2)
    v, *_ = of_packed_stores(*rows)
    assert (v.verdict, v.ours, v.cell.value) == (expected, pytest.approx(gain), 8 / 4.25)
    seconds = f"scalar_store: {gain * 0.2:.3f} s, packed_store: 0.200 s"
    assert v.reason.startswith(f"{seconds}; ") and " 1.00 x; " in v.reason


def test_without_a_graph_the_host_decides_alone():
    rows = row("scalar_store", 0.4), row("packed_store", 0.2)
    missing = {"name": "kernel_time", "unit": "us", "missing": "cannot be captured"}
    rows[0]["metrics"][1] = missing
    v, *_ = of_packed_stores(*rows)
    assert v.verdict == "reproduced"
    assert "; +6." in v.reason


def over_peer(*rows, library=PEER):
    return decided("mojo-1.07-1.84", [library, FIRST], puzzle(*rows))


@pytest.mark.parametrize(
    ("gain", "expected"), [(5.0, "reproduced"), *made.around(1, guards=made.guards(1, 1))]
)
def test_mojo_over_the_library_is_decided_by_the_smallest_gain(gain, expected):
    """A tenth less than its 1.07 would be allowed, but not a loss."""
    v = over_peer(row(MOJO, 0.2), peer(gain * 0.2))
    assert (v.verdict, v.ours, v.cell.value) == (expected, pytest.approx(gain), 1.07)
    assert {key.rpartition("/")[2] for _, key in v.evidence} == {MOJO, PEER}


IN_PYTHON = "Unsloth of that month, called in Python"


def over_unsloth(*peers):
    """That reading's verdict, and the whole claim's, whose own is reproduced."""
    results = [puzzle(row(MOJO, 0.2), peer(0.4))]
    results += [made.on("NVIDIA H200", made.results("puzzle", "peers", list(peers)))] * bool(peers)
    (d,) = made.decisions(*results, sources=made.with_claim("mojo-1.07-1.84")).values()
    (v,) = d.readings[IN_PYTHON]
    assert d.verdict == "reproduced"
    return v


@pytest.mark.parametrize(
    ("gain", "expected"), [(5.0, "reproduced"), *made.around(1, guards=made.guards(1, 1))]
)
def test_unsloth_in_python_is_a_reading_that_does_not_decide(gain, expected):
    v = over_unsloth(peer(gain * 0.2, "unsloth_2026.1.4"), peer(9.0, "unsloth_2026.10.9"))
    assert (v.verdict, v.ours, v.cell.value) == (expected, pytest.approx(gain), 1.07)
    assert {file.name for file, _ in v.evidence} == {"mlps.json", "peers.json"}


def test_without_that_unsloth_the_reading_is_not_tested():
    assert "puzzle/peers" in over_unsloth().reason
    for v in (over_unsloth(), over_unsloth(peer(0.3, "unsloth_2026.10.9"))):
        assert (v.verdict, v.ours) == ("not_tested", None)


OWN = {"Tesla T4": 1.07, "NVIDIA L4": 1.25, "NVIDIA A100-PCIE-40GB": 1.84, "NVIDIA H100 PCIe": 1.51}


@pytest.mark.parametrize("gpu", OWN)
def test_each_gpu_has_its_own_gain(gpu):
    """On a GPU of the post's, its own gain also decides; gains of the other GPUs never do."""
    for gain, expected in ((OWN[gpu] * 1.01, "reproduced"), (OWN[gpu] * 0.8, "not_reproduced")):
        results = puzzle(row(MOJO, 0.2), peer(gain * 0.2), gpu=gpu)
        (d,) = made.decisions(results, sources=made.with_claim("mojo-by-gpu")).values()
        verdicts = d.readings[FIRST]
        cells = [v.cell.text for v in verdicts]
        assert cells == [f"{g}, {PEER}" for g in ("T4", "L4", "A100-40GB", "H100-PCIe")]
        (verdict,) = [v for v in verdicts if v.cell.gpu and not v.elsewhere]
        assert (verdict.verdict, verdict.cell.value) == (expected, OWN[gpu])
        assert {v.verdict for v in verdicts if v.elsewhere} == {"not_testable"}


def test_each_of_several_libraries_is_decided_on_its_own():
    rows = row(MOJO, 0.2), peer(0.4), peer(0.19, NEWEST)
    old, new = over_peer(*rows), over_peer(*rows, library=NEWEST)
    assert (old.verdict, old.ours) == ("reproduced", pytest.approx(2.0))
    assert (new.verdict, new.ours) == ("not_reproduced", pytest.approx(0.95))
    assert new.reason.startswith(f"{NEWEST}: 0.190 s, {MOJO}: 0.200 s; ")
    beside = over_peer(*rows, row(FAST, 0.21))  # the same kernel in CUDA
    assert beside.ours == old.ours
    assert beside.reason.startswith(f"{PEER}: 0.400 s, {MOJO}: 0.200 s, {FAST}: 0.210 s; ")


def test_without_a_library_nothing_is_decided():
    v = over_peer(row(MOJO, 0.2), library="")
    assert (v.verdict, v.ours) == ("not_tested", None)
    assert "PEER=" in v.reason


@pytest.mark.parametrize(
    ("slow", "verdict"),
    [
        (0.5, "reproduced"),
        (0.4, "undecided"),
        (0.408, "undecided"),  # within what runs differ by
        ([0.39, 0.395, 0.41, 0.42, 0.43], "undecided"),  # within the interval
        (0.3, "not_reproduced"),
    ],
)
def test_the_smaller_blocks_are_faster_in_the_puzzle(slow, verdict):
    v = decided("threads-512", ["", AS_COMPILED], puzzle(row(SLOW, slow), row(FAST, 0.4)))
    mean = slow if isinstance(slow, float) else geometric_mean(slow)
    assert (v.verdict, v.ours) == (verdict, pytest.approx(mean / 0.4, rel=0.01))
    assert v.why == f"{mean:.3f} s become 0.400 s"


def occupied(fit=(4, 2), achieved=(90.0, 80.0), holds=64):
    """The passes of counters: blocks of 512 and of 1024 threads, and the active warps."""
    layer = made.layer(28672, 8192)
    launches, counters = [], []
    for kernel, threads, blocks, share in zip((FAST, SLOW), (128, 256), fit, achieved, strict=True):
        facts = {"block": [threads, 4, 1], "blocks_per_multiprocessor": blocks}
        launches.append(made.launched(layer, kernel, 200.0, **facts))
        values = {"achieved_occupancy": share, "active_warps": holds * share / 100}
        counters.append(made.counted(layer, kernel, values))
    passes = {"nf4_launches": launches, "nf4_counters": counters}
    return [made.results("counters", name, rows) for name, rows in passes.items()]


def by_occupancy(*results):
    return decided("threads-512", [LAYER, AS_COMPILED], *results)


@pytest.mark.parametrize(
    ("fit", "achieved", "holds", "verdict"),
    [
        ((4, 1), (90.0, 45.0), 64, "reproduced"),  # one block of 1024 threads, as the post has it
        ((4, 1), (45.0, 45.0), 64, "not_reproduced"),
        ((4, 2), (90.0, 80.0), 64, "not_testable"),  # two of them: all 64 warps
        ((2, 1), (90.0, 80.0), 32, "not_testable"),  # a T4's: one block is all of its warps
        ((3, 1), (90.0, 60.0), 48, "not_testable"),  # an L4's: two thirds
    ],
)
def test_occupancy_explains_what_a_limit_of_half_the_warps_makes(fit, achieved, holds, verdict):
    v = by_occupancy(*occupied(fit, achieved, holds))
    assert (v.verdict, v.ours) == (verdict, pytest.approx(achieved[0] / achieved[1]))
    assert len(v.evidence) == 4
    assert v.why.startswith("48 registers") is (verdict == "not_testable")


def test_without_launches_counters_or_warps_occupancy_decides_nothing():
    launches, counters = occupied()
    for alone, missing in ((launches, "nf4_counters"), (counters, "nf4_launches")):
        v = by_occupancy(alone)
        assert v.verdict == "not_tested" and v.reason.endswith(f" counters/{missing}")
    v = by_occupancy(*occupied(fit=(None, 2)))
    assert "occupancy calculator" in v.reason
    assert by_occupancy(*occupied(achieved=(90.0, 0.0))).verdict == "not_testable"


@pytest.mark.parametrize(
    ("gpu", "seconds", "verdict"),
    [
        *(("Tesla T4", *case) for case in made.around(1, 4.63)[4:]),
        ("NVIDIA T400", 3.46, "not_testable"),
    ],
)
def test_the_target_is_a_t4s(gpu, seconds, verdict):
    v = decided("puzzle-target", ["T4"], puzzle(row(MOJO, seconds), gpu=gpu))
    assert (v.verdict, v.cell.value, v.ours) == (verdict, 4.63, pytest.approx(seconds))
    if verdict == "not_testable":
        assert " T4" in v.why and "NVIDIA T400: mojo_packed_512: 3.460 s; -25.3 % " in v.reason


OF_A_T4 = "l2-explains-l4 seconds lineage puzzle-target".split()


def of_a_t4(gpu, mojo=3.4619, unsloth=3.69844, warps=4.51):
    rows = [row(MOJO, mojo), peer(unsloth), row(TILED, 4.25), row(WARPS, warps)]
    decisions = made.decisions(puzzle(*rows, gpu=gpu))
    return {name: decisions[name] for name in OF_A_T4}


def test_a_t4s_numbers_are_treated_alike_in_every_claim():
    decisions = of_a_t4("Tesla T4")
    named = [[v for v in d.verdicts if v.cell.gpu == "T4"] for d in decisions.values()]
    assert {v.verdict for verdicts in named for v in verdicts} == {"reproduced"}
    here, values = (
        [v for v in decisions["seconds"].verdicts if not v.elsewhere],
        [3.7, 3.46, 162.6, 173.7],
    )
    assert [v.cell.value for v in here] == values
    assert [v.ours for v in here] == pytest.approx(values, rel=1e-3)
    other = of_a_t4("Tesla T4", mojo=9.0, unsloth=9.0, warps=3.5)
    assert {d.verdict for d in other.values()} == {"not_reproduced"}
    for d in of_a_t4("NVIDIA T4G").values():
        named = [v for v in d.verdicts if v.cell.gpu]
        assert {v.verdict for v in named} == {"not_testable"}
        assert all(v.elsewhere and v.ours is not None for v in named)


REUSED = "the cache holds MLPs that are used again"
MERGED = "the cache merges accesses that are not aligned"


def test_a_cache_that_holds_5_percent_of_the_bytes_moves_no_order_by_12():
    v = decided("l2-explains-l4", ["", REUSED], puzzle(row(TILED, 1.0), row(WARPS, 1.0)))
    assert (v.verdict, v.ours) == ("premise_false", pytest.approx(100 / 19, rel=0.01))


@pytest.mark.parametrize(
    ("t4_s", "verdict"),  # by 8 % and by 4.5 %
    [(4.34, "premise_false"), (4.2, "reproduced")],
)
def test_the_order_decides_if_it_changes_more(t4_s, verdict):
    (source,) = made.with_claim("l2-explains-l4")
    tables = copy.deepcopy(source.tables)
    tables["lineage"]["warp per block, packed stores"]["t4_s"] = t4_s
    results = puzzle(row(TILED, 1.0), row(WARPS, 1.0))
    v = made.decided(results, sources=[replace(source, tables=tables)])[
        "l2-explains-l4", "", REUSED
    ]
    assert v.verdict == verdict


@pytest.mark.parametrize(("mb", "percent"), [(47.9, 500 / 19), (48.1, 100 / 19)])
def test_an_mlp_fits_up_to_48_mb(mb, percent):
    moved = {"bytes": {"read": round(1e6 * mb * 1000 * 19 / 4), "written": 0}}
    results = puzzle(row(TILED, 1.0, **moved), row(WARPS, 1.0, **moved))
    assert decided("l2-explains-l4", ["", REUSED], results).ours == pytest.approx(percent)


def test_the_ratio_between_two_libraries():
    """5.33 s became 3.70 s, a tenth less allowed."""
    for old, verdict in ((0.4, "reproduced"), (0.25, "not_reproduced")):
        results = puzzle(row(MOJO, 0.2), peer(old), peer(0.2, NEWEST))
        v = decided("baseline-moved", [""], results)
        assert (v.verdict, v.ours) == (verdict, pytest.approx(old / 0.2))
    assert decided("baseline-moved", [""], puzzle(peer(0.4))).verdict == "not_tested"


def test_normal_weights_do_not_use_nf4s_values_equally():
    v = decided("equal-mass", [""], puzzle(row(MOJO, 0.2)))
    assert v.verdict == "not_reproduced" and v.ours == pytest.approx(5.35, rel=0.02)


EVEN = (1.0, 1.0, 1.0)
OF_2048X8192 = sum(MOVED.values()) // 1000 * 4 // 19  # bytes that it moves


@pytest.mark.parametrize(
    ("cell", "l2_bytes", "ratio", "parts", "verdict"),
    [
        ("T4", T4_L2, 1.06, EVEN, "reproduced"),  # there the tiles are faster
        ("T4", T4_L2, 1.0, EVEN, "undecided"),
        ("T4", T4_L2, 0.9, EVEN, "not_reproduced"),
        ("L4", L4_L2, 0.9, (1.0, 0.9, 1.02), "reproduced"),  # by more where an MLP stays in L2
        ("L4", OF_2048X8192, 0.95, (0.9, 0.95, 1.02), "reproduced"),  # one as large as that fits
        ("L4", OF_2048X8192 - 1, 0.95, (0.9, 0.95, 1.02), "undecided"),
        ("L4", L4_L2, 0.95, EVEN, "undecided"),
        ("L4", L4_L2, 0.95, (0.9, 1.1, 1.0), "undecided"),
        ("L4", T4_L2, 0.95, EVEN, "not_testable"),  # no MLP fits
        ("L4", 1 << 30, 0.95, EVEN, "not_testable"),  # every MLP fits
        ("L4", L4_L2, 1.0, (1.0, 0.9, 1.02), "undecided"),
        ("L4", L4_L2, 1.06, (1.0, 0.9, 1.02), "not_reproduced"),
    ],
)
def test_the_warps_are_faster_where_the_cache_helps(cell, l2_bytes, ratio, parts, verdict):
    """Their time is `ratio` times that of the tiles, divided over the MLPs."""
    results = puzzle(row(TILED, 1.0), row(WARPS, ratio, parts), gpu=f"NVIDIA {cell}")
    results["provenance"]["gpu"]["l2_bytes"] = l2_bytes
    v = decided("l2-explains-l4", [cell, MERGED], results)
    assert (v.verdict, v.ours) == (verdict, pytest.approx(ratio))
    assert v.cell.value == (4.51 / 4.25 if cell == "T4" else 2.45 / 2.59)
