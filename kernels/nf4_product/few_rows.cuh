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

#include "kernels/nf4_product/few_rows_steps.cuh"

namespace reprolab::nf4_product {

/// `Halves`: scales per step of 64; 2 for blocks of 32 weights, whose lanes take 8 weights of each
/// half in place of 16 in a row. `RowsOfScales`: has_rows_of_scales().
template <class Out, class Decode, int Halves, bool Nested, bool RowsOfScales>
__global__ void __launch_bounds__(warps * 32, 1) few_rows(const FewRows<Nested> work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  const Cut& cut = work.cut;
  const FewRowsLayout& layout = work.layout;
  const FewRowsBarriers barriers(shared + layout.barriers,
                                 (has_bulk_copies ? warps : warps * 32) + (RowsOfScales ? 0 : 32));
  fill_table<Decode>(shared + table_begin, work.table);
  auto* const map = reinterpret_cast<float*>(shared + layout.map);
  // What the block owns: outputs in tiles, and steps of the inputs.
  // Every lane has the same, which the compiler then knows.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  const int lane = threadIdx.x % 32, row = lane / 4, quad = lane % 4;
  const int part = blockIdx.x % cut.parts, group = blockIdx.x / cut.parts;
  const std::int64_t first_output = std::int64_t{work.groups.begin(group)} * tile;
  const int tiles = work.groups.size(group);
  const auto outputs = static_cast<int>(min(std::int64_t{tiles} * tile, work.n - first_output));
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

  // By each warp: copies the codes of one output of the next unit, which is a stage of a tile, to
  // place `at` of the ring, and its scales if they are rows.
  const std::int64_t row_steps = work.k / step;
  const std::uint8_t* next_codes =
      work.codes + ((first_output + warp) * row_steps + first_step) * step_bytes;
  auto next_scales =
      work.scales.numbers + ((first_output + warp) * row_steps + first_step) * Halves;
  const std::int64_t steps_between = row_steps * tile - steps;
  int next_stage = 0, next_output = warp;
  const auto copy_row = [&](int at) {
    const int count = next_stage == 0 ? first_steps : steps - first_steps;
    const unsigned bytes = next_output < outputs ? count * step_bytes : 0;
    const unsigned scales_bytes = RowsOfScales ? bytes / step_bytes * Halves * 4 : 0;
    unsigned char* const to = shared + layout.codes[at] + warp * layout.pitch;
    unsigned char* const scales_to =
        shared + layout.scales + at * layout.scales_bytes + warp * layout.scales_pitch;
    if constexpr (has_bulk_copies) {
      if (is_elected()) {
        arrive_expecting(&barriers.filled[at], bytes + scales_bytes);
        if (bytes != 0) {
          copy_bulk(to, next_codes, bytes, &barriers.filled[at]);
          if constexpr (RowsOfScales) {
            copy_bulk(scales_to, next_scales, scales_bytes, &barriers.filled[at]);
          }
        }
      }
      __syncwarp();
    } else {
      for (unsigned b = lane * 16; b < bytes; b += 32 * 16) copy_16(to + b, next_codes + b);
      if constexpr (RowsOfScales) {
        for (unsigned b = lane * 16; b < scales_bytes; b += 32 * 16) {
          copy_16(scales_to + b, next_scales + b / 4);
        }
      }
      arrive_after_copies(&barriers.filled[at]);
    }
    next_codes += count * step_bytes;
    next_scales += count * Halves;
    if (++next_stage == cut.stages_per_tile) {
      next_stage = 0;
      next_output += tile;
      next_codes += steps_between * step_bytes;
      next_scales += steps_between * Halves;
    }
  };
  // By one warp: copies the other scales of a unit.
  const auto copy_scales = [&](int unit, int at) {
    const int t = unit >> (cut.stages_per_tile - 1);
    const int stage = unit & (cut.stages_per_tile - 1);
    const int output = t * tile + lane % tile;
    if (output < outputs) {
      work.scales.template copy<Halves>(
          shared + layout.scales + at * layout.scales_bytes + lane % tile * layout.scales_pitch,
          layout.scales_pitch,
          (first_output + output) * row_steps + first_step + stage_begin(stage),
          stage_begin(stage + 1) - stage_begin(stage), lane / tile);
    }
    arrive_after_copies(&barriers.filled[at]);
  };

  // The first codes and scales do not wait for the launch before, the activations do; they come
  // before the other codes, which would delay them.
  const int units = tiles * cut.stages_per_tile;
  __syncthreads();
  copy_row(0);
  if (!RowsOfScales && warp == 0) {
    if constexpr (Nested) {
      for (int i = lane; i < 256; i += 32) copy_4(map + i, work.scales.nested.map + i);
    }
    copy_scales(0, 0);
  }
  wait_for_launch_before();
  let_next_launch_begin();
  // The activations of this warp's steps: those of a tile's stage, or half of them for each of two.
  constexpr int half_steps = max_warp_steps / 2;
  std::uint32_t activations[max_warp_steps][8];
#pragma unroll
  for (int i = 0; i < max_warp_steps; ++i) {
    const int stage = cut.stages_per_tile > 1 ? i / half_steps : 0;
    const int in_stage = cut.stages_per_tile > 1 ? i % half_steps : i;
    const int index = stage_begin(stage) + warp * warp_steps(stage) + in_stage;
    const bool exists =
        in_stage < warp_steps(stage) && index < stage_begin(stage + 1) && row < work.m;
    const auto* const from = static_cast<const std::uint16_t*>(work.input) + row * work.k +
                             std::int64_t{first_step + index} * step;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int at = Halves == 1 ? quad * 16 + v * 8 : v * 32 + quad * 8;
      const uint4 values = exists ? __ldg(reinterpret_cast<const uint4*>(from + at)) : uint4{};
      activations[i][v * 4 + 0] = values.x;
      activations[i][v * 4 + 1] = values.y;
      activations[i][v * 4 + 2] = values.z;
      activations[i][v * 4 + 3] = values.w;
    }
  }
  __syncthreads();
  const int ring = min(cut.stages, units);
  for (int i = 1; i < ring; ++i) copy_row(i);
  if (!RowsOfScales && warp > 0 && warp < ring) copy_scales(warp, warp);

