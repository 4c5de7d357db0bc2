// The baseline: a 4-level if-tree whose 16 leaves are immediates. It reads no table from memory.
//
// Source: bitsandbytes <= 0.47.0 (dDequantizeNF4), the baseline of the paper's Table II.
// Bound:  instruction issue; the lanes of a warp diverge at every level of the tree.
// Alone:  make bench KERNEL=branch_tree
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {
namespace {

/// Tests the bits of a code from the highest to the lowest.
__device__ __forceinline__ float walk_tree(unsigned code) {
  if ((code & 8u) == 8u) {
    if ((code & 4u) == 4u) {
      if ((code & 2u) == 2u) {
        if ((code & 1u) == 1u) {
          return table_entry(15);
        } else {
          return table_entry(14);
        }
      } else if ((code & 1u) == 1u) {
        return table_entry(13);
      } else {
        return table_entry(12);
      }
    } else if ((code & 2u) == 2u) {
      if ((code & 1u) == 1u) {
        return table_entry(11);
      } else {
        return table_entry(10);
      }
    } else if ((code & 1u) == 1u) {
      return table_entry(9);
    } else {
      return table_entry(8);
    }
  } else if ((code & 4u) == 4u) {
    if ((code & 2u) == 2u) {
      if ((code & 1u) == 1u) {
        return table_entry(7);
      } else {
        return table_entry(6);
      }
    } else if ((code & 1u) == 1u) {
      return table_entry(5);
    } else {
      return table_entry(4);
    }
  } else if ((code & 2u) == 2u) {
    if ((code & 1u) == 1u) {
      return table_entry(3);
    } else {
      return table_entry(2);
    }
  } else if ((code & 1u) == 1u) {
    return table_entry(1);
  } else {
    return table_entry(0);
  }
}

struct BranchTree {
  struct Storage {};
  __device__ explicit BranchTree(Storage&) {}
  __device__ float operator()(unsigned code) const { return walk_tree(code); }
};

const Register<Problem> registered{{
    .name = "branch_tree",
    .lineage = "bitsandbytes <= 0.47.0; the paper's baseline",
    .contract = BitExact{},
    .supports = supports_standard_table,
    .launch = launch_tile_walk<BranchTree>,
}};

}  // namespace
}  // namespace reprolab::nf4
