// The product for the few rows of decoding, which is one pass over the codes. few_rows.cu says what
// it is for.
//
// How the work is cut. A block of threads stays on its multiprocessor and owns a range of outputs,
// in tiles of 16, and a range of the inputs. Each of its 16 warps owns a slice of the inputs for
// all tiles, so the activations of the slice stay in its registers. The codes of a tile come
// through a ring of stages in shared memory: when all warps have used a stage, each of them has one
// output's codes copied to it. They take turns to add the warps' sums of a tile, in an order that
// depends on n and k alone. So the result does not change from run to run, nor with the other rows
// of the batch, and no warp waits for the one that is behind unless the ring is empty.
//
// In the matrix instruction the weights are the 16 x 16 operand and the activations the 16 x 8 one.
// The order of the inputs in a sum is free, as long as both operands use the same: each of the four
// lanes that share an output takes 16 consecutive weights of a step of 64, in one 8-byte read.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/grid.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"
#include "kernels/nf4_product/sums.cuh"

namespace reprolab::nf4_product {

inline constexpr int tile = 16;  ///< Outputs per tile.
inline constexpr int step = 64;  ///< Inputs per step.
inline constexpr int step_bytes = step / 2;
inline constexpr int max_rows = 8;
inline constexpr int warps = 16;
inline constexpr int max_stages = 8;
inline constexpr int max_warp_steps = 4;  ///< Of a stage.
inline constexpr int tile_stages = 2;     ///< At most; their activations fit in registers.

/// How a product is cut. Nothing here depends on m.
struct Cut {
  int parts = 0;            ///< Blocks that share a group of outputs, each with its inputs.
  int groups = 0;           ///< Of the outputs; one for each block of a part.
  int stages_per_tile = 0;  ///< 1 or 2
  int stages = 0;           ///< Of the ring; 0: the problem cannot be cut.
};

/// Of a part's steps, those in a tile's first stage: as many for each warp.
__host__ __device__ inline int first_stage_steps(int part_steps, int stages_per_tile) {
  static_assert(warps == 16);
  const int of_a_warp = (part_steps + warps * stages_per_tile - 1) >> (3 + stages_per_tile);
  return of_a_warp * warps < part_steps ? of_a_warp * warps : part_steps;
}

/// Parts begin at multiples of four steps, so that their scales are aligned to 16 bytes.
inline constexpr int part_grain = 4;
inline Shares part_shares(std::int64_t k, int parts) {
  return {static_cast<int>(blocks_over(k, part_grain * step)), parts};
}

/// Where things lie in shared memory: the ring's codes after the table, all else before it.
struct FewRowsLayout {
  static constexpr int column_floats = 20;  ///< Of 16 outputs; 4 columns use all banks.
  static constexpr int barriers = shared_begin, partials = barriers + 256, stages = table_end;

  int pitch;  ///< Between rows of codes: 32 more than a multiple of 128, so that four rows use all
              ///< banks.
  int scales_pitch;  ///< Likewise 16 more, so that eight rows do.
  int stage_bytes, scales_bytes;
  int end;  ///< As many bytes are asked for.

