// Thread blocks of 128 x 4 threads and tiles of 4 rows x 256 bytes: thread x of a row decodes bytes
// x and x + 128, with a scale and a 32-bit store for each. Both are loaded before one is stored.
//
// Source: D. Robertson's post, its final kernel, with two roundings in the nested scale, as in
//         bitsandbytes. packed_512_as_published has the post's own. Loading both bytes before
//         storing one is our choice; mojo_packed_512.mojo has the reason.
// Bound:  latency: two bytes per thread are few loads in flight, and each also waits for a scale.
// Alone:  make bench KERNEL=packed_512
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "packed_512",
    .lineage = "D. Robertson's post: its final kernel, but exact",
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<128, 4, 2>>,
}};

}  // namespace reprolab::nf4
