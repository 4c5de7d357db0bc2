"""Common parts of the transpose's Mojo kernels: the tensor memory accelerator, by the library's own
functions, as in the post.

kernels/transpose/tma.cuh has the same for CUDA, and kernels/transpose/family.cu describes the
arguments.
"""

from max.gpu import barrier, block_idx, thread_idx
from max.gpu.host.nvidia.tma import TMADescriptor
from max.gpu.memory import (
    AddressSpace,
    cp_async_bulk_tensor_global_shared_cta,
    cp_async_bulk_tensor_shared_cluster_global,
    fence_async_view_proxy,
)
from max.gpu.sync import (
    cp_async_bulk_commit_group,
    cp_async_bulk_wait_group,
    mbarrier_arrive_expect_tx_shared,
    mbarrier_init,
    mbarrier_try_wait_parity_shared,
)
from std.memory import unsafe_stack_allocation
from std.utils import Index, StaticTuple
from swizzle import *

comptime elements = Int(tile * tile)
comptime Tile = MutPointer[Float32, MutUntrackedOrigin, address_space=AddressSpace.SHARED]


@always_inline
def new_tile() -> Tile:
    """In shared memory; the swizzle repeats every 1024 bytes, from multiples of 1024 on."""
    return unsafe_stack_allocation[
        elements, Float32, address_space=AddressSpace.SHARED, alignment=1024
    ]()


@always_inline
def tile_start(tile_columns: UInt32) -> Tuple[Int, Int]:
    """Row and column of the first element of the block's tile in the input."""
    var block = UInt32(block_idx.x)
    return Int(block // tile_columns * tile), Int(block % tile_columns * tile)


@always_inline
def load(input: TMADescriptor, to: Tile, row: Int, column: Int):
    """Loads the tile whose first element is (row, column); it has arrived when this returns."""
    var arrived = unsafe_stack_allocation[1, Int64, address_space=AddressSpace.SHARED]()
    if thread_idx.x == 0:
        mbarrier_init(arrived, 1)
        fence_async_view_proxy()  # visible to the accelerator
        mbarrier_arrive_expect_tx_shared(arrived, Int32(elements * 4))
        var map = Pointer(to=input).unsafe_bitcast[NoneType]()
        cp_async_bulk_tensor_shared_cluster_global(to, map, arrived, Index(column, row))
    barrier()  # no thread may wait on a barrier that is not initialized
    mbarrier_try_wait_parity_shared(arrived, 0, 10_000_000)


@always_inline
def move(loaded: Tile, source: UInt32, transposed: Tile, target: UInt32):
    transposed[unsafe_offset=Int(target)] = loaded[unsafe_offset=Int(source)]


@always_inline
def store(output: TMADescriptor, transposed: Tile, row: Int, column: Int):
    """Stores what all threads have written as the tile whose first element is (row, column)."""
    fence_async_view_proxy()
    barrier()
    if thread_idx.x == 0:
        var map = Pointer(to=output).unsafe_bitcast[NoneType]()
        cp_async_bulk_tensor_global_shared_cta(transposed, map, Index(column, row))
        cp_async_bulk_commit_group()
        cp_async_bulk_wait_group[0]()
