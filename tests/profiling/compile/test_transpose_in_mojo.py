"""The transpose's kernels in Mojo: the elements that each thread moves, and the compiled code."""

import os
import re
import subprocess

import pytest
from built import assembled, built
from compile.compiled import ROOT

TILE = 32
ELEMENTS = TILE * TILE


@pytest.fixture(scope="module")
def moves(tmp_path_factory):
    """By kernel, (from, to) of every move in shared memory, as Mojo computes them."""
    mojo = ROOT / "build/languages/mojo/bin/mojo"
    if not mojo.exists():
        pytest.skip("mojo: not installed; make mojo")
    cache = str(tmp_path_factory.mktemp("mojo"))
    done = subprocess.run(
        [
            mojo,
            "run",
            "-I",
            ROOT / "kernels/transpose",
            ROOT / "tests/profiling/compile/moves.mojo",
        ],
        env=os.environ | {"MODULAR_TELEMETRY_ENABLED": "0", "MODULAR_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    by_kernel = {}
    for line in done.stdout.splitlines():
        kernel, source, target = line.split()
        by_kernel.setdefault(kernel, []).append((int(source), int(target)))
    return by_kernel


def swizzled(row, column):
    """Where the accelerator puts an element: 16-byte chunks, XORed with the row modulo 8."""
    return row * TILE + ((column // 4) ^ (row % 8)) * 4 + column % 4


def plain(row, column):
    return row * TILE + column


def outcome(moves, place):
    """The (row, column) loaded that ends at each (row, column) of the stored tile, or None."""
    everywhere = [(row, column) for row in range(TILE) for column in range(TILE)]
    loaded = {place(*at): at for at in everywhere}
    stored = {target: loaded[source] for source, target in moves}
    return {at: stored.get(place(*at)) for at in everywhere}


@pytest.mark.parametrize(
    ("kernel", "place"), [("naive", plain), ("swizzle", swizzled), ("batched", swizzled)]
)
def test_the_moves_transpose_a_tile(moves, kernel, place):
    assert len(set(moves[kernel])) == len(moves[kernel]) == ELEMENTS
    for (row, column), came_from in outcome(moves[kernel], place).items():
        assert came_from == (column, row)


def test_the_published_moves_read_four_rows_and_are_wrong_in_seven_of_eight(moves):
    """As in kernels/transpose/swizzle.hpp: place by place, and the resulting output."""
    wanted = []
    for thread in range(128):
        row, column = divmod(thread, TILE)
        for j in range(8):
            # For the swizzle, a column past the tile's 32 is in the next row.
            source = swizzled(row + (column + j) // TILE, (column + j) % TILE) % TILE
            target = swizzled(column + j, row) % TILE
            wanted.append((row * TILE + source, column * TILE + target))
    assert moves["published"] == wanted
    origins = outcome(moves["published"], swizzled)
    assert {came_from[0] for came_from in origins.values()} == {0, 1, 2, 3}
    right = sum(came_from == (column, row) for (row, column), came_from in origins.items())
    assert right == ELEMENTS // 8


STEPS = {
    "load": r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global\.tile\.mbarrier",
    "wait": r"mbarrier\.try_wait\.parity",
    "read": r"\bld\.shared\.",
    "write": r"\bst\.shared\.",
    "fence": r"\n\tbar\.sync",
    "store": r"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta\.tile\.bulk_group",
    "done": r"cp\.async\.bulk\.wait_group",
}


def test_built_code_uses_the_tma_in_the_right_order():
    for facts, ptx in built("mojo", "transpose"):
        text = ptx.read_text()
        places = {step: [m.start() for m in re.finditer(p, text)] for step, p in STEPS.items()}
        counts = {step: len(at) for step, at in places.items()}
        each = ELEMENTS // facts["threads"]
        once = {"load": 1, "wait": 1, "store": 1, "done": 1}
        assert counts == once | {"read": each, "write": each, "fence": 2}, ptx
        assert places["load"] < places["wait"] < places["read"]
        assert max(places["write"]) < places["fence"][1] < places["store"][0] < places["done"][0]
        # The threads' writes are made visible to the accelerator before the barrier.
        fences = [m.start() for m in re.finditer(r"fence\.proxy\.async\.shared::cta", text)]
        assert places["fence"][0] < max(places["write"]) < fences[1] < places["fence"][1]
        assert ".local" not in text
        assert "st.global" not in text and "ld.global" not in text


# On sm_120 and sm_121 waiting on a barrier takes 8 bytes of stack, also in CUDA.
WITHOUT_STACK = ("sm_90", "sm_100", "sm_103")


def test_built_code_needs_no_stack(tmp_path):
    for _, ptx in built("mojo", "transpose"):
        own = re.search(r"\.target (\w+)", ptx.read_text())[1]
        for arch in {own, *(WITHOUT_STACK if own == "sm_90" else ())}:
            log = assembled(ptx, tmp_path / "a.cubin", arch)
            assert "0 bytes spill stores" in log
            # Two tiles and a barrier; a struct in CUDA rounds that up to a multiple of 1024.
            assert f"{2 * 4 * ELEMENTS + 8} bytes smem" in log
            assert "0 bytes stack frame" in log or arch not in WITHOUT_STACK
