// A matmul for many rows: out[M, N] = x[M, K] * W[N, K]^T, one pass over W for each M tile.
//
// Idea:   wgmma takes its first operand from registers, so a warpgroup decodes its weights there,
//         and they are never written to memory; the activations come to shared memory as the second
//         operand. While the tensor cores multiply a step of K, the next one is decoded.
// Source: ours. wgmma and its descriptors: PTX ISA. Full and empty barriers as in CUTLASS's
//         PipelineTmaAsync. Decoding weights between shared memory and registers: Marlin (arXiv
//         2408.11743).
// Bound:  loads from shared memory: codes, the table, and wgmma's operand; with a large M tile
//         tensor cores. Each .cu says from which M on.
//
// Tiling. The grid is n_blocks x split_k x m_tiles; blocks that read the same codes are neighbours.
// A block has a range of N, which it goes through in N tiles of 64 for each of its two or four
// warpgroups, a slice of K, in tiles of 256, and an M tile of 16 to 256 rows.
//
//                  K ->    slice 0                       slice 1                ...
//                +---------------+---------------+---------------+---------------+  N tile:
//   N  block 0   | K tile: 256   |               |               |               |  warpgroup 0, 64
//   |            |s0 |s1 |s2 |s3 |               |               |               |
//   v            +---------------+---------------+---------------+---------------+
//                |               |               |               |               |  warpgroup 1, 64
//                +---------------+---------------+---------------+---------------+  next N tile:
//                |               |               |               |               |  warpgroup 0
//                +---------------+---------------+---------------+---------------+
//                 s0 ... s3: steps of 64, of each warpgroup one after the other
//
// An output is the sum over its slices, in order, and within a slice over K, in order. Slices
// depend on N, K and the GPU alone, so the result does not depend on the other rows. A second
// launch, add_slices, adds them. With an M tile of 256, blocks share the rows of the N tiles that
// are left over (NSplit).
//
// Pipeline. Two rings of stages in shared memory, with a `full` and an `empty` barrier for each
// stage: activations for the block, and codes, a K tile per stage, for each warpgroup. Every warp
// loads: the last one the activations, the four of a warpgroup its codes in turn.
//
//   TMA, codes         | next K tile                   | ...
//   TMA, activations   | s3    | s0    | s1    | s2    | ...
//                          | full                  ^ empty
//                          v                       |
//   warps, decode      | s1    | s2    | s3    | s0    | ...   codes to registers
//                           \       \       \       \
//   tensor cores       | s0    | s1    | s2    | s3    | ...   registers x stage of activations
//
// Without wgmma (has_wgmma) each warp multiplies its 16 columns by mma, after it has decoded them.
#pragma once

#include "kernels/nf4_product/many_rows/mma.cuh"

namespace reprolab::nf4_product {

template <class Out, class Decode, int TileM, int Warpgroups, bool Nested>
__global__ void __launch_bounds__(Warpgroups * 128, 1)
    many_rows(const __grid_constant__ ManyRowsArguments<Nested> args) {
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
  if constexpr (TileM > 128 && !has_wgmma) __trap();  // max_tile_m() allows none
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  using Scale = typename Decode::Scale;
  constexpr int warps = Warpgroups * 4, tile_n = warps * warp_n;
  constexpr ManyRowsLayout layout(TileM, warps);
  constexpr int activation_stages = layout.activation_stages;
  constexpr int registers = TileM / 2;  // of a sum
  constexpr bool registers_are_few =
      Warpgroups == 4 && registers * (Decode::scales_sums ? 2 : 1) == 64;
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + barriers_begin);
  auto* const empty = full + max_activation_stages;

  // The shuffle tells the compiler that all lanes have the same warp number.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), warpgroup = warp / 4;
  // Blocks that read the same codes are neighbours, and so run at the same time.
  const int split_k = args.partial_tiles.split_k;
  const int m_tiles = gridDim.x / (split_k * args.n_split.n_blocks);
  const int m_tile = blockIdx.x % m_tiles;
  const int slice = blockIdx.x / m_tiles % split_k;
  const int n_block = blockIdx.x / m_tiles / split_k;
  const NRange range = args.n_split.of(n_block);
  const int first_k_tile = args.k_split.begin(slice), k_tiles = args.k_split.size(slice);
  const int n_tiles = (range.all + tile_n - 1) / tile_n;
  const auto warpgroup_first_n = [&](int n_tile) {
    return n_tile * tile_n + warpgroup * warpgroup_n;
  };
  const auto warp_first_n = [&](int n_tile) { return n_tile * tile_n + warp * warp_n; };

