# Two bytes per thread, each stored as one packed 32-bit word: the post's final kernel, in Mojo.
#
# Source: D. Robertson's post: its final kernel, in Mojo; its rows of 256 bytes are taken from the
#         flattened tensor, and its nested scale is rounded twice, as bitsandbytes does. Loading
#         both bytes before storing one is our choice. The post's text, read without its listings,
#         leaves it open, but its 0.41 s on an H100-PCIe does not: mojo_packed_512_store_each takes
#         more on an H200, which has more multiprocessors at a higher clock.
# Bound:  latency: two bytes per thread are few loads in flight.
# Counterpart: packed_512
# Alone:  make bench KERNEL=mojo_packed_512
from decode import *

comptime threads = 512
comptime weights_per_block = 2048


@export("nf4")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
def packed_512(
    codes: Bytes, table: Floats, absmax: Floats, scale_codes: Bytes, map: Floats, output: Weights,
    n: Int32, shift: Int32, second_shift: Int32, offset: Float32,
) abi("C"):
    var entries = shared_table(table)
    var scales = Scales(absmax, scale_codes, map, shift, second_shift, offset)
    var row = Int32(block_idx.x) * (weights_per_block // 512) + Int32(thread_idx.x) // 128
    var first_byte = row * 256 + Int32(thread_idx.x) % 128
    # Both bytes are loaded before one is stored. Past the end the last byte is loaded, because
    # branches would keep the loads apart.
    var pairs = SIMD[DType.float32, 4](0)
    comptime for half in range(2):
        var byte = min(first_byte + Int32(128 * half), (n - 1) // 2)
        var pair = decoded_pair(codes, entries, scales.at(2 * byte), byte)
        pairs = pairs.insert[offset=2 * half](pair)
    comptime for half in range(2):
        var pair = pairs.slice[2, offset=2 * half]()
        write_pair(output, pair, first_byte + Int32(128 * half), n)
