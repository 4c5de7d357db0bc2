# The tensor memory accelerator moves the tiles; in between, each thread moves one element, and a
# warp's 32 stores to one column all hit the same bank. In Mojo.
#
# Source: Veitner's transpose post, naive approach, in Mojo; its grid of two dimensions is numbered
#         in one.
# Bound:  32-way bank conflicts in shared memory.
# Launch: 1024 threads for a tile of 32 x 32.
# Counterpart: tma_naive
# Alone:  make bench KERNEL=mojo_tma_naive
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA, thread_idx
from std.utils import StaticTuple
from tma import *


@export("transpose")
@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](1024))
@__llvm_arg_metadata(input, `nvvm.grid_constant`)
@__llvm_arg_metadata(output, `nvvm.grid_constant`)
def tma_naive(
    input: TMADescriptor, output: TMADescriptor, tile_columns: UInt32
) abi("Mojo"):
    var loaded = new_tile()
    var transposed = new_tile()
    var row, column = tile_start(tile_columns)
    load(input, loaded, row, column)
    var r, c = single_element(UInt32(thread_idx.x))
    move(loaded, flat(r, c), transposed, flat(c, r))
    store(output, transposed, column, row)
