"""The claims of Modular's post that the puzzle decides: each possible verdict."""

import copy
from dataclasses import replace

import made
import pytest

MOJO, PEER, NEWEST = "mojo_packed_512", "bitsandbytes_0_47_0", "bitsandbytes_newest"
FAST, SLOW, TILED, WARPS = "packed_512", "packed_1024", "mojo_tiled_2d", "mojo_warp_per_block"
FIRST, AS_COMPILED = "two bytes loaded, then stored", "kernels as they compile"
IN_PYTHON = "Unsloth of that month, called in Python"
REUSED, MERGED = "the cache holds", "the cache merges"
MLPS = {"2048x8192": 16777216, "1024x4096": 4194304, "4096x14336": 58720256}
MOVED = {"read": 123331584000, "written": 478150656000}
T4_L2, L4_L2 = 4194304, 50331648
YES, NO, MAY_BE, CANNOT = "reproduced", "not_reproduced", "undecided", "not_testable"


def row(kernel, seconds, parts=(1.0, 1.0, 1.0), graph=0.1, **changes):
    """`parts`: each MLP's time, times its share; `graph`: seconds without the host."""
    problem = {"name": "three MLPs, 1000 times", "family": "puzzle", "iterations": 1000}
    problem |= {"iterations_per_graph": 100, "launches": 9000, "weights": 239075328}
    problem |= {"block_size": 64, "nested": True}
    metrics = [made.metric("wall_time", [1e6 * seconds] * 5)]
    metrics.append(made.metric("kernel_time", [1e6 * graph] * 5))
    for (name, size), part in zip(MLPS.items(), parts, strict=True):
        us = 1e6 * seconds * part * 3 * size / problem["weights"]
        metrics.append(made.metric(f"wall_time.{name}", [us] * 5))
    return made.record(problem, kernel, metrics=metrics, bytes=MOVED) | changes


def peer(seconds, name=PEER):
    return row(name, seconds, origin={"kind": "peer", "maker": "bitsandbytes 0.47.0"})


def puzzle(*rows, gpu="NVIDIA H200", name="mlps"):
    return made.on(gpu, made.results("puzzle", name, list(rows)))


@pytest.mark.parametrize(("gain", "kind"), [(3.8, YES), (8 / 4.25 * 0.9, MAY_BE), (1.5, NO)])
def test_the_gain_as_published_decides(gain, kind):
    rows = row("scalar_store", gain * 0.2), row("packed_store", 0.2)
    v = made.verdict("packed-stores", "T4", puzzle(*rows, gpu="Tesla T4"))
    assert (v.kind, v.ours, v.cell.value) == (kind, pytest.approx(gain), 8 / 4.25)


@pytest.mark.parametrize(("graph", "kind"), [(0.11, YES), (0.101, MAY_BE), (0.09, NO)])
def test_packed_stores_are_faster_without_the_host(graph, kind):
    rows = row("scalar_store", 9.0, graph=graph), row("packed_store", 0.2)
    v = made.verdict("packed-stores", "", puzzle(*rows), reading="sectors")
    assert (v.kind, v.ours) == (kind, pytest.approx(graph / 0.1))


@pytest.mark.parametrize(("gain", "kind"), [(5.0, YES), (1.05, YES), (1.02, MAY_BE), (0.95, NO)])
def test_mojo_over_each_library_is_decided_by_the_smallest_gain(gain, kind):
    """A tenth less than its 1.07 would be allowed, but not a loss."""
    rows = row(MOJO, 0.2), peer(gain * 0.2), peer(9.0, NEWEST)
    v = made.verdict("mojo-1.07-1.84", PEER, puzzle(*rows), reading=FIRST)
    assert (v.kind, v.ours, v.cell.value) == (kind, pytest.approx(gain), 1.07)
    assert {key.rpartition("/")[2] for _, key in v.rows} == {MOJO, PEER}
    assert made.verdict("mojo-1.07-1.84", NEWEST, puzzle(*rows), reading=FIRST).kind == YES


def test_without_a_library_nothing_is_decided():
    v = made.verdict("mojo-1.07-1.84", "", puzzle(row(MOJO, 0.2)), reading=FIRST)
    assert (v.kind, v.ours) == ("not_tested", None) and "PEER=" in v.note