  constexpr int code_stages = layout.code_stages;
  std::uint64_t* const codes_full = empty + max_activation_stages + warpgroup * 2 * code_stages;
  std::uint64_t* const codes_empty = codes_full + code_stages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < activation_stages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], warps);
    }
    fence_async_proxy();
  }
  if (threadIdx.x % 128 == 0) {
    for (int i = 0; i < code_stages; ++i) {
      init_barrier(&codes_full[i], 1);
      init_barrier(&codes_empty[i], 4);
    }
    fence_async_proxy();
  }
  __syncwarp();

  // Loads the warpgroup's codes of a K tile, by one warp; K tiles are numbered across N tiles.
  const auto load_codes = [&](int n_tile, int k_tile, int stage) {
    for (; k_tile >= k_tiles; k_tile -= k_tiles) ++n_tile;
    const int first = warpgroup_first_n(n_tile);
    if (first < range.all && elect_one()) {
      arrive_expect_tx(&codes_full[stage], code_stage_bytes);
      bulk_load_tile(layout.codes(warpgroup) + stage * code_stage_bytes, &args.codes,
                     range.first + range.place(first), (first_k_tile + k_tile) * tile_k_bytes,
                     shared_address(&codes_full[stage]));
    }
    __syncwarp();
  };
  if (warp % 4 == 0) {
    for (int i = 0; i < code_stages - 1; ++i) load_codes(0, i, i);
  }

  // The scales of a K tile: a lane has the scales of its two columns, or of the last column, in
  // step lane % 4. Past the end of K the scales of the last step are loaded and not used.
  typename Scales<Nested>::Loaded loaded[2];
  const Scales<Nested> scales_of(args.scales,
                                 range.first * args.k + std::int64_t{first_k_tile} * tile_k);
  const int last_step = static_cast<int>(args.k / step_k) - first_k_tile * tile_steps - 1;
  unsigned upper_weight = 0,
           to_lower = 0;  // offset of the lane's first column; distance to its second
  int scales_step = 0;
  const auto load_scales = [&] {
    const unsigned weight = upper_weight + min(scales_step, last_step) * step_k;
    loaded[0] = scales_of.load(weight);
    loaded[1] = scales_of.load(weight + to_lower);
  };
  const auto load_first_scales = [&](int n_tile) {
    const int column = warp_first_n(n_tile) + static_cast<int>(this_lane() / 4);
    const int upper = range.place(min(column, range.all - 1));
    const int lower = range.place(min(column + 8, range.all - 1));
    upper_weight = upper * static_cast<unsigned>(args.k);
    to_lower = (lower - upper) * static_cast<unsigned>(args.k);
    scales_step = this_lane() % 4;
    load_scales();
  };
  load_first_scales(0);
  auto* const map = reinterpret_cast<float*>(shared + map_begin);
  const float map_entry = Nested ? __ldg(args.scales.nested.map + threadIdx.x % 256) : 0;
  fill_table<Decode>(shared + table_begin, args.table);
  if (Nested && threadIdx.x < 256) map[threadIdx.x] = map_entry;
  grid_dependency_wait();
  launch_dependents();
  __syncthreads();

  // Loads the next stage of activations, by the last warp, which has the fewest columns.
  constexpr int stage_steps = layout.stage_steps;
  const int slice_stages = k_tiles * (tile_steps / stage_steps);
  int stages_to_load = n_tiles * slice_stages, load_index = 0;
  PipelineState load_state{.phase = 1};
  // Stages that may still be in use when one is loaded.
  constexpr int lag = activation_stages > 5 ? 3 : 2;
  const auto load_activations = [&] {
    if (stages_to_load == 0) return;
    --stages_to_load;
    wait_for(&empty[load_state.stage], load_state.phase);
    if (elect_one()) {
      arrive_expect_tx(&full[load_state.stage], layout.stage_bytes);
#pragma unroll
      for (int step = 0; step < stage_steps; ++step) {
        bulk_load_tile(layout.stage(load_state.stage) + step * TileM * step_bytes,
                       &args.activations, m_tile * TileM,
                       first_k_tile * tile_k + (load_index * stage_steps + step) * step_k,
                       shared_address(&full[load_state.stage]));
      }
    }
    __syncwarp();
    if (++load_index == slice_stages) load_index = 0;
    load_state.advance(activation_stages);
  };
  if (warp == warps - 1) {
    for (int i = 0; i < activation_stages - lag; ++i) load_activations();
  }

  const LaneTable<Decode> table(this_lane());
  // Used for a quarter of the codes: with an M tile of 256 faster than for none, and as fast as for
  // half.
  constexpr bool looks_up_in_registers = TileM == 256 && RegisterTable<Decode>::fits;
  const RegisterTable<Decode> register_table(args.table, this_lane());
  unsigned row_of_own_byte = table.row_of_own_byte();
  if (!registers_are_few) keep(row_of_own_byte);
  // The swizzled address for the lane's first column and step; its bits select step and half.
  const unsigned row = this_lane() / 4;
  unsigned lane_codes =
      layout.codes(warpgroup) + (warp % 4 * warp_n + row) * tile_k_bytes + row * 16;
  keep(lane_codes);
  float sum[registers] = {};
  PipelineState state;

  std::uint32_t weights[2][4][4] = {};  // for the step that is multiplied, and for the next
  float unscaled[registers];            // the sum over a step
  Scale step_scales[2];                 // and its scales
  int used_stage = 0;
  // Called after a step's products have completed.
  const auto finish_step = [&](bool ends_stage) {
    if (ends_stage) {
      __syncwarp();
      if (elect_one()) arrive(&empty[used_stage]);
    }
    if constexpr (Decode::scales_sums) {
#pragma unroll
      for (int r = 0; r < registers; ++r) {
        sum[r] = fmaf(step_scales[r % 4 / 2], unscaled[r], sum[r]);
      }
    }
  };

  // The codes of a step for the lane's two columns, in halves. As many codes of the next step as
  // fit in registers are loaded before wgmma starts, because wgmma keeps shared memory busy.
  constexpr int halves_ahead = registers_are_few ? !Nested && !Decode::scales_sums
                               : TileM <= 64     ? 2
                                                 : 1;
  PipelineState code_state;
  uint4 step_codes[2][2] = {};
  unsigned stage_codes = lane_codes;
  const auto read_codes = [&](int step, int half) {
    if (step == 0 && half == 0) {
      stage_codes = lane_codes + code_state.stage * code_stage_bytes;
      keep(stage_codes);
    }
    const unsigned char* const codes = shared + (stage_codes ^ (step * 2 + half) * 16);
    step_codes[half][0] = *reinterpret_cast<const uint4*>(codes);
    step_codes[half][1] = *reinterpret_cast<const uint4*>(codes + 8 * tile_k_bytes);
  };
  const auto read_codes_ahead = [&](int step) {
#pragma unroll
    for (int half = 0; half < halves_ahead; ++half) read_codes(step, half);
  };

  // Waits until the stage of the next K tile is full.
  const auto wait_for_codes = [&] { wait_for(&codes_full[code_state.stage], code_state.phase); };
  // Called after all lanes have read the codes of a K tile.
  const auto free_codes = [&] {
    __syncwarp();
    if (elect_one()) arrive(&codes_empty[code_state.stage]);
  };
  // Decodes a step: a lane's weights are four operands.
  const auto decode_step = [&](int step, Scale upper_scale, Scale lower_scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half + halves_ahead < 2) read_codes(step, half + halves_ahead);
      const uint4 upper = step_codes[half][0], lower = step_codes[half][1];
      auto* const to = &weights[step % 2][half * 2];
      table.decode(to[0], {upper.x, upper.y}, {lower.x, lower.y}, row_of_own_byte, upper_scale,
                   lower_scale);
      if (looks_up_in_registers && half == 0) {
        register_table.decode(to[1], {upper.z, upper.w}, {lower.z, lower.w}, upper_scale,
                              lower_scale);
      } else {
        table.decode(to[1], {upper.z, upper.w}, {lower.z, lower.w}, row_of_own_byte, upper_scale,
                     lower_scale);
      }
    }
  };

  // Starts the products of a step, for the block's share of the rows.
  const auto start_mma = [&](int step, bool has_codes, int sharers, int first_m) {
    const auto start = [&]<int ActiveM>() {
      start_step<Out, TileM, Warpgroups, ActiveM>(Decode::scales_sums ? unscaled : sum,
                                                  weights[step % 2], !Decode::scales_sums, shared,
                                                  state.stage, step % stage_steps, first_m);
    };
    if (has_codes && sharers == 1) start.template operator()<TileM>();
    if constexpr (may_share_m(TileM)) {
      if (has_codes && sharers == 2) start.template operator()<TileM / 2>();
      if (has_codes && sharers == 4) start.template operator()<TileM / 4>();
    }
  };

  for (int n_tile = 0; n_tile < n_tiles; ++n_tile) {
    const bool has_codes = warpgroup_first_n(n_tile) < range.all;
    const bool has_columns = warp_first_n(n_tile) < range.all;
    const bool shares_rows = may_share_m(TileM) && warpgroup_first_n(n_tile) >= range.own;
    const int sharers = shares_rows ? args.n_split.sharers : 1;
    const int first_m = n_block % sharers * (TileM / sharers);
    if (has_codes) wait_for_codes();
    if (has_columns) read_codes_ahead(0);
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      const bool in_row = scales_step <= last_step;
      const Scale scales[2] = {Decode::scale(in_row ? scales_of.value(loaded[0], map) : 0),
                               Decode::scale(in_row ? scales_of.value(loaded[1], map) : 0)};
      scales_step += tile_steps;
      load_scales();

#pragma unroll
      for (int step = 0; step < tile_steps; ++step) {
        const bool begins_stage = step % stage_steps == 0;
        // Loads a few stages late, so that it need not wait for the slowest warp.
        if (begins_stage && warp == warps - 1) load_activations();
        // Replaces the scales that were loaded past the last K tile.
        if (step == 1 && k_tile + 1 == k_tiles) load_first_scales(n_tile + 1);
        // The warps of a warpgroup alternate; the previous K tile's stage is loaded again.
        if (step == 1 && has_codes && k_tile % 4 == warp % 4) {
          const PipelineState previous = code_state.previous(code_stages);
          wait_for(&codes_empty[previous.stage], previous.phase);
          load_codes(n_tile, k_tile + code_stages - 1, previous.stage);
        }
        const Scale upper_scale = __shfl_sync(~0u, scales[0], step, 4);
        const Scale lower_scale = __shfl_sync(~0u, scales[1], step, 4);
        if (has_columns) decode_step(step, upper_scale, lower_scale);
        if (step + 1 < tile_steps) {
          if (has_columns) read_codes_ahead(step + 1);
        } else {
          if (has_codes) free_codes();
          code_state.advance(code_stages);
          if (has_codes && k_tile + 1 < k_tiles) {
            wait_for_codes();
            if (has_columns) read_codes_ahead(0);
          }
        }

        if (begins_stage) wait_for(&full[state.stage], state.phase);
        // The previous step is finished here, before its sums and operands are overwritten.
        const bool has_previous = step > 0 || k_tile > 0;  // in this N tile
        const bool ends_stage = (step + 1) % stage_steps == 0;
        if constexpr (has_wgmma) wgmma_wait(Decode::scales_sums ? unscaled : sum);
        if (has_wgmma && has_previous) finish_step(begins_stage);
        step_scales[0] = upper_scale, step_scales[1] = lower_scale;
        start_mma(step, has_codes, sharers, first_m);
        used_stage = state.stage;
        if constexpr (!has_wgmma) finish_step(ends_stage);
        if (ends_stage) state.advance(activation_stages);
      }
    }
    if constexpr (has_wgmma) {
      wgmma_wait(Decode::scales_sums ? unscaled : sum);
      finish_step(true);
    }

    const std::int64_t m_index = std::int64_t{m_tile} * TileM + first_m;
    const std::int64_t rows = TileM / sharers;
    const int column = warp_first_n(n_tile);
    write_sums<Out, TileM>(args, slice, m_index, static_cast<int>(min(args.m - m_index, rows)),
                           range.first + range.place(column), range.all - column, sum);
#pragma unroll
    for (int r = 0; r < registers; ++r) sum[r] = 0;
  }
#endif
}

}  // namespace reprolab::nf4_product
