// What becomes of a warp's sums in many_rows: outputs, or parts of them that a second launch adds.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/grid.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/many_rows_cut.hpp"
#include "kernels/nf4_product/sums.cuh"

namespace reprolab::nf4_product {

/// The sums of the parts of a product, in tiles of eight rows and a warp's outputs: each lane's
/// four lie together.
struct TileSums {
  int parts = 1;
  std::int64_t rows = 0, columns = 0;  ///< Of tiles.
  float4* sums = nullptr;              ///< [parts][rows][columns][lanes]

  /// In the problem's workspace.
  TileSums(int parts, const Problem& problem)
      : parts(parts),
        rows(blocks_over(problem.m, 8)),
        columns(blocks_over(problem.n, warp_outputs)),
        sums(static_cast<float4*>(problem.workspace)) {}
  std::int64_t bytes() const { return parts == 1 ? 0 : parts * rows * columns * lanes * 16; }

  __device__ float4* of(int part, std::int64_t tile) const {
    return sums + (part * rows * columns + tile) * lanes;
  }
};

/// Writes the rounded sums of a warp's outputs from `output` on, of which only the first `left`
/// exist, for `rows` rows from `row` on. A lane has two outputs, eight apart, of two rows of every
/// eight.
template <class Out>
class TileWriter {
 public:
  __device__ TileWriter(void* to, const void* bias, std::int64_t n, std::int64_t row, int rows,
                        std::int64_t output, int left)
      : n_(n), rows_(rows - lane() % 4 * 2), left_(left - lane() / 4) {
    output += lane() / 4;
    to_ = static_cast<Out*>(to) + (row + lane() % 4 * 2) * n + output;
    for (int half = 0; half < 2; ++half) {
      if (bias != nullptr && half * 8 < left_) {
        bias_[half] = to_float(static_cast<const Out*>(bias)[output + half * 8]);
      }
    }
  }
  /// Those of the rows from eight times `e` on.
  __device__ void write(int e, float4 sums) const {
    const float values[2][2] = {{sums.x, sums.y}, {sums.z, sums.w}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (e * 8 + i < rows_ && half * 8 < left_) {
          to_[(e * 8 + i) * n_ + half * 8] = nf4::round_to<Out>(values[half][i] + bias_[half]);
        }
      }
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(this_lane()); }

  Out* to_;
  std::int64_t n_;
  int rows_, left_;
  float bias_[2] = {};
};

/// Adds the parts, in their order, in a launch of its own: a warp takes a tile.
template <class Out>
__global__ void add_parts(TileSums tiles, void* output, const void* bias, std::int64_t m,
                          std::int64_t n) {
  wait_for_launch_before();
  let_next_launch_begin();
  const std::int64_t tile = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const std::int64_t row = tile / tiles.columns * 8, column = tile % tiles.columns * warp_outputs;
  if (row >= m) return;
  const TileWriter<Out> writer(output, bias, n, row,
                               static_cast<int>(min(m - row, std::int64_t{8})), column,
                               static_cast<int>(min(n - column, std::int64_t{warp_outputs})));
  float4 total = {};
#pragma unroll 4
  for (int part = 0; part < tiles.parts; ++part) {
    const float4 more = __ldcg(tiles.of(part, tile) + this_lane());
    total.x += more.x, total.y += more.y, total.z += more.z, total.w += more.w;
  }
  writer.write(0, total);
}

}  // namespace reprolab::nf4_product
