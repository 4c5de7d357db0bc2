"""Common parts of the sums in Mojo. kernels/reduction/one_atomic.cu has the same loop for CUDA, and
kernels/reduction/family.cu describes the arguments."""

from max.gpu import block_idx, grid_dim, thread_idx
from max.gpu.primitives import block
from std.atomic import Atomic, Ordering
from std.utils import StaticTuple

comptime Words = ImmPointer[UInt32, ImmUntrackedOrigin]
comptime Sum = MutPointer[UInt32, MutUntrackedOrigin]


@always_inline
def add_block[threads: Int, loads: Int](input: Words, output: Sum, n: Int):
    """Each thread adds `loads` vectors of eight words in a row, in a loop over as many threads as
    there are words: only the first trip finds words, the others compare."""
    var i = Int(block_idx.x) * threads + Int(thread_idx.x)
    var sum = UInt32(0)
    if i < n % 8:  # what follows the last vector; in the source there is none
        sum += input[unsafe_offset=n - 1 - i]
    while i < n:
        comptime for j in range(loads):
            var vector = i * loads + j
            if vector < n // 8:
                var words = input.unsafe_offset(8 * vector)
                sum += words.unsafe_load[width=8, alignment=32]().reduce_add()
        i += Int(grid_dim.x) * threads
    sum = block.sum[block_size=threads, broadcast=False](sum)
    if thread_idx.x == 0:  # as CUDA's atomicAdd
        _ = Atomic[UInt32, scope="device"].fetch_add[ordering=Ordering.RELAXED](output, sum)
