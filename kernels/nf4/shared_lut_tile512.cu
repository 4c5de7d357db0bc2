// The paper's kernel in the other reading of its "512": 8 weights a thread, 512 weights a block,
// where the code it modifies takes 512 bytes.
//
// Source: paper, sections IV-B and IV-F ("each block handles 512 weight elements").
// Bound:  instruction issue; twice the blocks, so twice the fills, of shared_lut.
// Alone:  make bench KERNEL=shared_lut_tile512
#include "kernels/nf4/shared_lut.cuh"
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {
namespace {

const Register<Problem> registered{{
    .name = "shared_lut_tile512",
    .lineage = "paper, section IV-F: 512 weights a block, 8 a thread",
    .source_file = "kernels/nf4/shared_lut_tile512.cu",
    .contract = {},
    .supports = supports_standard_table,
    .launch = launch_tile_walk<SharedLut, TileShape<4>>,
}};

}  // namespace
}  // namespace reprolab::nf4
