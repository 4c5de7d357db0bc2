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
/// half in place of 16 in a row. `Regular`: what a part has of a row begins at a multiple of 16
/// bytes in the scales, too, and has one for each step or half: those of an output's stage are
/// copied, or if nested read in pairs. Else a warp reads them one by one, in whatever format.
template <class Out, class Decode, int Halves, bool Nested, bool Regular>
__global__ void __launch_bounds__(warps * 32, 1) few_rows(const FewRows<Nested> work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  const Cut& cut = work.cut;
  const FewRowsLayout& layout = work.layout;
  constexpr bool copies_scales = Regular && !Nested;
  const FewRowsBarriers barriers(shared + layout.barriers, (has_bulk_copies ? warps : warps * 32) +
                                                               (copies_scales ? 0 : warps));
  fill_table<Decode>(shared + table_begin, work.table);
  auto* const map = reinterpret_cast<float*>(shared + layout.map);
  if constexpr (Nested) {
    if (threadIdx.x < 256) map[threadIdx.x] = __ldg(work.scales.nested.map + threadIdx.x);
  }
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

  // By each warp: copies the codes of one output of the next unit, a tile's stage, to place `at` of
  // the ring.
  const std::uint8_t* next_codes =
      work.codes + ((first_output + warp) * work.k + std::int64_t{first_step} * step) / 2;
  const float* next_scales =
      work.scales.absmax + ((first_output + warp) * (work.k / step) + first_step) * Halves;
  int next_stage = 0, next_output = warp;
  const auto copy = [&](int at) {
    const int begin = stage_begin(next_stage), end = stage_begin(next_stage + 1);
    const unsigned bytes = next_output < outputs ? (end - begin) * step_bytes : 0;
    unsigned char* const to = shared + layout.stage(at) + warp * layout.pitch;
    const std::uint8_t* const from = next_codes + begin * step_bytes;
    unsigned char* const scales_to =
        shared + layout.scales + at * layout.scales_bytes + warp * layout.scales_pitch;
    const unsigned scales_bytes = copies_scales ? bytes / step_bytes * Halves * 4 : 0;
    if constexpr (has_bulk_copies) {
      if (is_elected()) {
        arrive_expecting(&barriers.filled[at], bytes + scales_bytes);
        if (bytes != 0) {
          copy_bulk(to, from, bytes, &barriers.filled[at]);
          if constexpr (copies_scales) {
            copy_bulk(scales_to, next_scales + begin * Halves, scales_bytes, &barriers.filled[at]);
          }
        }
      }
      __syncwarp();
    } else {
      for (unsigned b = lane * 16; b < bytes; b += 32 * 16) copy_16(to + b, from + b);
      for (unsigned b = lane * 16; b < scales_bytes; b += 32 * 16) {
        copy_16(scales_to + b, next_scales + begin * Halves + b / 4);
      }
      arrive_after_copies(&barriers.filled[at]);
    }
    if (++next_stage == cut.stages_per_tile) {
      next_stage = 0;
      next_output += tile;
      next_codes += work.k * tile / 2;
      next_scales += work.k / step * Halves * tile;
    }
  };

  // Likewise, if they are not copied, its scales: read a unit ahead, then written to the ring. A
  // lane has those of two steps.
  using Loaded = typename Scales<Nested>::Loaded;
  constexpr bool reads_pairs = Regular && Nested && Halves == 1;
  constexpr int lane_scales = 2 * Halves, lane_loads = reads_pairs ? 1 : lane_scales;
  const Scales<Nested> scales_of(work.scales,
                                 first_output * work.k + std::int64_t{first_step} * step);
  int scales_stage = 0, scales_output = warp;
  const auto load_scales = [&](Loaded(&loaded)[lane_loads]) {
    const int index = stage_begin(scales_stage) + lane * 2, end = stage_begin(scales_stage + 1);
    const unsigned weight = static_cast<unsigned>(scales_output) * static_cast<unsigned>(work.k) +
                            static_cast<unsigned>(index) * step;
    const bool exists = scales_output < outputs && index < end;
    read_scales<Halves, reads_pairs>(loaded, scales_of, weight, exists, index, end);
    if (exists && scales_output + tile < outputs) {
      scales_of.prefetch(weight + tile * static_cast<unsigned>(work.k));
    }
    if (++scales_stage == cut.stages_per_tile) scales_stage = 0, scales_output += tile;
  };
  const auto write_scales = [&](const Loaded(&loaded)[lane_loads], int at) {
    const int begin = lane * lane_scales * 4;  // in bytes
    float* const to = reinterpret_cast<float*>(shared + layout.scales + at * layout.scales_bytes +
                                               warp * layout.scales_pitch + begin);
    if (begin < layout.scales_pitch) {
#pragma unroll
      for (int i = 0; i < lane_scales; ++i) {
        Loaded one = loaded[reads_pairs ? 0 : i];
        if constexpr (reads_pairs) one.code = one.code >> i * 8 & 0xff;
        to[i] = scales_of.value(one, map);
      }
    }
    __syncwarp();
    if (lane == 0) arrive(&barriers.filled[at]);
  };

  // The first codes and scales do not wait for the launch before, the activations do; they come
  // before the other codes, which would delay them.
  __syncthreads();
  copy(0);
  constexpr int together = max_stages / 2;
  Loaded scales_ahead[together][lane_loads];
  const auto load_some = [&](int first) {
#pragma unroll
    for (int i = 0; i < together; ++i) {
      if (first + i < cut.stages) load_scales(scales_ahead[i]);
    }
  };
  if constexpr (!copies_scales) load_some(0);
  wait_for_launch_before();
  let_next_launch_begin();
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
  __syncthreads();
  for (int i = 1; i < cut.stages; ++i) copy(i);
  if constexpr (!copies_scales) {
    for (int first = 0; first < cut.stages; first += together) {
      if (first > 0) load_some(first);
#pragma unroll
      for (int i = 0; i < together; ++i) {
        if (first + i < cut.stages) write_scales(scales_ahead[i], first + i);
      }
    }
    load_scales(scales_ahead[0]);
  }

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

  // Adds the products of a warp's steps of a stage to its sums.
  const LaneTable<Decode> table(lane);
  const unsigned char* const row_codes = shared + row * layout.pitch;
  float sum[4];
  const auto multiply_steps = [&]<int Stage, int Steps>(int at) {
    const unsigned char* const codes = row_codes + layout.stage(at) + warp * Steps * step_bytes;
    const StepScales<Steps, Halves, copies_scales> scales(
        shared + layout.scales + at * layout.scales_bytes + warp * Steps * Halves * 4, row,
        layout.scales_pitch, stage_begin(Stage + 1) - stage_begin(Stage) - warp * Steps);
#pragma unroll
    for (int i = 0; i < Steps; ++i) {
      const Codes<Halves> upper(codes + i * step_bytes, quad);
      const Codes<Halves> lower(codes + 8 * layout.pitch + i * step_bytes, quad);
#pragma unroll
      for (int h = 0; h < Halves; ++h) {
        const float upper_scale = scales.of[0][i * Halves + h];
        const float lower_scale = scales.of[1][i * Halves + h];
        [[maybe_unused]] float unscaled[4];
        float(&into)[4] = Decode::scales_sums ? unscaled : sum;
        const auto& x = activations[Stage][i];
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

  // Multiplies the stage of the ring whose turn it is, and fills the one before again.
  bool is_past_first = false;
  int at = 0;  // in the ring
  unsigned parity = 0;
  const auto multiply_stage = [&]<int Stage>(int t) {
    wait_for(&barriers.filled[at], parity);
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
    if (lane == 0) arrive(&barriers.used[at]);
    // The stage before is filled again: by now the other warps have used it, too.
    if (is_past_first) {
      const int before = at == 0 ? cut.stages - 1 : at - 1;
      wait_for(&barriers.used[before], at == 0 ? parity ^ 1 : parity);
      copy(before);
      if constexpr (!copies_scales) {
        write_scales(scales_ahead[0], before);
        load_scales(scales_ahead[0]);
      }
    }
    is_past_first = true;
    if (++at == cut.stages) at = 0, parity ^= 1;
  };
  // Tile by tile; the sums of one are added by one of the warps while all multiply the next.
  for (int t = 0; t < tiles; ++t) {
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
    multiply_stage.template operator()<0>(t);
    if (cut.stages_per_tile > 1) multiply_stage.template operator()<1>(t);

    if (t > 0 && (t + warps / 2) % warps == warp) add_tile(t - 1);
    wait_for(&barriers.added[t % 2], t / 2 % 2 ^ 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      *sums_of(shared, layout, t, warp, quad * 2 + i % 2, row + i / 2 * 8) = sum[i];
    }
    __syncwarp();
    if (lane == 0) arrive(&barriers.written[t % 2]);
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