  FewRowsLayout(const Cut& cut, std::int64_t k) {
    const int part_steps = part_shares(k, cut.parts).max() * part_grain;
    const int stage_steps = first_stage_steps(part_steps, cut.stages_per_tile);
    pitch = (stage_steps * step_bytes + 127) / 128 * 128 + 32;
    scales_pitch = (stage_steps * 4 + 127) / 128 * 128 + 16;
    stage_bytes = tile * pitch;
    scales_bytes = tile * scales_pitch;
    // A warp may read past the last stage, to multiply by zero.
    const int read_past = static_cast<int>(blocks_over(stage_steps, warps)) * warps - stage_steps;
    end = stages + cut.stages * stage_bytes + read_past * step_bytes;
  }
};

/// What the kernel is given.
template <bool Nested>
struct FewRows {
  const std::uint8_t* codes;
  const void* input;
  const void* bias;
  void* output;
  float* part_sums;    ///< [parts][m][n], if there are several parts
  unsigned* arrivals;  ///< [groups], zero between launches
  std::int64_t n, k;
  int m;
  Cut cut;
  Shares groups, parts;  ///< Of the outputs, and of the inputs by four steps.
  FewRowsLayout layout;
  ScalesOf<Nested> scales;
  nf4::Table table;
};

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

/// `Halves`: scales per step of 64; 2 for blocks of 32 weights, whose lanes
/// take 8 weights of each half in place of 16 in a row. `InRing`: the scales come through the ring,
/// one for each step; else each warp loads its own.
template <class Out, class Decode, int Halves, bool Nested, bool InRing>
__global__ void __launch_bounds__(warps * 32, 1) few_rows(const FewRows<Nested> work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  const Cut& cut = work.cut;
  const FewRowsLayout& layout = work.layout;
  // Of a warp, and of all in a buffer.
  constexpr int slice_floats = max_rows * FewRowsLayout::column_floats + 8;
  constexpr int buffer_floats = warps * slice_floats;
  constexpr int scales_begin = FewRowsLayout::partials + 2 * buffer_floats * 4;
  constexpr int own_scales_floats = tile * max_warp_steps * Halves;
  static_assert(scales_begin + warps * own_scales_floats * 4 <= table_begin);
  auto* const filled = reinterpret_cast<std::uint64_t*>(shared + layout.barriers);
  auto* const used = filled + max_stages;
  auto* const written = used + max_stages;  // of the buffers of sums
  auto* const added = written + 2;

  const int warp = from_lane(threadIdx.x / 32, 0);  // which the compiler then knows to be uniform
  const int lane = threadIdx.x % 32, row = lane / 4, quad = lane % 4;
  const int part = blockIdx.x % cut.parts, group = blockIdx.x / cut.parts;
  const std::int64_t first_output = work.groups.begin(group);
  const int outputs = work.groups.size(group);
  const int tiles = (outputs + tile - 1) / tile;
  const int first_step = work.parts.begin(part) * part_grain;
  const int steps =
      min(work.parts.size(part) * part_grain, static_cast<int>(work.k / step) - first_step);
  const int first_steps = first_stage_steps(steps, cut.stages_per_tile);
  const auto stage_begin = [&](int stage) {
    return stage == 0 ? 0 : stage == 1 ? first_steps : steps;
  };
  // A warp's steps of a stage; some warps have fewer, and multiply by zero.
  const auto warp_steps = [&](int stage) {
    return (stage_begin(stage + 1) - stage_begin(stage) + warps - 1) / warps;
  };

  // Of this block's outputs and inputs; the latter are part of longer rows.
  const Scales<Nested> scales_of(work.scales,
                                 first_output * work.k + std::int64_t{first_step} * step);
  const auto row_weights = static_cast<unsigned>(work.k);

  // By each warp: copies the codes of one output of the next unit, a tile's stage, to place `at` of
  // the ring, and asks L2 for its scales.
  const std::uint8_t* next_codes =
      work.codes + ((first_output + warp) * work.k + std::int64_t{first_step} * step) / 2;
  const float* next_scales =
      work.scales.absmax + (first_output + warp) * (work.k / step) + first_step;
  int next_stage = 0, next_output = warp;
  const auto fill = [&](int at) {
    const int begin = stage_begin(next_stage), end = stage_begin(next_stage + 1);
    const unsigned bytes = next_output < outputs ? (end - begin) * step_bytes : 0;
    unsigned char* const to =
        shared + layout.stages + at * layout.stage_bytes + warp * layout.pitch;
    const std::uint8_t* const from = next_codes + begin * step_bytes;
    unsigned char* const scales_to =
        shared + scales_begin + at * layout.scales_bytes + warp * layout.scales_pitch;
    const unsigned scales_bytes = InRing ? bytes / step_bytes * 4 : 0;
    if constexpr (has_bulk_copies) {
      if (is_elected()) {
        arrive_expecting(&filled[at], bytes + scales_bytes);
        if (bytes != 0) {
          copy_bulk(to, from, bytes, &filled[at]);
          if constexpr (InRing) {
            copy_bulk(scales_to, next_scales + begin, scales_bytes, &filled[at]);
          } else {
            scales_of.prefetch(next_output * row_weights + begin * step, bytes * 2);
          }
        }
      }
      __syncwarp();
    } else {
      for (unsigned b = lane * 16; b < bytes; b += 32 * 16) copy_16(to + b, from + b);
      if (lane * 16 < scales_bytes) copy_16(scales_to + lane * 16, next_scales + begin + lane * 4);
      arrive_after_copies(&filled[at]);
    }
    if (++next_stage == cut.stages_per_tile) {
      next_stage = 0;
      next_output += tile;
      next_codes += work.k * tile / 2;
      next_scales += work.k / step * tile;
    }
  };

  if (threadIdx.x < max_stages) {
    init_barrier(&filled[threadIdx.x], has_bulk_copies ? warps : warps * 32);
    init_barrier(&used[threadIdx.x], warps);
    if (threadIdx.x < 2) {
      init_barrier(&written[threadIdx.x], warps);
      init_barrier(&added[threadIdx.x], 1);
    }
    publish_barriers();
  }
  __syncthreads();
  for (int i = 0; i < cut.stages; ++i) fill(i);

  // The activations of this warp's steps.
  std::uint32_t activations[tile_stages][max_warp_steps][8];
#pragma unroll
  for (int s = 0; s < tile_stages; ++s) {
#pragma unroll
    for (int i = 0; i < max_warp_steps; ++i) {
      const int index = stage_begin(s) + warp * warp_steps(s) + i;
      const bool exists = i < warp_steps(s) && index < stage_begin(s + 1) && row < work.m;
      const auto* const from = static_cast<const std::uint16_t*>(work.input) + row * work.k +
                               std::int64_t{first_step + index} * step;
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const int at = Halves == 1 ? quad * 16 + v * 8 : v * 32 + quad * 8;
        const uint4 values = exists ? __ldg(reinterpret_cast<const uint4*>(from + at)) : uint4{};
        activations[s][i][v * 4 + 0] = values.x;
        activations[s][i][v * 4 + 1] = values.y;
        activations[s][i][v * 4 + 2] = values.z;
        activations[s][i][v * 4 + 3] = values.w;
      }
    }
  }

