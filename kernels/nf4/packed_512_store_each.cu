// packed_512 in the order in which the post's words come: a thread decodes a byte and stores its
// two weights before it loads its second byte. packed_512 loads both first; nothing else differs.
//
// Source: D. Robertson's post: "calculate two weights, pack them into a 32-bit integer, and write
//         once", unrolled by hand to two bytes per thread. The order of loads and stores was
//         not read in its listings, which the copy that was read lacks.
// Bound:  latency: nothing of the second byte is in flight while the first is waited for.
// Alone:  make bench KERNEL=packed_512_store_each
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {
namespace {

const Register<Problem> registered{{
    .name = "packed_512_store_each",
    .lineage = "D. Robertson's post: its final kernel, each byte stored before the next is loaded",
    .contract = BitExact{},
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<128, 4, 2, 1>>,
}};

}  // namespace
}  // namespace reprolab::nf4