  // By one warp, when all have written their sums of a tile: a lane adds four outputs of a row.
  const auto add_tile = [&](int t) {
    wait_for(&barriers.written[t % 2], t / 2 % 2);
    const float4 total = sum_over_warps(shared, layout, t, row, quad * 4);
    __syncwarp();
    if (lane == 0) arrive(&barriers.added[t % 2]);
    const int first = t * tile + quad * 4;
    if (row >= work.m || first >= outputs) return;
    if (cut.parts > 1) {
      float* const to = work.part_sums.at(part, row, first_output + first);
      *reinterpret_cast<float4*>(to) = total;
      return;
    }
    write_four<Out>(work.output, row, first_output + first, work.n, total, work.bias);
  };

  // Adds the products of some of a warp's steps to its sums: those whose activations are from
  // number `First` on, and whose codes are from step `begin` of `count` in the stage at `at`; where
  // that is a multiple of `Steps`, scales are `Aligned` to be read by fours.
  const LaneTable<Decode> table(lane);
  const unsigned lane_codes = row * layout.pitch + quad * (Halves == 1 ? 8 : 4);
  const unsigned lane_scales = row * layout.scales_pitch;
  // This lane's first step in all, as far as it tells where scales lie that are no rows.
  unsigned lane_step = static_cast<unsigned>((first_output + row) * row_steps + first_step);
  float sum[4];
  const auto multiply_steps = [&]<int First, int Steps, bool Aligned>(int at, int stage_first,
                                                                      int begin, int count) {
    const unsigned codes = layout.codes[at] + lane_codes + begin * step_bytes;
    const unsigned stage_scales = layout.scales + at * layout.scales_bytes + lane_scales;
    float scales[2][Steps * Halves];
    if constexpr (RowsOfScales) {
      read_rows_of_scales<Steps, Halves, Aligned>(scales, stage_scales + begin * Halves * 4,
                                                  layout.scales_pitch, count - begin);
    } else {
      read_scales<Steps, Halves>(scales, work.scales, map, stage_scales, layout.scales_pitch,
                                 lane_step + stage_first, 8 * static_cast<unsigned>(row_steps),
                                 begin + quad, count);
    }
#pragma unroll
    for (int i = 0; i < Steps; ++i) {
      const Codes<Halves> upper(codes + i * step_bytes);
      const Codes<Halves> lower(codes + 8 * layout.pitch + i * step_bytes);
#pragma unroll
      for (int h = 0; h < Halves; ++h) {
        const float upper_scale = scales[0][i * Halves + h];
        const float lower_scale = scales[1][i * Halves + h];
        [[maybe_unused]] float unscaled[4];
        float(&into)[4] = Decode::scales_sums ? unscaled : sum;
        const auto& x = activations[First + i];
#pragma unroll
        for (int w = h; w < h + 2 / Halves; ++w) {
          multiply_16<Out, 0>(into, Decode::scales_sums && w == h, table, upper.word[w],
                              lower.word[w], upper_scale, lower_scale, x[w * 4], x[w * 4 + 1]);
          multiply_16<Out, 2>(into, false, table, upper.word[w], lower.word[w], upper_scale,
                              lower_scale, x[w * 4 + 2], x[w * 4 + 3]);
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
  const auto multiply_up_to_half = [&]<int First, bool Aligned>(int some, int at, int stage_first,
                                                                int begin, int count) {
    if (some > 2) {
      if (some > 3) {
        multiply_steps.template operator()<First, 4, Aligned>(at, stage_first, begin, count);
      } else {
        multiply_steps.template operator()<First, 3, Aligned>(at, stage_first, begin, count);
      }
    } else if (some > 1) {
      multiply_steps.template operator()<First, 2, Aligned>(at, stage_first, begin, count);
    } else {
      multiply_steps.template operator()<First, 1, Aligned>(at, stage_first, begin, count);
    }
  };

  // Multiplies the stage of the ring whose turn it is, and has the one before filled again.
  int unit = 0;
  int at = 0;  // in the ring
  unsigned parity = 0;
  const auto multiply_stage = [&]<int Stage>() {
    wait_for(&barriers.filled[at], parity);
    const int some = warp_steps(Stage), stage_first = stage_begin(Stage);
    const int count = stage_begin(Stage + 1) - stage_first, begin = warp * some;
    if (Stage == 0 && some > half_steps) {
      multiply_steps.template operator()<0, half_steps, false>(at, stage_first, begin, count);
      multiply_up_to_half.template operator()<half_steps, false>(some - half_steps, at, stage_first,
                                                                 begin + half_steps, count);
    } else {
      multiply_up_to_half.template operator()<Stage * half_steps, true>(some, at, stage_first,
                                                                        begin, count);
    }
    __syncwarp();
    if (is_elected()) arrive(&barriers.used[at]);
    // The stage before is filled again: by now the other warps have used it, too.
    const int next = unit - 1 + cut.stages;
    if (unit > 0 && next < units) {
      const int before = at == 0 ? cut.stages - 1 : at - 1;
      wait_for(&barriers.used[before], at == 0 ? parity ^ 1 : parity);
      copy_row(before);
      if (!RowsOfScales && unit % warps == warp) copy_scales(next, before);
    }
    ++unit;
    if (++at == cut.stages) at = 0, parity ^= 1;
  };
  // Tile by tile; the sums of one are added by one of the warps while all multiply the next.
  const unsigned lane_sums = lane_sums_at(layout, warp, row, quad);
  for (int t = 0; t < tiles; ++t) {
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
    multiply_stage.template operator()<0>();
    if (cut.stages_per_tile > 1) multiply_stage.template operator()<1>();

    if (t > 0 && (t + warps / 2) % warps == warp) add_tile(t - 1);
    wait_for(&barriers.added[t % 2], t / 2 % 2 ^ 1);
    write_lane_sums(layout, lane_sums, t, sum);
    __syncwarp();
    if (is_elected()) arrive(&barriers.written[t % 2]);
    lane_step += tile * static_cast<unsigned>(row_steps);
  }
  if (warp == 0 && tiles > 0) add_tile(tiles - 1);
  if (cut.parts == 1) return;

  add_parts_in_last_block(work.arrivals, group, cut.parts, [&] {
    const int fours = (outputs + 3) / 4;
    for (int i = threadIdx.x; i < fours * work.m; i += blockDim.x) {
      add_four<Out>(work.part_sums, i / fours, first_output + i % fours * 4, work.bias,
                    work.output);
    }
  });
#endif
}

}  // namespace reprolab::nf4_product
