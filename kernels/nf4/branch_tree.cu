// The baseline: a 4-level if-tree whose 16 leaves are immediates. It reads no table from memory.
//
// Source: bitsandbytes <= 0.47.0 (dDequantizeNF4), the baseline of the paper's Table II.
// Bound:  instruction issue; the lanes of a warp diverge at every level of the tree.
// Alone:  make bench KERNEL=branch_tree
#include "kernels/nf4/branch_tree.cuh"

namespace reprolab::nf4 {
namespace {

struct Literals {
  __device__ static float entry(int code) { return table_entry(code); }
};

const Register<Problem> registered{{
    .name = "branch_tree",
    .lineage = "bitsandbytes <= 0.47.0; the paper's baseline",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<TreeOf<Literals>>,
}};

}  // namespace
}  // namespace reprolab::nf4
