// The steps of many_rows: its first launch, which arranges the activations, and small functions of
// the second.
#pragma once

#include <cuda_runtime.h>

#include "kernels/nf4_product/many_rows_cut.hpp"

namespace reprolab::nf4_product {

template <bool Nested>
struct ManyRows {
  const std::uint8_t* codes;
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

/// The codes of an output lie in parts of 16 bytes, in another order in each of four outputs, so
/// that eight lanes read all banks.
__device__ inline int swizzled_part(int output, int part) { return part ^ output % 4 * 2; }

/// A unit of inputs in a pass over the outputs.
struct UnitOfPass {
  int pass = 0, unit = 0;

  __device__ void next(int units) {
    if (++unit == units) unit = 0, ++pass;
  }
};

/// Without wgmma: pair `p` of the inputs that a lane multiplies, of the row in its place in a
/// fragment. `first_row` counts from `columns` on, and the parts of a row are swizzled.
__device__ inline std::uint32_t activation_pair(const unsigned char* columns, int first_row,
                                                int row, int p, int quad) {
  return *reinterpret_cast<const std::uint32_t*>(columns + (first_row + row) * 128 +
                                                 (p ^ row) * 16 + quad * 4);
}

/// Writes a sum as an output, or as one of several partial sums. `pitch`: from row to row.
template <class Out, bool Nested>
__device__ void write_sum(const ManyRows<Nested>& work, int part, std::int64_t row,
                          std::int64_t pitch, std::int64_t output, float sum) {
  const std::int64_t at = row * pitch + output;
  if (work.part_sums.parts > 1) {
    work.part_sums.sums[part * work.m * pitch + at] = sum;
  } else {
    write_output<Out>(work.output, at, sum, work.bias, output);
  }
}

}  // namespace reprolab::nf4_product
