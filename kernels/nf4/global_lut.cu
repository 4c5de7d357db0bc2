// The table is an array in global memory, read through L1 for every weight.
//
// Source: bitsandbytes >= 0.48 (pull request 1746), which replaced the branch tree with it.
// Bound:  instruction issue and L1 look-ups; the 64 bytes stay in L1 after the first read.
// Alone:  make bench KERNEL=global_lut
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {
namespace {

__device__ Table table_in_global_memory = standard_table();

struct GlobalLut {
  struct Storage {};
  __device__ explicit GlobalLut(Storage&) {}
  __device__ float operator()(unsigned code) const { return table_in_global_memory.entry[code]; }
};

const Register<Problem> registered{{
    .name = "global_lut",
    .lineage = "bitsandbytes >= 0.48 (pull request 1746)",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<GlobalLut>,
}};

}  // namespace
}  // namespace reprolab::nf4
