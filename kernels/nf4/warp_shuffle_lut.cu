// The table in registers: lane l of a warp holds entry l & 15, and a shuffle fetches it.
//
// Source: bitsandbytes pull request 1747, which was not merged.
// Bound:  instruction issue: one shuffle per weight. The table is never read from memory.
// Alone:  make bench KERNEL=warp_shuffle_lut
#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {
namespace {

struct WarpShuffleLut {
  struct Storage {};
  float entry;

  __device__ explicit WarpShuffleLut(Storage&) : entry(constant_table.entry[threadIdx.x & 15]) {}
  /// All lanes call it together: lanes past the end are predicated, never branched around.
  __device__ float operator()(unsigned code) const {
    return __shfl_sync(0xffffffffu, entry, static_cast<int>(code));
  }
};

const Register<Problem> registered{{
    .name = "warp_shuffle_lut",
    .lineage = "bitsandbytes pull request 1747",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<WarpShuffleLut>,
}};

}  // namespace
}  // namespace reprolab::nf4
