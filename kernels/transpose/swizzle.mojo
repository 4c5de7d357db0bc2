"""Where the elements of a tile lie in shared memory, and which of them a thread moves.
kernels/transpose/tiles.hpp has the same for CUDA, with sources and a test without a GPU."""

comptime tile = UInt32(32)  # rows, of 32 fp32 elements, which are 128 bytes
comptime batch = 8  # elements per thread, where it moves several


@always_inline
def flat(row: UInt32, column: UInt32) -> UInt32:
    """Index in shared memory of an element of a tile."""
    return row * tile + column


@always_inline
def swizzled[bytes: Int](row: UInt32, column: UInt32) -> UInt32:
    """Column in shared memory of an element of a tile that is swizzled by 128 bytes, or by none. A
    column past the tile's continues in the next row, as in the post's arithmetic on flat indices."""
    comptime if bytes == 0:
        return column
    comptime assert bytes == 128
    var chunk = column // 4 % 8
    return (chunk ^ (row + column // tile)) % 8 * 4 + column % 4


@always_inline
def place[bytes: Int](row: UInt32, column: UInt32) -> UInt32:
    return flat(row, swizzled[bytes](row, column))


@always_inline
def single_element(thread: UInt32) -> Tuple[UInt32, UInt32]:
    """Row and column of the one element that each of 1024 threads moves."""
    return thread // tile, thread % tile


@always_inline
def batched_element(thread: UInt32, j: UInt32) -> Tuple[UInt32, UInt32]:
    """Row and column of element `j` of the eight that each of 128 threads moves."""
    return thread // 4, thread % 4 * 8 + j


@always_inline
def published_move[bytes: Int](thread: UInt32, j: UInt32) -> Tuple[UInt32, UInt32]:
    """Indices that a thread of the post's batched kernel reads and writes in its step `j`: the
    columns are those of 1024 threads, and only inside the swizzle is the step added to them."""
    var row, column = single_element(thread)
    return place[bytes](row, column + j), flat(column, swizzled[bytes](column + j, row))
