// The steps of many_rows: its first launch, which arranges the activations, and small functions of
// the second.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/nf4_product/many_rows_cut.hpp"
#include "kernels/nf4_product/wgmma.cuh"

namespace reprolab::nf4_product {

template <bool Nested>
struct ManyRows {
  CUtensorMap codes;  ///< In tiles of a warp's outputs and a unit of inputs.
  const void* input;
  const void* bias;
  void* output;
  unsigned char* arranged;  ///< [row tiles][blocks of 64 inputs][rows of a tile][128 bytes]
  PartSums part_sums;
  std::int64_t m, n, k;
  int groups, units, activation_stages;
  Shares group_shares, part_shares;  ///< How outputs and units are shared.
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// Writes the activations as stages hold them: a block of threads per block of inputs and tile of
/// rows. Rows and inputs that do not exist are zero.
template <class Out, int Rows, bool Nested>
__global__ void arrange_activations(const ManyRows<Nested> work) {
  constexpr int parts_per_row = 8;  // of 16 bytes
  let_next_launch_begin();
  wait_for_launch_before();
  const int block = blockIdx.x % (work.units * unit_blocks);
  const std::int64_t row_tile = blockIdx.x / (work.units * unit_blocks);
  uint4* const to =
      reinterpret_cast<uint4*>(work.arranged) + std::int64_t{blockIdx.x} * Rows * parts_per_row;
  const auto* const input = static_cast<const std::uint32_t*>(work.input);
  for (int i = threadIdx.x; i < Rows * parts_per_row; i += blockDim.x) {
    const int part = i % parts_per_row, row_in_tile = i / parts_per_row;
    const std::int64_t row = row_tile * Rows + row_in_tile;
    uint4 pairs = {};
    if (row < work.m && std::int64_t{block} * block_inputs < work.k) {
      // A pair of inputs for each lane of a quad, which has 16 in a row.
      const std::uint32_t* const from =
          input + (row * work.k + std::int64_t{block} * block_inputs) / 2 + part;
      pairs = {from[0], from[8], from[16], from[24]};
    }
    to[i - part + (part ^ (row_in_tile % 8))] = pairs;
  }
}

/// Which of eight outputs a lane has. The accelerator swizzles 16 bytes of codes by the output; in
/// this order eight lanes read all banks.
__device__ inline unsigned row_of_lane(unsigned lane) { return lane / 4 * 2 % 8 + lane / 16; }

/// A unit of inputs in a pass over the outputs.
struct UnitOfPass {
  int pass = 0, unit = 0;

  __device__ UnitOfPass next(int units) const {
    const bool is_last = unit + 1 == units;
    return {pass + is_last, is_last ? 0 : unit + 1};
  }
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
