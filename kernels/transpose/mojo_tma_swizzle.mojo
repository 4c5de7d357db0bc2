# As mojo_tma_naive, but the accelerator spreads the 16-byte chunks of the tile's rows over the
# banks, so that a warp's stores to one column hit eight banks instead of one. In Mojo.
#
# Source: Veitner's transpose post, swizzling, in Mojo; its grid of two dimensions is numbered in
#         one.
# Bound:  shared memory and instruction issue: 4-way bank conflicts remain, and each thread moves
#         one element.
# Launch: 1024 threads for a tile of 32 x 32 swizzled by 128 bytes.
# Counterpart: tma_swizzle
# Alone:  make bench KERNEL=mojo_tma_swizzle
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA, thread_idx
from std.utils import StaticTuple
from tma import *


@export("transpose")
@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](1024))
@__llvm_arg_metadata(input, `nvvm.grid_constant`)
@__llvm_arg_metadata(output, `nvvm.grid_constant`)
def tma_swizzle(
    input: TMADescriptor, output: TMADescriptor, tile_columns: UInt32
) abi("Mojo"):
    var loaded = new_tile()
    var transposed = new_tile()
    var row, column = tile_start(tile_columns)
    load(input, loaded, row, column)
    var r, c = single_element(UInt32(thread_idx.x))
    move(loaded, flat_swizzled(r, c), transposed, flat_swizzled(c, r))
    store(output, transposed, column, row)
