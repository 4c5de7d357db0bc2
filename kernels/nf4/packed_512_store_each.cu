// packed_512 in the order of the post's text: a thread decodes a byte and stores its two weights
// before it loads its second byte. packed_512 loads both first; nothing else differs.
//
// Source: D. Robertson's post: "calculate two weights, pack them into a 32-bit integer, and write
//         once", unrolled by hand to two bytes per thread. The order of loads and stores is
//         inferred: the copy of the post that was read lacks its listings.
// Bound:  latency: no load of the second byte is in flight while a thread waits for the first.
// Alone:  make bench KERNEL=packed_512_store_each
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "packed_512_store_each",
    .lineage = "D. Robertson's post: its final kernel, each byte stored before the next is loaded",
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<128, 4, 2, 1>>,
}};

}  // namespace reprolab::nf4
