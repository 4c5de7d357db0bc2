// wide_store_hints with two words per thread: twice as many loads are in flight, and half as many
// blocks fill a table.
//
// Source: ours, a step from the post's packed stores to streaming, which prefetches its reads.
// Bound:  memory: DRAM switches between reads and writes too often.
// Alone:  make bench KERNEL=wide_store_unrolled
#include "kernels/nf4/streaming.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "wide_store_unrolled",
    .lineage = "ours: 16-byte stores, two per thread",
    .supports = supports_standard_table,
    .launch = launch_streaming<StreamShape<512, 2, StreamingAccess, StreamingAccess, 0>>,
}};

}  // namespace reprolab::nf4
