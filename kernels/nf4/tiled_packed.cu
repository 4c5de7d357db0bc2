// Thread blocks of 256 x 4 threads, one byte per thread, and both of its weights in one store.
//
// Source: D. Robertson's post, "2D tiled": one of the two designs that packed stores carried past
//         the puzzle's target (4.25 s on a T4). warp_per_block is the other.
// Bound:  latency, as in packed_store. A block of 1024 threads starts and retires as a whole, so at
//         most two are resident on a multiprocessor, and only one where it holds fewer than 2048
//         threads.
// Alone:  make bench KERNEL=tiled_packed
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "tiled_packed",
    .lineage = "D. Robertson's post: 2D tiled, packed stores",
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<256, 4, 1>>,
}};

}  // namespace reprolab::nf4
