// packed_store with words instead of bytes: a thread loads 8 codes in 4 bytes and writes 8 weights
// in one 16-byte store, without cache hints.
//
// Source: ours, a step from the post's packed stores to streaming. The step before it is
//         packed_store, the next is wide_store_hints.
// Bound:  latency: with one load per thread, few loads are in flight.
// Alone:  make bench KERNEL=wide_store
#include "kernels/nf4/streaming.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "wide_store",
    .lineage = "ours: 16-byte stores",
    .supports = supports_standard_table,
    .launch = launch_streaming<StreamShape<512, 1, PlainAccess, PlainAccess, 0>>,
}};

}  // namespace reprolab::nf4
