# As mojo_tma_swizzle, but each thread moves eight elements of a row, so that a block has 128
# threads instead of 1024. In Mojo, with indices that are right.
#
# Source: Veitner's transpose post, batched, in Mojo with right indices; they are those of his CUDA,
#         and mojo_tma_batched_as_published has the post's own.
# Bound:  memory, and latency: load, exchange and store of a tile follow one another.
# Launch: 128 threads for a tile of 32 x 32 swizzled by 128 bytes.
# Counterpart: tma_batched
# Alone:  make bench KERNEL=mojo_tma_batched
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA, thread_idx
from std.utils import StaticTuple
from tma import *


@export("transpose")
@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](128))
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
        move(loaded, flat_swizzled(r, c), transposed, flat_swizzled(c, r))
    store(output, transposed, column, row)