  fill_table<Decode>(shared + table_begin, work.table);
  __syncthreads();

  // By one warp, when all have written their sums of a tile: a lane adds four outputs of a row.
  auto* const partials = reinterpret_cast<float*>(shared + layout.partials);
  const auto add_tile = [&](int t) {
    wait_for(&written[t % 2], t / 2 % 2);
    const float* const slices = partials + t % 2 * buffer_floats + quad * 4;
    float4 total = {};
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const float4 slice = *reinterpret_cast<const float4*>(slices + w * slice_floats +
                                                            row * FewRowsLayout::column_floats);
      total.x += slice.x, total.y += slice.y, total.z += slice.z, total.w += slice.w;
    }
    __syncwarp();
    if (lane == 0) arrive(&added[t % 2]);
    const float values[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int output = t * tile + quad * 4 + i;
      if (row >= work.m || output >= outputs) continue;
      const std::int64_t to = row * work.n + first_output + output;
      if (cut.parts > 1) {
        work.part_sums[part * work.m * work.n + to] = values[i];
      } else {
        write_output<Out>(work.output, to, values[i], work.bias, first_output + output);
      }
    }
  };

  const LaneTable<Decode> table(lane);
  const unsigned char* const row_codes = shared + layout.stages + row * layout.pitch;

  // The scales of this lane: of outputs `row` and `row + 8`, every fourth one of the warp's. They
  // are loaded a tile ahead, and exchanged through shared memory.
  auto* const own_scales =
      reinterpret_cast<float*>(shared + scales_begin) + warp * own_scales_floats;
  typename Scales<Nested>::Loaded loaded[tile_stages][2][Halves];
  unsigned scale_weight[tile_stages];
