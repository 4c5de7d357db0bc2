// The paper's kernel: bitsandbytes' walk with the branch tree replaced by a 64-byte table in shared
// memory, which one thread fills.
//
// Source: paper, section V-A, in the walk of the kernel that it modifies: 8 bytes (16 weights)
//         per thread.
// Bound:  instruction issue; the 32 lanes of a warp read at most 16 distinct shared-memory words.
// Alone:  make bench KERNEL=shared_lut
#include "kernels/nf4/shared_lut.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "shared_lut",
    .lineage = "the paper's kernel, section V-A",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<SharedLut>,
}};

}  // namespace reprolab::nf4