def test_unsloth_in_python_is_a_reading_that_does_not_decide():
    own = puzzle(row(MOJO, 0.2), peer(0.4))
    in_python = puzzle(peer(0.1, "unsloth_2026.1.4"), peer(9.0, "unsloth_2026.10.9"), name="peers")
    d = made.decision("mojo-1.07-1.84", own, in_python)
    (v,) = d.of_reading(IN_PYTHON)
    assert (v.kind, v.ours, d.verdict) == (NO, pytest.approx(0.5), YES)
    (v,) = made.decision("mojo-1.07-1.84", own).of_reading(IN_PYTHON)
    assert v.kind == "not_tested" and "puzzle/peers" in v.note


OWN = {"Tesla T4": 1.07, "NVIDIA L4": 1.25, "NVIDIA A100-PCIE-40GB": 1.84, "NVIDIA H100 PCIe": 1.51}


@pytest.mark.parametrize("gpu", OWN)
def test_each_gpu_has_its_own_gain(gpu):
    """On a GPU of the post's, its own gain also decides; gains of the other GPUs never do."""
    for gain, kind in ((OWN[gpu] * 1.01, YES), (OWN[gpu] * 0.8, NO)):
        results = puzzle(row(MOJO, 0.2), peer(gain * 0.2), gpu=gpu)
        cells = made.decision("mojo-by-gpu", results).of_reading(FIRST)
        (own,) = [v for v in cells if not v.elsewhere]
        assert (own.kind, own.cell.value) == (kind, OWN[gpu])
        assert {v.kind for v in cells if v.elsewhere} == {CANNOT}


@pytest.mark.parametrize(("slow", "kind"), [(0.5, YES), (0.405, MAY_BE), (0.3, NO)])
def test_the_smaller_blocks_are_faster_in_the_puzzle(slow, kind):
    results = puzzle(row(SLOW, slow), row(FAST, 0.4))
    v = made.verdict("threads-512", "", results, reading=AS_COMPILED)
    assert (v.kind, v.ours) == (kind, pytest.approx(slow / 0.4))


def occupied(fit=(4, 2), achieved=(90.0, 80.0), holds=64, threads=(128, 256)):
    """The passes of counters: blocks of 512 and of 1024 threads, and the active warps."""
    layer = made.layer(28672, 8192)
    launches, counters = [], []
    for kernel, x, blocks, share in zip((FAST, SLOW), threads, fit, achieved, strict=True):
        facts = {"block": [x, 4, 1], "blocks_per_multiprocessor": blocks}
        launches.append(made.launched(layer, kernel, 200.0, **facts))
        values = {"achieved_occupancy": share, "active_warps": holds * share / 100}
        counters.append(made.counted(layer, kernel, values))
    passes = {"nf4_launches": launches, "nf4_counters": counters}
    return [made.results("counters", name, rows) for name, rows in passes.items()]


@pytest.mark.parametrize(
    ("fit", "achieved", "holds", "threads", "kind"),
    [
        ((4, 1), (90.0, 45.0), 64, (128, 256), YES),  # one block of 1024 threads
        ((4, 1), (45.0, 45.0), 64, (128, 256), NO),
        ((4, 2), (90.0, 80.0), 64, (128, 256), CANNOT),  # two of them: all 64 warps
        ((3, 1), (90.0, 60.0), 48, (128, 256), CANNOT),  # an L4's: two thirds
        ((4, 4), (90.0, 45.0), 64, (128, 63), YES),  # 252 threads are 8 warps: 32 of 64
        ((4, 4), (90.0, 45.0), 64, (128, 65), CANNOT),  # 260 threads are 9 warps, not 8
        ((None, 2), (90.0, 80.0), 64, (128, 256), CANNOT),
        ((4, 1), (90.0, 0.0), 64, (128, 256), CANNOT),
    ],
)
def test_occupancy_explains_what_a_limit_of_half_the_warps_makes(
    fit, achieved, holds, threads, kind
):
    files = occupied(fit, achieved, holds, threads)
    cell = "rows 28672, columns 8192"
    assert made.verdict("threads-512", cell, *files, reading=AS_COMPILED).kind == kind
    assert made.verdict("threads-512", cell, files[0], reading=AS_COMPILED).kind == "not_tested"


OF_A_T4 = "l2-explains-l4 seconds lineage puzzle-target".split()


def of_a_t4(gpu, mojo=3.4619, unsloth=3.69844, warps=4.51):
    rows = [row(MOJO, mojo), peer(unsloth), row(TILED, 4.25), row(WARPS, warps)]
    decisions = made.decisions(puzzle(*rows, gpu=gpu))
    return {name: decisions[name] for name in OF_A_T4}


