# The batched kernel with the post's own indices, in Mojo: a thread adds its step to the column only
# inside the swizzle, and rows 4 to 31 of a tile are never read.
#
# Source: Veitner's transpose post, batched, in Mojo as published; its repository has the indices
#         (simveit/efficient_transpose_mojo, transpose_swizzle_batched.mojo).
# Bound:  as mojo_tma_batched: it moves the same number of bytes.
# Counterpart: tma_batched_as_published
# Alone:  make bench KERNEL=mojo_tma_batched_as_published
from tma import *

comptime threads = 128
comptime swizzle_bytes = 128


@export("transpose")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
@__llvm_arg_metadata(input, `nvvm.grid_constant`)
@__llvm_arg_metadata(output, `nvvm.grid_constant`)
def tma_batched_as_published(
    input: TMADescriptor, output: TMADescriptor, tile_columns: UInt32
) abi("Mojo"):
    var loaded = new_tile()
    var transposed = new_tile()
    var row, column = tile_start(tile_columns)
    load(input, loaded, row, column)
    comptime for j in range(batch):
        var source, target = published_move[swizzle_bytes](UInt32(thread_idx.x), UInt32(j))
        move(loaded, source, transposed, target)
    store(output, transposed, column, row)
