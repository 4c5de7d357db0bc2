// The steps of few_rows, one function each: how scales are read, how codes and scales come to
// registers, how 16 inputs are multiplied, and where the warps' sums lie.
#pragma once

#include <cuda_runtime.h>

#include "kernels/nf4_product/few_rows_cut.hpp"

namespace reprolab::nf4_product {

/// The scales of an output's stage, copied as they lie and decoded when they are used. Each block
/// of weights has a number: its scale, or if nested the code of its scale. A step of 64 has one
/// block, two, or a part of one; the nested scales of a stage are made of one or two second scales.
template <bool Nested>
struct StageScales {
  using Number = std::conditional_t<Nested, std::uint8_t, float>;
  static constexpr int per_copy = 16 / sizeof(Number);

  const Number* numbers;  ///< Aligned to 16 bytes.
  nf4::NestedScales nested;
  std::int64_t blocks;      ///< In all.
  int shift, second_shift;  ///< log2 of steps per block, and of blocks per second scale.
  int second_blocks;        ///< Blocks per second scale.

  explicit StageScales(const Problem& problem)
      : nested(problem.nested),
        blocks(blocks_over(problem.n * problem.k, std::int64_t{problem.block_size})),
        shift(nf4::log2_exact(std::max(problem.block_size, step) / step)),
        second_shift(nf4::log2_exact(problem.nested.block_size)),
        second_blocks(problem.nested.block_size) {
    if constexpr (Nested) {
      numbers = problem.nested.codes;
    } else {
      numbers = problem.absmax;
    }
  }

  /// Starts to copy those of `count` steps from step `first` on to a row of `pitch` bytes: the
  /// numbers from a multiple of 16 bytes on, and at its end the second scales. By two lanes, of
  /// which this is number `lane`.
  template <int Halves>
  __device__ void copy(unsigned char* to, int pitch, std::int64_t first, int count,
                       int lane) const {
    const std::int64_t begin = first * Halves >> shift;
    const std::int64_t last = ((first + count) * Halves - 1) >> shift;
    const std::int64_t aligned = begin / per_copy * per_copy;
    for (std::int64_t i = aligned + lane * per_copy; i <= last; i += 2 * per_copy) {
      const auto existing = static_cast<int>(min(blocks - i, std::int64_t{per_copy}));
      copy_16(to + (i - aligned) * sizeof(Number), numbers + i, existing * sizeof(Number));
    }
    if constexpr (Nested) {
      copy_4(to + pitch - 8 + lane * 4,
             nested.absmax + ((lane == 0 ? begin : last) >> second_shift));
    }
  }

  /// The scale of step `own` of a row at `at` whose first step is number `first`, modulo 2^32;
  /// `half`: of which half of the step. `map`: a copy of the map of nested scales.
  template <int Halves>
  __device__ float read(unsigned at, int pitch, unsigned first, int own, int half,
                        const float* map) const {
    const unsigned begin = first * Halves >> shift, in_block = first & ((1u << shift) - 1);
    const int block = ((in_block + own) * Halves + half) >> shift;
    const unsigned place = at + (begin % per_copy + block) * sizeof(Number);
    if constexpr (!Nested) return read_stage<float>(place);
    const unsigned code = read_stage_byte(place);
    const int of_first = second_blocks - static_cast<int>(begin & (second_blocks - 1));
    const auto second = read_stage<float>(at + pitch - (block < of_first ? 8 : 4));
    return nf4::nested_scale(map[code], second, nested.offset);
  }
};

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
  StageScales<Nested> scales;
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

/// The codes that a lane takes of a step of an output: 8 bytes, or 4 of each half.
template <int Halves>
struct Codes {
  std::uint32_t word[2];

  __device__ explicit Codes(unsigned at) {
    if constexpr (Halves == 1) {
      const auto both = read_stage<uint2>(at);
      word[0] = both.x, word[1] = both.y;
    } else {
      word[0] = read_stage<std::uint32_t>(at);
      word[1] = read_stage<std::uint32_t>(at + 16);
    }
  }
};

/// The scales of a warp's steps of a stage, of outputs `row` and `row + 8`, from rows of scales of
/// which the first begins at `at`. Steps from number `existing` on do not exist: their scales are
/// 0.
template <int Steps, int Halves, bool Aligned>
__device__ void read_rows_of_scales(float (&scales)[2][Steps * Halves], unsigned at, int pitch,
                                    int existing) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned from = at + half * 8 * pitch;
    if constexpr (Aligned && Steps * Halves % 4 == 0) {
#pragma unroll
      for (int i = 0; i < Steps * Halves; i += 4) {
        const auto four = read_stage<float4>(from + i * 4);
        scales[half][i + 0] = four.x, scales[half][i + 1] = four.y;
        scales[half][i + 2] = four.z, scales[half][i + 3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < Steps * Halves; ++i) scales[half][i] = read_stage<float>(from + i * 4);
    }
    if (existing < Steps) {
#pragma unroll
      for (int i = 0; i < Steps * Halves; ++i) {
        scales[half][i] = i / Halves < existing ? scales[half][i] : 0;
      }
    }
  }
}

/// Likewise from what StageScales::copy() copied for an output's stage, whose first step is number
/// `first` in all, modulo 2^32: each of the four lanes that share an output has the scales of one
/// step, `own` of `count`, and gives them to the others. `map`: a copy of the map of nested scales.
template <int Steps, int Halves, bool Nested>
__device__ void read_scales(float (&scales)[2][Steps * Halves], const StageScales<Nested>& of,
                            const float* map, unsigned at, int pitch, unsigned first,
                            unsigned eight_rows, int own, int count) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int h = 0; h < Halves; ++h) {
      float scale = of.template read<Halves>(at + half * 8 * pitch, pitch,
                                             first + half * eight_rows, own, h, map);
      if (own >= count) scale = 0;
#pragma unroll
      for (int i = 0; i < Steps; ++i) {
        scales[half][i * Halves + h] = __shfl_sync(~0u, scale, i, 4);
      }
    }
  }
}

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

/// Where a lane's sums of even tiles are: those of rows 2 * quad and 2 * quad + 1, of outputs `row`
/// and `row` + 8. The first is here, where sums_of() has it; the others differ in two bits of the
/// address.
__device__ inline unsigned lane_sums_at(const FewRowsLayout& layout, int warp, int row, int quad) {
  return layout.partials + (warp * (max_rows / 2) + quad) * layout.partials_pitch + row * 4 +
         quad * 32;
}
__device__ inline void write_lane_sums(const FewRowsLayout& layout, unsigned at, int t,
                                       const float (&sum)[4]) {
  at += t % 2 * (warps * max_rows / 2) * layout.partials_pitch;
#pragma unroll
  for (int i = 0; i < 4; ++i) write_shared(at ^ (i % 2 * 64 + i / 2 * 32), sum[i]);
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
