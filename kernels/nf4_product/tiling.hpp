// The tiling that both designs share: the extents of a tile along K, and how tiles are split.
#pragma once

#include <cuda_runtime.h>

namespace reprolab::nf4_product {

/// A step is 128 bytes of a row of activations; a tile's codes of one column of the output are 128
/// bytes.
inline constexpr int step_k = 64, step_bytes = step_k * 2;
inline constexpr int tile_k = 256, tile_k_bytes = tile_k / 2;
inline constexpr int tile_steps = tile_k / step_k;

/// Splits `items` into `count` ranges that differ by one at most, the larger ones first.
struct EvenSplit {
  int each = 0, larger = 0;

  __host__ __device__ EvenSplit(int items, int count)
      : each(items / count), larger(items % count) {}
  __host__ __device__ int begin(int i) const { return i * each + (i < larger ? i : larger); }
  __host__ __device__ int size(int i) const { return each + (i < larger ? 1 : 0); }
};

}  // namespace reprolab::nf4_product
