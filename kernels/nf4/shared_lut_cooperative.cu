// The paper's rejected alternative for filling the table: 16 threads copy one entry each.
//
// Source: paper, section IV-F, which expects coordination and bank conflicts to cost more.
// Bound:  instruction issue, as in shared_lut.
// Alone:  make bench KERNEL=shared_lut_cooperative
#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {
namespace {

struct FillTogether {
  __device__ static void fill(float* table) {
    if (threadIdx.x < 16) table[threadIdx.x] = constant_table.entry[threadIdx.x];
  }
};

const Register<Problem> registered{{
    .name = "shared_lut_cooperative",
    .lineage = "paper, section IV-F: the fill it rejects",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<SharedTable<FillTogether>>,
}};

}  // namespace
}  // namespace reprolab::nf4
