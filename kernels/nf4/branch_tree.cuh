// The decode step of bitsandbytes <= 0.47.0: a 4-level if-tree with 16 leaves. `Leaves` holds their
// values: literals, as in bitsandbytes, or entries of a table in memory.
#pragma once

#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {

/// Tests the bits of a code from the highest to the lowest. `leaves.entry(code)` is the value of a
/// leaf, whose code is a constant.
template <class Leaves>
__device__ __forceinline__ float walk_tree(const Leaves& leaves, unsigned code) {
  if ((code & 8u) == 8u) {
    if ((code & 4u) == 4u) {
      if ((code & 2u) == 2u) {
        if ((code & 1u) == 1u) {
          return leaves.entry(15);
        } else {
          return leaves.entry(14);
        }
      } else if ((code & 1u) == 1u) {
        return leaves.entry(13);
      } else {
        return leaves.entry(12);
      }
    } else if ((code & 2u) == 2u) {
      if ((code & 1u) == 1u) {
        return leaves.entry(11);
      } else {
        return leaves.entry(10);
      }
    } else if ((code & 1u) == 1u) {
      return leaves.entry(9);
    } else {
      return leaves.entry(8);
    }
  } else if ((code & 4u) == 4u) {
    if ((code & 2u) == 2u) {
      if ((code & 1u) == 1u) {
        return leaves.entry(7);
      } else {
        return leaves.entry(6);
      }
    } else if ((code & 1u) == 1u) {
      return leaves.entry(5);
    } else {
      return leaves.entry(4);
    }
  } else if ((code & 2u) == 2u) {
    if ((code & 1u) == 1u) {
      return leaves.entry(3);
    } else {
      return leaves.entry(2);
    }
  } else if ((code & 1u) == 1u) {
    return leaves.entry(1);
  } else {
    return leaves.entry(0);
  }
}

/// The decode policy.
template <class Leaves>
struct TreeOf {
  struct Storage {};
  Leaves leaves;

  __device__ explicit TreeOf(Storage&) {}
  __device__ float operator()(unsigned code) const { return walk_tree(leaves, code); }
};

}  // namespace reprolab::nf4
