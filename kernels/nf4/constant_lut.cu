// The table is read from constant memory for every weight.
//
// Source: paper, section IV-C, which names constant memory as a place for the table.
// Bound:  the constant cache serves one address at a time, so the lanes of a warp, each with its
//         own code, are serialized.
// Alone:  make bench KERNEL=constant_lut
#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {
namespace {

struct ConstantLut {
  struct Storage {};
  __device__ explicit ConstantLut(Storage&) {}
  __device__ float operator()(unsigned code) const { return constant_table.entry[code]; }
};

const Register<Problem> registered{{
    .name = "constant_lut",
    .lineage = "paper, section IV-C: the alternative it weighs",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<ConstantLut>,
}};

}  // namespace
}  // namespace reprolab::nf4
