// The epilogue of many_rows: a warp's sums become outputs or, with split-K, partial sums that a
// second launch adds.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/grid.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/epilogue.cuh"
#include "kernels/nf4_product/many_rows/tiling.hpp"

namespace reprolab::nf4_product {

/// The partial sums of all slices of K, in tiles of eight rows x warp_n columns, in the order of
/// mma's fragments: the four sums of a lane are adjacent.
struct PartialTiles {
  int split_k = 1;
  std::int64_t rows = 0, columns = 0;  ///< In tiles.
  float4* sums = nullptr;              ///< [split_k][rows][columns][lanes]

  /// In the problem's workspace.
  PartialTiles(int split_k, const Problem& problem)
      : split_k(split_k),
        rows(blocks_over(problem.m, 8)),
        columns(blocks_over(problem.n, warp_n)),
        sums(static_cast<float4*>(problem.workspace)) {}
  std::int64_t bytes() const { return split_k == 1 ? 0 : split_k * rows * columns * lanes * 16; }

  __device__ float4* of(int slice, std::int64_t tile) const {
    return sums + (slice * rows * columns + tile) * lanes;
  }
};

/// Writes a warp's sums, rounded: `columns` columns from `n_index` on, `rows` rows from `m_index`
/// on. A lane has two columns, eight apart, of two rows in every eight.
template <class Out>
class TileWriter {
 public:
  __device__ TileWriter(void* to, const void* bias, std::int64_t n, std::int64_t m_index, int rows,
                        std::int64_t n_index, int columns)
      : n_(n), rows_(rows - lane() % 4 * 2), columns_(columns - lane() / 4) {
    n_index += lane() / 4;
    to_ = static_cast<Out*>(to) + (m_index + lane() % 4 * 2) * n + n_index;
    for (int half = 0; half < 2; ++half) {
      if (bias != nullptr && half * 8 < columns_) {
        bias_[half] = to_float(static_cast<const Out*>(bias)[n_index + half * 8]);
      }
    }
  }
  /// Writes the lane's sums of the rows from eight times `e` on.
  __device__ void write(int e, float4 sums) const {
    const float values[2][2] = {{sums.x, sums.y}, {sums.z, sums.w}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (e * 8 + i < rows_ && half * 8 < columns_) {
          to_[(e * 8 + i) * n_ + half * 8] = nf4::round_to<Out>(values[half][i] + bias_[half]);
        }
      }
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(this_lane()); }

  Out* to_;
  std::int64_t n_;
  int rows_, columns_;
  float bias_[2] = {};
};

/// Adds the slices, in order, in a separate launch: one tile per warp.
template <class Out>
__global__ void add_slices(PartialTiles tiles, void* output, const void* bias, std::int64_t m,
                           std::int64_t n) {
  grid_dependency_wait();
  launch_dependents();
  const std::int64_t tile = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const std::int64_t m_index = tile / tiles.columns * 8, n_index = tile % tiles.columns * warp_n;
  if (m_index >= m) return;
  const TileWriter<Out> writer(output, bias, n, m_index,
                               static_cast<int>(min(m - m_index, std::int64_t{8})), n_index,
                               static_cast<int>(min(n - n_index, std::int64_t{warp_n})));
  float4 total = {};
#pragma unroll 4
  for (int slice = 0; slice < tiles.split_k; ++slice) {
    const float4 more = __ldcg(tiles.of(slice, tile) + this_lane());
    total.x += more.x, total.y += more.y, total.z += more.z, total.w += more.w;
  }
  writer.write(0, total);
}

}  // namespace reprolab::nf4_product
