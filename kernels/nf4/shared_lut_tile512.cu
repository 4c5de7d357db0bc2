// The paper's kernel with its "512" read as weights: 512 weights per block, 8 per thread. The code
// that it modifies takes 512 bytes (1024 weights) per block.
//
// Source: paper, sections IV-B and IV-F ("each block handles 512 weight elements").
// Bound:  instruction issue; twice as many blocks as shared_lut, so twice as many table fills.
// Alone:  make bench KERNEL=shared_lut_tile512
#include "kernels/nf4/shared_lut.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "shared_lut_tile512",
    .lineage = "paper, section IV-F: 512 weights per block, 8 per thread",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<SharedLut, TileShape<4>>,
}};

}  // namespace reprolab::nf4