def test_a_t4s_numbers_are_treated_alike_in_every_claim():
    decisions = of_a_t4("Tesla T4")
    named = [[v for v in d.verdicts if v.cell.gpu == "T4"] for d in decisions.values()]
    assert {v.kind for verdicts in named for v in verdicts} == {YES}
    here = [v for v in decisions["seconds"].verdicts if not v.elsewhere]
    assert [v.ours for v in here] == pytest.approx([3.7, 3.46, 162.6, 173.7], rel=1e-3)
    other = of_a_t4("Tesla T4", mojo=9.0, unsloth=9.0, warps=3.5)
    assert {d.verdict for d in other.values()} == {NO}
    for d in of_a_t4("NVIDIA T4G").values():
        named = [v for v in d.verdicts if v.cell.gpu]
        assert {v.kind for v in named} == {CANNOT}
        assert all(v.elsewhere and v.ours is not None for v in named)


def reused(mb=None, t4_s=4.51):
    """The part of the bytes that fit, and the verdict; `t4_s`: of the warps, over 4.25 s."""
    moved = {"bytes": {"read": round(1e6 * mb * 1000 * 19 / 4), "written": 0}} if mb else {}
    (source,) = made.with_claim("l2-explains-l4")
    tables = copy.deepcopy(source.tables)
    tables["lineage"]["warp per block, packed stores"]["t4_s"] = t4_s
    results = puzzle(row(TILED, 1.0, **moved), row(WARPS, 1.0, **moved))
    source = replace(source, tables=tables)
    return made.verdict("l2-explains-l4", "", results, reading=REUSED, source=source)


def test_a_cache_that_holds_5_percent_of_the_bytes_moves_no_order_by_12():
    """The order changes by (4.51 / 4.25) / (2.45 / 2.59) - 1 = 12 %, or by 8 and by 4.5 %."""
    v = reused()
    assert (v.kind, v.ours) == ("premise_false", pytest.approx(100 / 19, rel=0.01))
    assert v.note.endswith(" changes by 12 %")
    assert (reused(t4_s=4.34).kind, reused(t4_s=4.2).kind) == ("premise_false", YES)
    assert reused(mb=47.9).ours == pytest.approx(500 / 19)  # one of 48 MB fits
    assert reused(mb=48.1).ours == pytest.approx(100 / 19)


EVEN = (1.0, 1.0, 1.0)
OF_2048X8192 = sum(MOVED.values()) // 1000 * 4 // 19  # bytes that it moves


@pytest.mark.parametrize(
    ("cell", "l2_bytes", "ratio", "parts", "kind"),
    [
        ("T4", T4_L2, 1.06, EVEN, YES),  # there the tiles are faster
        ("T4", T4_L2, 1.0, EVEN, MAY_BE),
        ("T4", T4_L2, 0.9, EVEN, NO),
        ("L4", L4_L2, 0.9, (1.0, 0.9, 1.02), YES),  # by more where an MLP stays in L2
        ("L4", OF_2048X8192, 0.95, (0.9, 0.95, 1.02), YES),  # one as large as that fits
        ("L4", OF_2048X8192 - 1, 0.95, (0.9, 0.95, 1.02), MAY_BE),
        ("L4", L4_L2, 0.95, EVEN, MAY_BE),
        ("L4", T4_L2, 0.95, EVEN, CANNOT),  # no MLP fits
        ("L4", 1 << 30, 0.95, EVEN, CANNOT),  # every MLP fits
        ("L4", L4_L2, 1.06, (1.0, 0.9, 1.02), NO),
    ],
)
def test_the_warps_are_faster_where_the_cache_helps(cell, l2_bytes, ratio, parts, kind):
    """Their time is `ratio` times that of the tiles, divided over the MLPs."""
    results = puzzle(row(TILED, 1.0), row(WARPS, ratio, parts), gpu=f"NVIDIA {cell}")
    results["provenance"]["gpu"]["l2_bytes"] = l2_bytes
    v = made.verdict("l2-explains-l4", cell, results, reading=MERGED)
    assert (v.kind, v.ours) == (kind, pytest.approx(ratio))


def test_the_ratio_between_two_libraries():
    """5.33 s became 3.70 s, a tenth less allowed."""
    for old, kind in ((0.4, YES), (0.25, NO)):
        results = puzzle(row(MOJO, 0.2), peer(old), peer(0.2, NEWEST))
        v = made.verdict("baseline-moved", "", results)
        assert (v.kind, v.ours) == (kind, pytest.approx(old / 0.2))
    assert made.verdict("baseline-moved", "", puzzle(peer(0.4))).kind == "not_tested"
