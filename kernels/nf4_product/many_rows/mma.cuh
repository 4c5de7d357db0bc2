// How many_rows multiplies a step: a tile of weights in registers by the activations of a stage.
#pragma once

#include "kernels/nf4_product/many_rows/tiling.hpp"
#include "kernels/nf4_product/wgmma.cuh"

namespace reprolab::nf4_product {

/// Starts `into` = weights of a step x activations of `ActiveM` rows from `first_m` on, plus `into`
/// if `adds`: by wgmma for the 64 columns of a warpgroup; or by mma for the 16 of a warp, complete
/// on return. `step` is the number of the step in stage `stage` of the activations.
template <class Out, int TileM, int Warpgroups, int ActiveM>
__device__ void start_step(float (&into)[TileM / 2], const std::uint32_t (&weights)[4][4],
                           bool adds, const unsigned char* shared, int stage, int step,
                           int first_m) {
  constexpr ManyRowsLayout layout(TileM, Warpgroups * 4);
  if constexpr (has_wgmma) {
    constexpr int descriptor_bytes = 16;
    const std::uint64_t descriptor = matrix_descriptor(0) + layout.stage(stage) / descriptor_bytes;
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      wgmma<Out, ActiveM / 2>(
          into, weights[j],
          descriptor + ((step * TileM + first_m) * step_bytes + j * 32) / descriptor_bytes,
          adds || j > 0);
    }
    wgmma_commit();
    __syncwarp();  // so that the compiler starts them all before it decodes the next step
    return;
  }
  const unsigned char* const columns =
      shared + layout.stage(stage) + (step * TileM + first_m) * step_bytes;
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
  for (int t = 0; t < ActiveM / 8; ++t) {
    float product[4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (adds) product[r] = into[t * 4 + r];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // Pair `p` of the step, in this lane's row and place of a fragment.
      const auto pair = [&](int p) {
        return *reinterpret_cast<const std::uint32_t*>(columns + (t * 8 + row) * step_bytes +
                                                       (p ^ row) * 16 + quad * 4);
      };
      multiply_add<Out>(product, weights[j], pair(j * 2), pair(j * 2 + 1));
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) into[t * 4 + r] = product[r];
  }
}

}  // namespace reprolab::nf4_product
