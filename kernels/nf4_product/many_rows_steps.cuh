// What many_rows is given, and its small functions.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/nf4_product/many_rows_cut.hpp"
#include "kernels/nf4_product/many_rows_sums.cuh"
#include "kernels/nf4_product/wgmma.cuh"

namespace reprolab::nf4_product {

template <bool Nested>
struct ManyRows {
  CUtensorMap codes;        ///< In tiles of a warpgroup's outputs and a unit of inputs.
  CUtensorMap activations;  ///< In tiles of the rows and a block of inputs.
  const void* bias;
  void* output;
  TileSums tile_sums;
  std::int64_t m, n, k;
  OutputShares output_shares;
  Shares part_shares;  ///< Of units.
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// Whether groups may share a tile of outputs, each for a part of the rows: where decoding it
/// several times takes less than multiplying it once.
__host__ __device__ constexpr bool may_share_rows(int rows) { return rows == 256; }

/// Starts `into` = the outputs' weights of a block times the inputs of it of `Multiplied` rows,
/// from `first_row` on, plus `into` if it `adds`: by wgmma for the 64 outputs of a warpgroup; else
/// by mma for the 16 of a warp, and then it is done on return. The block is number `block` in a
/// stage of activations.
template <class Out, int Rows, int Warpgroups, int Multiplied>
__device__ void start_block(float (&into)[Rows / 2], const std::uint32_t (&weights)[4][4],
                            bool adds, const unsigned char* shared, int stage, int block,
                            int first_row) {
  constexpr ManyRowsLayout layout(Rows, Warpgroups * 4);
  if constexpr (has_wgmma) {
    constexpr int described_bytes = 16;
    const std::uint64_t described = swizzled_columns(0) + layout.stage(stage) / described_bytes;
    begin_multiplications();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      start_multiplication<Out, Multiplied / 2>(
          into, weights[j],
          described + ((block * Rows + first_row) * 128 + j * 32) / described_bytes, adds || j > 0);
    }
    end_multiplications();
    __syncwarp();  // so that the compiler starts them all before it decodes the next block
    return;
  }
  const unsigned char* const columns =
      shared + layout.stage(stage) + (block * Rows + first_row) * 128;
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
  for (int t = 0; t < Multiplied / 8; ++t) {
    float product[4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (adds) product[r] = into[t * 4 + r];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // Pair `p` of the inputs that this lane multiplies, of the row in its place in a fragment.
      const auto pair = [&](int p) {
        return *reinterpret_cast<const std::uint32_t*>(columns + (t * 8 + row) * 128 +
                                                       (p ^ row) * 16 + quad * 4);
      };
      multiply_add<Out>(product, weights[j], pair(j * 2), pair(j * 2 + 1));
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) into[t * 4 + r] = product[r];
  }
}

/// Writes a warp's sums (those that a TileWriter takes), or, if there are several parts, those of
/// its part for add_parts.
template <class Out, int Rows, bool Nested>
__device__ void write_sums(const ManyRows<Nested>& work, int part, std::int64_t row, int rows,
                           std::int64_t output, int left, const float (&sum)[Rows / 2]) {
  if (left <= 0) return;
  const auto sums_of = [&](int e) {
    return float4{sum[e * 4], sum[e * 4 + 1], sum[e * 4 + 2], sum[e * 4 + 3]};
  };
  const TileSums& tiles = work.tile_sums;
  if (tiles.parts == 1) {
    const TileWriter<Out> writer(work.output, work.bias, work.n, row, rows, output, left);
#pragma unroll
    for (int e = 0; e < Rows / 8; ++e) writer.write(e, sums_of(e));
    return;
  }
  float4* at = tiles.of(part, row / 8 * tiles.columns + output / warp_outputs) + this_lane();
#pragma unroll
  for (int e = 0; e < Rows / 8; ++e, at += tiles.columns * lanes) {
    if (e * 8 < rows) __stcg(at, sums_of(e));
  }
}

}  // namespace reprolab::nf4_product
