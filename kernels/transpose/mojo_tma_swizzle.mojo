# As mojo_tma_naive, but the accelerator spreads the 16-byte chunks of the tile's rows over the
# banks, so that a warp's stores to one column hit eight banks instead of one. In Mojo.
#
# Source: Veitner's transpose post, swizzling, in Mojo; its grid of two dimensions is numbered in
#         one.
# Bound:  shared memory and instruction issue: 4-way bank conflicts remain, and each thread moves
#         one element.
# Counterpart: tma_swizzle
# Alone:  make bench KERNEL=mojo_tma_swizzle
from tma import *

comptime threads = 1024
comptime swizzle_bytes = 128


@export("transpose")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
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
    move(loaded, place[swizzle_bytes](r, c), transposed, place[swizzle_bytes](c, r))
    store(output, transposed, column, row)
