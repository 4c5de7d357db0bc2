# One byte per thread, stored as one packed 32-bit word, in tiles of 4 x 256 bytes, in Mojo.
#
# Source: D. Robertson's post: 2D tiled, in Mojo; its rows of 256 bytes are taken from the flattened
#         tensor.
# Bound:  latency: a thread waits for one byte and its scale, and has no other work.
# Counterpart: tiled_packed
# Alone:  make bench KERNEL=mojo_tiled_2d
from decode import *

comptime threads = 1024
comptime weights_per_block = 2048


@export("nf4")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
def tiled_2d(
    codes: Bytes, table: Floats, absmax: Floats, scale_codes: Bytes, map: Floats, output: Weights,
    n: Int32, shift: Int32, second_shift: Int32, offset: Float32,
) abi("C"):
    var entries = shared_table(table)
    var column = Int32(thread_idx.x) % 256
    var row = Int32(block_idx.x) * (weights_per_block // 512) + Int32(thread_idx.x) // 256
    var byte = row * 256 + column
    if 2 * byte < n:
        var scales = Scales(absmax, scale_codes, map, shift, second_shift, offset)
        write_pair(output, decoded_pair(codes, entries, scales.at(2 * byte), byte), byte, n)
