// packed_512 with twice as many threads in a block and nothing else changed: 256 x 4 threads over
// tiles of 4 rows x 512 bytes.
//
// Source: D. Robertson's post, which went from 1024 threads to 512 for occupancy. Its own kernel of
//         1024 threads, tiled_packed, also took one byte per thread instead of two.
// Bound:  latency, as in packed_512, and the residency of large blocks, as in tiled_packed.
// Alone:  make bench KERNEL=packed_1024
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "packed_1024",
    .lineage = "D. Robertson's post: 1024 threads for 512",
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<256, 4, 2>>,
}};

}  // namespace reprolab::nf4