#pragma unroll
  for (int s = 0; s < tile_stages; ++s) {
    scale_weight[s] =
        row * row_weights + (stage_begin(s) + warp * warp_steps(s)) * step + quad * (step / Halves);
  }
  const auto load_scales = [&]<int Stage>(int t) {
    const int begin = (stage_begin(Stage) + warp * warp_steps(Stage)) * Halves + quad;
    const int end = stage_begin(Stage + 1) * Halves;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < Halves; ++i) {
        loaded[Stage][half][i] = {};
        if (t * tile + row + half * 8 < outputs && begin + i * 4 < end) {
          loaded[Stage][half][i] = scales_of.load(scale_weight[Stage] + half * 8 * row_weights +
                                                  i * 4 * (step / Halves));
        }
      }
    }
    scale_weight[Stage] += tile * row_weights;
  };
  if constexpr (!InRing) {
    load_scales.template operator()<0>(0);
    load_scales.template operator()<1>(0);
  }

  float sum[4];
  const auto multiply_steps = [&]<int Stage, int Steps>(int at) {
    const unsigned char* const codes =
        row_codes + at * layout.stage_bytes + warp * Steps * step_bytes;
    float scales[2][max_warp_steps * Halves];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const from =
          InRing ? reinterpret_cast<const float*>(shared + scales_begin + at * layout.scales_bytes +
                                                  (row + half * 8) * layout.scales_pitch) +
                       warp * Steps
                 : own_scales + (row + half * 8) * max_warp_steps * Halves;
      if constexpr (InRing && Steps != 4) {
#pragma unroll
        for (int i = 0; i < Steps; ++i) scales[half][i] = from[i];
      } else {
#pragma unroll
        for (int i = 0; i < Halves; ++i) {
          const float4 four = reinterpret_cast<const float4*>(from)[i];
          scales[half][i * 4 + 0] = four.x, scales[half][i * 4 + 1] = four.y;
          scales[half][i * 4 + 2] = four.z, scales[half][i * 4 + 3] = four.w;
        }
      }
      if constexpr (InRing) {
        // Steps that do not exist.
        const int count = stage_begin(Stage + 1) - stage_begin(Stage) - warp * Steps;
        if (count < Steps) {
#pragma unroll
          for (int i = 0; i < Steps; ++i) scales[half][i] = i < count ? scales[half][i] : 0;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < Steps; ++i) {
      const Codes<Halves> upper(codes + i * step_bytes, quad);
      const Codes<Halves> lower(codes + 8 * layout.pitch + i * step_bytes, quad);
#pragma unroll
      for (int h = 0; h < Halves; ++h) {
        const float upper_scale = scales[0][i * Halves + h];
        const float lower_scale = scales[1][i * Halves + h];
        float unscaled[4];
        const auto two_multiplications = [&]<int FirstByte>(int w, bool is_first) {
          const std::uint32_t weights[4] = {
              table.template weights<FirstByte>(upper.word[w], upper_scale),
              table.template weights<FirstByte>(lower.word[w], lower_scale),
              table.template weights<FirstByte + 1>(upper.word[w], upper_scale),
              table.template weights<FirstByte + 1>(lower.word[w], lower_scale)};
          const auto& x = activations[Stage][i];
          const std::uint32_t b0 = x[w * 4 + FirstByte], b1 = x[w * 4 + FirstByte + 1];
          if constexpr (!Decode::scales_sums) {
            multiply_add<Out>(sum, weights, b0, b1);
          } else if (is_first) {
            multiply<Out>(unscaled, weights, b0, b1);
          } else {
            multiply_add<Out>(unscaled, weights, b0, b1);
          }
        };
#pragma unroll
        for (int w = h; w < h + 2 / Halves; ++w) {
          two_multiplications.template operator()<0>(w, w == h);
          two_multiplications.template operator()<2>(w, false);
        }
        if constexpr (Decode::scales_sums) {
          sum[0] = fmaf(upper_scale, unscaled[0], sum[0]);
          sum[1] = fmaf(upper_scale, unscaled[1], sum[1]);
          sum[2] = fmaf(lower_scale, unscaled[2], sum[2]);
          sum[3] = fmaf(lower_scale, unscaled[3], sum[3]);
        }
      }
    }
  };

  bool is_past_first = false;
  int at = 0;  // in the ring
  unsigned parity = 0;
  const auto multiply_stage = [&]<int Stage>(int t) {
    if constexpr (!InRing) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < Halves; ++i) {
          own_scales[(row + half * 8) * max_warp_steps * Halves + i * 4 + quad] =
              scales_of.value(loaded[Stage][half][i]);
        }
      }
      load_scales.template operator()<Stage>(t + 1);
      __syncwarp();
    }
    wait_for(&filled[at], parity);
    const int count = warp_steps(Stage);
    if (count > 2) {
      if (count > 3) {
        multiply_steps.template operator()<Stage, 4>(at);
      } else {
        multiply_steps.template operator()<Stage, 3>(at);
      }
    } else if (count > 1) {
      multiply_steps.template operator()<Stage, 2>(at);
    } else {
      multiply_steps.template operator()<Stage, 1>(at);
    }
    __syncwarp();
    if (lane == 0) arrive(&used[at]);
    // The stage before is filled again: by now the other warps have used it, too.
    if (is_past_first) {
      const int before = at == 0 ? cut.stages - 1 : at - 1;
      wait_for(&used[before], at == 0 ? parity ^ 1 : parity);
      fill(before);
    }
    is_past_first = true;
    if (++at == cut.stages) at = 0, parity ^= 1;
  };
  for (int t = 0; t < tiles; ++t) {
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
    multiply_stage.template operator()<0>(t);
    if (cut.stages_per_tile > 1) multiply_stage.template operator()<1>(t);

    if (t > 0 && (t + warps / 2) % warps == warp) add_tile(t - 1);
    wait_for(&added[t % 2], t / 2 % 2 ^ 1);
    float* const slice = partials + t % 2 * buffer_floats + warp * slice_floats;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      slice[(quad * 2 + i % 2) * FewRowsLayout::column_floats + row + i / 2 * 8] = sum[i];
    }
    __syncwarp();
    if (lane == 0) arrive(&written[t % 2]);
  }
  if (warp == 0 && tiles > 0) add_tile(tiles - 1);
  if (cut.parts == 1) return;

  // The last block of a group adds the parts, in their order.
  add_parts_in_last_block(work.arrivals + group, cut.parts, [&] {
    for (int i = threadIdx.x; i < outputs * work.m; i += blockDim.x) {
      const std::int64_t to = i / outputs * work.n + first_output + i % outputs;
      float value = 0;
      for (int p = 0; p < cut.parts; ++p) {
        value += __ldcg(&work.part_sums[p * work.m * work.n + to]);
      }
      write_output<Out>(work.output, to, value, work.bias, first_output + i % outputs);
    }
  });
