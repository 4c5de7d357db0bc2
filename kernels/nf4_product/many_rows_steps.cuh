// What many_rows is given, and its small functions.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/nf4_product/many_rows_cut.hpp"
#include "kernels/nf4_product/wgmma.cuh"

namespace reprolab::nf4_product {

template <bool Nested>
struct ManyRows {
  CUtensorMap codes;        ///< In tiles of a warpgroup's outputs and a unit of inputs.
  CUtensorMap activations;  ///< In tiles of the rows and a block of inputs.
  const void* bias;
  void* output;
  PartSums part_sums;
  std::int64_t m, n, k;
  int groups;
  Shares group_shares, part_shares;  ///< How outputs and units are shared.
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// Starts `into` = the outputs' weights of a block times the rows' inputs of it, plus `into` if it
/// `adds`: by wgmma for the 64 outputs of a warpgroup; else by mma for the 16 of a warp, and then
/// it is done on return. The block is number `block` in a stage of activations.
template <class Out, int Rows, int Warpgroups>
__device__ void start_block(float (&into)[Rows / 2], const std::uint32_t (&weights)[4][4],
                            bool adds, const unsigned char* shared, int stage, int block) {
  constexpr ManyRowsLayout layout(Rows, Warpgroups * 4);
  if constexpr (has_wgmma) {
    constexpr int described_bytes = 16;
    const std::uint64_t described = swizzled_columns(0) + layout.stage(stage) / described_bytes;
    begin_multiplications();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      start_multiplication<Out>(into, weights[j],
                                described + (block * Rows * 128 + j * 32) / described_bytes,
                                adds || j > 0);
    }
    end_multiplications();
    __syncwarp();  // so that the compiler starts them all before it decodes the next block
    return;
  }
  const unsigned char* const columns = shared + layout.stage(stage) + block * Rows * 128;
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
  for (int t = 0; t < Rows / 8; ++t) {
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

/// Writes the sums of outputs `output` and `output` + 8, of which only the first `left` from
/// `output` on exist, for the rows from `row` on that a lane has: two of every eight.
template <class Out, int Rows, bool Nested>
__device__ void write_sums(const ManyRows<Nested>& work, int part, std::int64_t row,
                           std::int64_t output, int left, const float (&sum)[Rows / 2]) {
  const auto rows = static_cast<int>(work.m - row < Rows ? work.m - row : Rows);
  const auto write = [&](auto* to, std::int64_t pitch, const auto& element_of) {
    to += row * pitch + output;
#pragma unroll
    for (int t = 0; t < Rows / 8; ++t, to += 8 * pitch) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (t * 8 + i < rows && half * 8 < left) {
            to[i * pitch + half * 8] = element_of(sum[t * 4 + half * 2 + i], half);
          }
        }
      }
    }
  };
  if (work.part_sums.parts > 1) {
    write(work.part_sums.at(part, 0, 0), PartSums::pitch(work.n),
          [](float value, int) { return value; });
    return;
  }
  float bias[2] = {};
  for (int half = 0; half < 2; ++half) {
    if (work.bias != nullptr && half * 8 < left) {
      bias[half] = to_float(static_cast<const Out*>(work.bias)[output + half * 8]);
    }
  }
  write(static_cast<Out*>(work.output), work.n,
        [&](float value, int half) { return nf4::round_to<Out>(value + bias[half]); });
}

}  // namespace reprolab::nf4_product
