// wide_store with cache hints: neither what is read nor what is written needs to stay cached.
//
// Source: ours, a step from the post's packed stores to streaming. The next is wide_store_unrolled.
// Bound:  latency, as in wide_store.
// Alone:  make bench KERNEL=wide_store_hints
#include "kernels/nf4/streaming.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "wide_store_hints",
    .lineage = "ours: 16-byte stores and cache hints",
    .supports = supports_standard_table,
    .launch = launch_streaming<StreamShape<512, 1, StreamingAccess, StreamingAccess, 0>>,
}};

}  // namespace reprolab::nf4
