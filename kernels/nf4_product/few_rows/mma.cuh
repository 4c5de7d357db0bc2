// How few_rows multiplies a step: the fragments of activations, codes and scales in registers, and
// the product of a 16 x 64 tile of weights.
//
// In mma.m16n8k16 the weights are the 16 x 16 operand and the activations the 16 x 8 one. The order
// of K in a sum is free, as long as both operands have the same: each of the four lanes that share
// a column of the output takes 16 consecutive weights of a step, in one 8-byte load.
#pragma once

#include "kernels/nf4_product/few_rows/tiling.hpp"

namespace reprolab::nf4_product {

/// The activations of a step, for one row in each M tile of 8. Each of the four lanes that share a
/// row takes 16 elements of K, or 8 of each half of the step, in the order in which it takes codes.
/// In shared memory they have the 128-byte swizzle: 16-byte chunk p of row r is at p ^ (r % 8).
template <int ScalesPerStep, int MTiles>
struct ActivationFragment {
  std::uint32_t pairs[MTiles][8];  ///< Pairs of 16-bit numbers.

  /// The row in an M tile for a column of mma's operand, free of bank conflicts.
  __device__ static int m_of(int column) {
    return ScalesPerStep == 1 ? column : column % 2 * 4 + column / 2;
  }
  /// A lane's first chunk, from the start of the step; the second differs in bit `second_chunk`.
  __device__ static unsigned first_chunk(int lane) {
    const int row = m_of(lane / 4), chunk = lane % 4 * (ScalesPerStep == 1 ? 2 : 1);
    return row * step_bytes + (chunk ^ row) * 16;
  }
  static constexpr unsigned second_chunk = ScalesPerStep == 1 ? 16 : 64;

  __device__ void read(unsigned at) {
#pragma unroll
    for (int r = 0; r < MTiles; ++r) {
#pragma unroll
      for (int chunk = 0; chunk < 2; ++chunk) {
        const auto four = load_shared<uint4>((at ^ chunk * second_chunk) + r * 8 * step_bytes);
        pairs[r][chunk * 4 + 0] = four.x, pairs[r][chunk * 4 + 1] = four.y;
        pairs[r][chunk * 4 + 2] = four.z, pairs[r][chunk * 4 + 3] = four.w;
      }
    }
  }
};

/// Codes and scales of a step for a lane's two columns of the output, n_of(lane) and 8 after it.
template <int ScalesPerStep>
struct CodeFragment {
  std::uint32_t codes[2][2];  ///< 16 weights, or 8 in each half of the step.
  float scales[2][ScalesPerStep];

  /// Free of bank conflicts.
  __device__ static int n_of(int lane) { return lane / 4 % 4 * 2 + lane / 16; }
  /// A lane's codes, from the start of the N tile; swizzled as activations are.
  __device__ static unsigned codes_at(int lane, int tile_step) {
    const int n = n_of(lane), quad = lane % 4;
    return ScalesPerStep == 1
               ? n * tile_k_bytes + ((tile_step * 2 + quad / 2) ^ n) * 16 + quad % 2 * 8
               : n * tile_k_bytes + ((tile_step * 2) ^ n) * 16 + quad * 4;
  }
  __device__ static unsigned scales_at(int lane, int tile_step) {
    return (n_of(lane) * tile_steps + tile_step) * ScalesPerStep * 4;
  }

  __device__ void read(unsigned codes_from, unsigned scales_from) {
#pragma unroll
    for (int i = 0; i < 2;
         ++i, codes_from += 8 * tile_k_bytes, scales_from += 8 * tile_steps * ScalesPerStep * 4) {
      if constexpr (ScalesPerStep == 1) {
        const auto two = load_shared<uint2>(codes_from);
        codes[i][0] = two.x, codes[i][1] = two.y;
      } else {
        codes[i][0] = load_shared<std::uint32_t>(codes_from);
        codes[i][1] = load_shared<std::uint32_t>(codes_from ^ 16);
      }
#pragma unroll
      for (int h = 0; h < ScalesPerStep; ++h)
        scales[i][h] = load_shared<float>(scales_from + h * 4);
    }
  }
};

/// Adds the products of a step to the sums of an N tile. For an M tile, a lane has the sums of rows
/// m_of(2 * quad) and m_of(2 * quad + 1), in its first column of the output, then in its second.
template <class Out, class Decode, int ScalesPerStep, int MTiles>
__device__ void mma_step(float (&sums)[MTiles][4], const LaneTable<Decode>& table,
                         const CodeFragment<ScalesPerStep>& coded,
                         const ActivationFragment<ScalesPerStep, MTiles>& activations) {
#pragma unroll
  for (int h = 0; h < ScalesPerStep; ++h) {
    [[maybe_unused]] float unscaled[MTiles][4];
#pragma unroll
    for (int w = h; w < h + 2 / ScalesPerStep; ++w) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        std::uint32_t weights[4];
        if (j == 0) {
          table.template decode<0>(weights, coded.codes[0][w], coded.codes[1][w],
                                   coded.scales[0][h], coded.scales[1][h]);
        } else {
          table.template decode<2>(weights, coded.codes[0][w], coded.codes[1][w],
                                   coded.scales[0][h], coded.scales[1][h]);
        }
#pragma unroll
        for (int r = 0; r < MTiles; ++r) {
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
      for (int r = 0; r < MTiles; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[r][i] = fmaf(coded.scales[i / 2][h], unscaled[r][i], sums[r][i]);
        }
      }
    }
  }
}

}  // namespace reprolab::nf4_product
