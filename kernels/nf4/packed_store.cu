// Two weights in one 32-bit store.
//
// Source: D. Robertson's post, "packed stores".
// Bound:  latency: a thread waits for one byte and its scale, and has no other work.
// Alone:  make bench KERNEL=packed_store
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "packed_store",
    .lineage = "D. Robertson's post: packed 32-bit stores",
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore>,
}};

}  // namespace reprolab::nf4
