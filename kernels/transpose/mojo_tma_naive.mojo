# The tensor memory accelerator moves the tiles; in between, each thread moves one element, and a
# warp's 32 stores to one column all hit the same bank. In Mojo.
#
# Source: Veitner's transpose post, naive approach, in Mojo; its grid of two dimensions is numbered
#         in one.
# Bound:  32-way bank conflicts in shared memory.
# Counterpart: tma_naive
# Alone:  make bench KERNEL=mojo_tma_naive
from tma import *

comptime threads = 1024
comptime swizzle_bytes = 0


@export("transpose")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
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
    move(loaded, place[swizzle_bytes](r, c), transposed, place[swizzle_bytes](c, r))
    store(output, transposed, column, row)
