# As mojo_tma_swizzle, but each thread moves eight elements of a row, so that a block has 128
# threads instead of 1024. In Mojo, with indices that are right.
#
# Source: Veitner's transpose post, batched, in Mojo with right indices; they are those of his CUDA,
#         and mojo_tma_batched_as_published has the post's own.
# Bound:  memory, and latency: load, exchange and store of a tile follow one another.
# Counterpart: tma_batched
# Alone:  make bench KERNEL=mojo_tma_batched
from tma import *

comptime threads = 128
comptime swizzle_bytes = 128


@export("transpose")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
@__llvm_arg_metadata(input, `nvvm.grid_constant`)
@__llvm_arg_metadata(output, `nvvm.grid_constant`)
def tma_batched(
    input: TMADescriptor, output: TMADescriptor, tile_columns: UInt32
) abi("Mojo"):
    var loaded = new_tile()
    var transposed = new_tile()
    var row, column = tile_start(tile_columns)
    load(input, loaded, row, column)
    comptime for j in range(batch):
        var r, c = batched_element(UInt32(thread_idx.x), UInt32(j))
        move(loaded, place[swizzle_bytes](r, c), transposed, place[swizzle_bytes](c, r))
    store(output, transposed, column, row)
