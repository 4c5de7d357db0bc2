"""The transpose's kernels in Mojo: the elements that each thread moves."""

import os
import subprocess

import pytest
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
