# mojo_packed_512 in the order of the post's text: a thread decodes a byte and stores its two
# weights before it loads its second byte.
#
# Source: D. Robertson's post: its final kernel, each byte stored before the next is loaded, in
#         Mojo; "calculate two weights, pack them into a 32-bit integer, and write once", unrolled
#         by hand to two bytes per thread. mojo_packed_512 loads both first, which is our choice:
#         the post leaves the order open.
# Bound:  latency: no load of the second byte is in flight while a thread waits for the first.
# Counterpart: packed_512_store_each
# Alone:  make bench KERNEL=mojo_packed_512_store_each
from decode import *

comptime threads = 512
comptime weights_per_block = 2048


@export("nf4")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
def packed_512_store_each(
    codes: Bytes, table: Floats, absmax: Floats, scale_codes: Bytes, map: Floats, output: Weights,
    n: Int32, shift: Int32, second_shift: Int32, offset: Float32,
) abi("C"):
    var entries = shared_table(table)
    var scales = Scales(absmax, scale_codes, map, shift, second_shift, offset)
    var row = Int32(block_idx.x) * (weights_per_block // 512) + Int32(thread_idx.x) // 128
    var first_byte = row * 256 + Int32(thread_idx.x) % 128
    comptime for half in range(2):
        var byte = first_byte + Int32(128 * half)
        if 2 * byte < n:
            write_pair(output, decoded_pair(codes, entries, scales.at(2 * byte), byte), byte, n)
