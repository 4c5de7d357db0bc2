// How few_rows multiplies a step: how activations, codes and scales come to registers, and how a
// tile's weights of 64 inputs are multiplied.
#pragma once

#include "kernels/nf4_product/few_rows_cut.hpp"

namespace reprolab::nf4_product {

/// The activations of a step, of a row in each of the tiles of 8. Of the four lanes that share a
/// row each takes 16 inputs, or 8 of each half of the step, in the order in which it takes codes.
/// They lie in 16-byte parts, of which part p of row r is where p ^ (r % 8) would be.
template <int Halves, int RowTiles>
struct StepActivations {
  std::uint32_t pairs[RowTiles][8];

  /// The row of a tile that a lane takes, such that no two lanes read the same banks.
  __device__ static int row_of(int column) {
    return Halves == 1 ? column : column % 2 * 4 + column / 2;
  }
  /// Where the first part of a lane's is, from the step's begin; the second is in `second_part`.
  __device__ static unsigned first_part(int lane) {
    const int row = row_of(lane / 4), part = lane % 4 * (Halves == 1 ? 2 : 1);
    return row * step_bytes + (part ^ row) * 16;
  }
  static constexpr unsigned second_part = Halves == 1 ? 16 : 64;  ///< Differs in this bit.

  __device__ explicit StepActivations(unsigned at) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const auto four = read_stage<uint4>((at ^ part * second_part) + r * 8 * step_bytes);
        pairs[r][part * 4 + 0] = four.x, pairs[r][part * 4 + 1] = four.y;
        pairs[r][part * 4 + 2] = four.z, pairs[r][part * 4 + 3] = four.w;
      }
    }
  }
};

/// Codes and scales of a tile's step, of a lane's outputs: output_of(lane) and the one 8 after it.
template <int Halves>
struct StepWeights {
  std::uint32_t codes[2][2];  ///< Of 16 inputs, or of 8 of each half.
  float scales[2][Halves];

  /// Such that no two lanes read the same banks.
  __device__ static int output_of(int lane) { return lane / 4 % 4 * 2 + lane / 16; }
  /// Where a lane's codes are, from the begin of a tile on; swizzled as activations are.
  __device__ static unsigned codes_at(int lane, int in_unit) {
    const int output = output_of(lane), quad = lane % 4;
    return Halves == 1
               ? output * unit_bytes + ((in_unit * 2 + quad / 2) ^ output) * 16 + quad % 2 * 8
               : output * unit_bytes + ((in_unit * 2) ^ output) * 16 + quad * 4;
  }
  __device__ static unsigned scales_at(int lane, int in_unit) {
    return (output_of(lane) * unit_steps + in_unit) * Halves * 4;
  }

  __device__ void read(unsigned codes_from, unsigned scales_from) {
#pragma unroll
    for (int i = 0; i < 2;
         ++i, codes_from += 8 * unit_bytes, scales_from += 8 * unit_steps * Halves * 4) {
      if constexpr (Halves == 1) {
        const auto two = read_stage<uint2>(codes_from);
        codes[i][0] = two.x, codes[i][1] = two.y;
      } else {
        codes[i][0] = read_stage<std::uint32_t>(codes_from);
        codes[i][1] = read_stage<std::uint32_t>(codes_from ^ 16);
      }
#pragma unroll
      for (int h = 0; h < Halves; ++h) scales[i][h] = read_stage<float>(scales_from + h * 4);
    }
  }
};

/// Adds a tile's products of a step to the sums: of rows 2 * quad and 2 * quad + 1 of each tile of
/// 8 (of which StepActivations says which they are), first of a lane's first output, then of its
/// other.
template <class Out, class Decode, int Halves, int RowTiles>
__device__ void multiply_step(float (&sums)[RowTiles][4], const LaneTable<Decode>& table,
                              const StepWeights<Halves>& of,
                              const StepActivations<Halves, RowTiles>& activations) {
#pragma unroll
  for (int h = 0; h < Halves; ++h) {
    [[maybe_unused]] float unscaled[RowTiles][4];
#pragma unroll
    for (int w = h; w < h + 2 / Halves; ++w) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        std::uint32_t weights[4];
        if (j == 0) {
          table.template decode<0>(weights, of.codes[0][w], of.codes[1][w], of.scales[0][h],
                                   of.scales[1][h]);
        } else {
          table.template decode<2>(weights, of.codes[0][w], of.codes[1][w], of.scales[0][h],
                                   of.scales[1][h]);
        }
#pragma unroll
        for (int r = 0; r < RowTiles; ++r) {
          const auto* const pairs = &activations.pairs[r][w * 4 + j * 2];
          if (!Decode::scales_sums) {
            multiply_add<Out>(sums[r], weights, pairs[0], pairs[1]);
          } else if (w == h && j == 0) {
            multiply<Out>(unscaled[r], weights, pairs[0], pairs[1]);
          } else {
            multiply_add<Out>(unscaled[r], weights, pairs[0], pairs[1]);
          }
        }
      }
    }
    if constexpr (Decode::scales_sums) {
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[r][i] = fmaf(of.scales[i / 2][h], unscaled[r][i], sums[r][i]);
        }
      }
    }
  }
}

}  // namespace reprolab::nf4_product