#endif
}

/// The cut into so many parts; no stages where it is not possible.
inline Cut few_rows_cut(const Problem& problem, const Device& device, std::int64_t parts) {
  const int part_steps = part_shares(problem.k, static_cast<int>(parts)).max() * part_grain;
  Cut cut{.parts = static_cast<int>(parts)};
  // Such that a group's weights can be counted in 31 bits.
  const std::int64_t groups = std::max({std::int64_t{1}, device.multiprocessors / parts,
                                        blocks_over(problem.n * problem.k, std::int64_t{1} << 30)});
  cut.groups = static_cast<int>(std::min(groups, problem.n));
  while (++cut.stages_per_tile <= tile_stages) {
    if (blocks_over(part_steps, cut.stages_per_tile) > warps * max_warp_steps) continue;
    const FewRowsLayout none(cut, problem.k);
    cut.stages = std::clamp((device.shared_bytes - none.end) / none.stage_bytes, 0, max_stages);
    if (cut.stages >= 3) return cut;
    cut.stages = 0;
  }
  return cut;
}

/// The cut for a problem; no stages where there is none.
inline Cut few_rows_cut(const Problem& problem, const Device& device) {
  const std::int64_t fours = blocks_over(problem.k, 4 * step);
  const std::int64_t min_parts = blocks_over(4 * fours, warps * max_warp_steps * tile_stages);
  Cut best;
  double least = 0;
  for (std::int64_t parts = min_parts; parts <= std::min(fours, 4 * min_parts + 12); ++parts) {
    const Cut cut = few_rows_cut(problem, device, parts);
    if (cut.stages == 0) continue;
    // What the busiest block takes, in the time of a warp's step: its tiles, each with what a stage
    // and a tile take beside the steps, and the sum of the parts.
    const std::int64_t waves =
        blocks_over(std::int64_t{cut.groups} * parts, std::max(1, device.multiprocessors));
    const std::int64_t tiles = blocks_over(blocks_over(problem.n, cut.groups), tile);
    const std::int64_t tile_steps =
        blocks_over(part_shares(problem.k, cut.parts).max() * part_grain, warps);
    const auto load = static_cast<double>(
        waves * tiles * (tile_steps + 2 * cut.stages_per_tile + 2) + (parts > 1 ? 10 + parts : 0));
    if (best.stages == 0 || load < least) {
      best = cut;
      least = load;
    }
  }
  return best;
}

