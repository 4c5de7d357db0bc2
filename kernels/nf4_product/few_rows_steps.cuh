// The steps of few_rows, one function each: how scales are read, how codes and scales come to
// registers, how 16 inputs are multiplied, and where the warps' sums lie.
#pragma once

#include <cuda_runtime.h>

#include "kernels/nf4_product/few_rows_cut.hpp"

namespace reprolab::nf4_product {

/// What the kernel is given.
template <bool Nested>
struct FewRows {
  const std::uint8_t* codes;
  const void* input;
  const void* bias;
  void* output;
  PartSums part_sums;  ///< If there are several.
  Arrivals arrivals;
  std::int64_t n, k;
  int m;
  Cut cut;
  Shares groups, parts;  ///< How tiles, and inputs by four steps, are shared.
  FewRowsLayout layout;
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// The barriers of a block.
struct FewRowsBarriers {
  std::uint64_t *filled, *used;    ///< One for each stage.
  std::uint64_t *written, *added;  ///< One for each of two buffers of sums.

  __device__ FewRowsBarriers(unsigned char* at, int arrivals_to_fill)
      : filled(reinterpret_cast<std::uint64_t*>(at)),
        used(filled + max_stages),
        written(used + max_stages),
        added(written + 2) {
    if (threadIdx.x < max_stages) {
      init_barrier(&filled[threadIdx.x], arrivals_to_fill);
      init_barrier(&used[threadIdx.x], warps);
      if (threadIdx.x < 2) {
        init_barrier(&written[threadIdx.x], warps);
        init_barrier(&added[threadIdx.x], 1);
      }
      publish_barriers();
    }
  }
};

/// Reads the scales of two steps from step `index` on, as far as they lie before step `end`.
template <int Halves, bool InPairs, bool Nested, int Loads>
__device__ void read_scales(typename Scales<Nested>::Loaded (&loaded)[Loads],
                            const Scales<Nested>& scales, unsigned weight, bool exists, int index,
                            int end) {
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    loaded[i] = {};
    if (!exists || index + i / Halves >= end) continue;
    loaded[i] = InPairs ? scales.load_pair(weight) : scales.load(weight + i * (step / Halves));
  }
}

/// The codes that a lane takes of a step of an output: 8 bytes, or 4 of each half.
template <int Halves>
struct Codes {
  std::uint32_t word[2];

  __device__ Codes(const unsigned char* step_codes, int quad) {
    if constexpr (Halves == 1) {
      const uint2 both = *reinterpret_cast<const uint2*>(step_codes + quad * 8);
      word[0] = both.x, word[1] = both.y;
    } else {
      word[0] = *reinterpret_cast<const std::uint32_t*>(step_codes + quad * 4);
      word[1] = *reinterpret_cast<const std::uint32_t*>(step_codes + 16 + quad * 4);
    }
  }
};

/// The scales of a warp's steps of a stage, of outputs `row` and `row + 8`. If they are `Copied`,
/// those of steps that do not exist, from step `existing` on, are made 0.
template <int Steps, int Halves, bool Copied>
struct StepScales {
  float of[2][Steps * Halves];

  __device__ StepScales(const unsigned char* stage_scales, int row, int pitch, int existing) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto* const from =
          reinterpret_cast<const float*>(stage_scales + (row + half * 8) * pitch);
      if constexpr (Steps * Halves % 4 == 0) {
#pragma unroll
        for (int i = 0; i < Steps * Halves / 4; ++i) {
          const float4 four = reinterpret_cast<const float4*>(from)[i];
          of[half][i * 4 + 0] = four.x, of[half][i * 4 + 1] = four.y;
          of[half][i * 4 + 2] = four.z, of[half][i * 4 + 3] = four.w;
        }
      } else {
#pragma unroll
        for (int i = 0; i < Steps * Halves; ++i) of[half][i] = from[i];
      }
      if (Copied && existing < Steps) {
#pragma unroll
        for (int i = 0; i < Steps * Halves; ++i) {
          of[half][i] = i / Halves < existing ? of[half][i] : 0;
        }
      }
    }
  }
};

/// Adds the products of 16 inputs, whose weights are bytes `FirstByte` and the next of both words
/// of codes, to a warp's sums; or begins new ones.
template <class Out, int FirstByte, class Decode>
__device__ void multiply_16(float (&sum)[4], bool begins, const LaneTable<Decode>& table,
                            std::uint32_t upper, std::uint32_t lower, float upper_scale,
                            float lower_scale, std::uint32_t b0, std::uint32_t b1) {
  std::uint32_t weights[4];
  table.template decode<FirstByte>(weights, upper, lower, upper_scale, lower_scale);
  if (begins) {
    multiply<Out>(sum, weights, b0, b1);
  } else {
    multiply_add<Out>(sum, weights, b0, b1);
  }
}

/// A warp's sums of tile t, 16 outputs of each row: of two rows in 128 bytes, such that neither
/// writing nor reading them uses a bank twice.
__device__ inline float* sums_of(unsigned char* shared, const FewRowsLayout& layout, int t,
                                 int of_warp, int of_row, int output) {
  const int pair = (t % 2 * warps + of_warp) * (max_rows / 2) + of_row / 2;
  return reinterpret_cast<float*>(shared + layout.partials + pair * layout.partials_pitch) +
         ((of_row % 2 * tile + output) ^ (of_row / 2 * 8));
}

/// All warps' sums of four outputs of a row, added.
__device__ inline float4 sum_over_warps(unsigned char* shared, const FewRowsLayout& layout, int t,
                                        int row, int output) {
  float4 total = {};
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    const float4 sums =
        *reinterpret_cast<const float4*>(sums_of(shared, layout, t, w, row, output));
    total.x += sums.x, total.y += sums.y, total.z += sums.z, total.w += sums.w;
  }
  return total;
}

}  // namespace reprolab::nf4_product
