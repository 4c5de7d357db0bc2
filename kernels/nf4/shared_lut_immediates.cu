// One thread fills the shared table from literals in the code instead of from constant memory.
//
// Source: paper, section IV-C, which expects the literals to increase the pressure on the
//         instruction cache.
// Bound:  instruction issue, as in shared_lut.
// Alone:  make bench KERNEL=shared_lut_immediates
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {
namespace {

struct FillFromLiterals {
  __device__ static void fill(float* table) {
    if (threadIdx.x != 0) return;
      // Unrolled, so that each store has its entry as an immediate.
#pragma unroll
    for (int code = 0; code < 16; ++code) table[code] = table_entry(code);
  }
};

const Register<Problem> registered{{
    .name = "shared_lut_immediates",
    .lineage = "paper, section IV-C: filled from literals",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<SharedTable<FillFromLiterals>>,
}};

}  // namespace
}  // namespace reprolab::nf4