template <class Out, class Decode, bool Nested>
cudaError_t launch_few_rows(const Problem& problem, const Cut& cut, cudaStream_t stream) {
  auto* const part_sums = static_cast<float*>(problem.workspace);
  const FewRowsLayout layout(cut, problem.k);
  const FewRows<Nested> work{
      .codes = problem.codes,
      .input = problem.input,
      .bias = problem.bias,
      .output = problem.output,
      .part_sums = part_sums,
      .arrivals = reinterpret_cast<unsigned*>(part_sums + cut.parts * problem.m * problem.n),
      .n = problem.n,
      .k = problem.k,
      .m = static_cast<int>(problem.m),
      .cut = cut,
      .groups = {static_cast<int>(problem.n), cut.groups},
      .parts = part_shares(problem.k, cut.parts),
      .layout = layout,
      .scales = ScalesOf<Nested>(problem),
      .table = table_of(problem)};
  const auto launch = [&]<int Halves, bool InRing>() {
    return launch_kernel(few_rows<Out, Decode, Halves, Nested, InRing>,
                         {std::int64_t{cut.groups} * cut.parts, warps * 32, layout.end, stream},
                         work);
  };
  if (problem.block_size < step) return launch.template operator()<2, false>();
  // Bulk copies need addresses of multiples of 16.
  if constexpr (!Nested) {
    if (problem.block_size == step && problem.k % (part_grain * step) == 0 &&
        is_aligned(problem.absmax)) {
      return launch.template operator()<1, true>();
    }
  }
  return launch.template operator()<1, false>();
}

template <class Out, class Decode>
cudaError_t launch_few_rows(const Problem& problem, const Cut& cut, cudaStream_t stream) {
  return problem.is_nested() ? launch_few_rows<Out, Decode, true>(problem, cut, stream)
                             : launch_few_rows<Out, Decode, false>(problem, cut, stream);
}

template <template <class> class Decode>
cudaError_t launch_few_rows(const Problem& problem, const Cut& cut, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  return problem.type == nf4::OutputType::fp16
             ? launch_few_rows<__half, Decode<__half>>(problem, cut, stream)
             : launch_few_rows<__nv_bfloat16, Decode<__nv_bfloat16>>(problem, cut, stream);
}

inline std::uint64_t few_rows_workspace(const Problem& problem, const Cut& cut) {
  if (cut.parts <= 1) return 0;
  return static_cast<std::uint64_t>(cut.parts * problem.m * problem.n + cut.groups) * 4;
}

template <template <class> class Decode>
Support supports_few_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.m > max_rows) return Support::no("takes 8 rows at most; many_rows takes more");
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  if (few_rows_cut(problem, device).stages == 0) {
    return Support::no("needs 160 KiB of shared memory in a block");
  }
  return is_compiled(few_rows<__half, Decode<__half>, 1, false, false>);
}

}  // namespace reprolab::nf4_product
