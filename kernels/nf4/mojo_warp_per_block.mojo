# A warp takes 64 weights, which share a scale; packed 32-bit stores, in Mojo.
#
# Source: D. Robertson's post: warp per block, in Mojo; each half of a warp reads a scale, so that
#         blocks may have 32 weights.
# Bound:  latency: one byte per thread, and a shuffle for its scale.
# Counterpart: warp_per_block
# Alone:  make bench KERNEL=mojo_warp_per_block
from decode import *
from max.gpu import lane_id
from max.gpu.primitives.warp import shuffle_idx

comptime threads = 256
comptime weights_per_block = 512


@export("nf4")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
def warp_per_block(
    codes: Bytes, table: Floats, absmax: Floats, scale_codes: Bytes, map: Floats, output: Weights,
    n: Int32, shift: Int32, second_shift: Int32, offset: Float32,
) abi("C"):
    var entries = shared_table(table)
    var byte = Int32(block_idx.x) * (weights_per_block // 2) + Int32(thread_idx.x)
    var scale = Float32(0)
    if lane_id() % 16 == 0 and 2 * byte < n:
        scale = Scales(absmax, scale_codes, map, shift, second_shift, offset).at(2 * byte)
    scale = shuffle_idx(scale, UInt32(lane_id() & 16))
    if 2 * byte < n:
        write_pair(output, decoded_pair(codes, entries, scale, byte), byte, n)
