// The product for the few rows of decoding, which is one pass over the codes. few_rows.cu says what
// it is for.
//
// How the work is cut. A block of threads stays on its multiprocessor and owns a group of outputs,
// in tiles of 16, and a range of the inputs, in units of 256. Codes, scales and activations come
// through a ring of stages in shared memory: one warp has a stage filled as soon as the others
// have used it, and three more decode its scales where they need that. A unit is a team's of four
// warps: each takes 64 of its inputs, for all tiles of the team, so that the activations that it
// reads serve several tiles. Where a block has many tiles, the teams share them; where it has few,
// each takes a unit of a stage's. In the end the warps' sums are added, in an order that n, k and
// the GPU alone decide. So the result does not change from run to run, nor with the other rows of
// the batch.
//
// In the matrix instruction the weights are the 16 x 16 operand and the activations the 16 x 8 one.
// The order of the inputs in a sum is free, as long as both operands use the same: each of the four
// lanes that share an output takes 16 consecutive weights of 64, in one 8-byte read.
#pragma once

#include "kernels/nf4_product/few_rows_copies.cuh"
#include "kernels/nf4_product/few_rows_steps.cuh"

namespace reprolab::nf4_product {

/// `Halves`: scales per step of 64; 2 for blocks of 32 weights. `RowTiles`: of 8 rows.
template <class Out, class Decode, int Halves, int RowTiles, bool Nested>
__global__ void __launch_bounds__(threads, 1)
    few_rows(const __grid_constant__ FewRows<Nested> work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  using Activations = StepActivations<Halves, RowTiles>;
  using Weights = StepWeights<Halves>;
  constexpr int rows = RowTiles * 8;
  constexpr int scale_bytes = unit_steps * Halves * 4;  // of an output, in a unit
  const Cut& cut = work.cut;
  const FewRowsLayout& layout = work.layout;
  const FewRowsBarriers barriers(shared);

  // What the block owns. Every lane has the same warp, which the compiler then knows.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int part = blockIdx.x % cut.parts, group = blockIdx.x / cut.parts;
  const Share share(work, group, part);
  const int stage_units = cut.stage_units();
  const int stages = (share.units + stage_units - 1) >> cut.stage_shift;
  const StageScales<Halves, Nested> scales{work};
  const StageCopies<Halves, RowTiles, Nested> copies(work, share, barriers, scales);

  // All wait for no more than the stages' barriers, which a warp each prepares.
  static_assert(max_stages <= warps);
  if (warp < layout.stages && is_elected()) barriers.init(warp, scales.are_decoded());
  __syncthreads();

  // Codes, scales and tables do not wait for the launch before; activations do.
  if (warp < warps) {
    fill_table<Decode>(shared + table_begin, work.table);
    synchronize_warps<warps>(1);
    wait_for_launch_before();
  } else if (warp == warps) {
    const bool leads = is_elected();
    const int ring = has_bulk_copies ? min(layout.stages, stages) : 0;
    if (leads) {
#pragma unroll 1
      for (int i = 0; i < ring; ++i) copies.copy_weights(i, i);
    }
    wait_for_launch_before();
    let_next_launch_begin();
    if (leads) {
#pragma unroll 1
      for (int i = 0; i < ring; ++i) copies.copy_activations(i, i);
    }
    Turn used;
#pragma unroll 1
    for (int stage = layout.stages; has_bulk_copies && stage < stages;
         ++stage, used.next(layout.stages)) {
      wait_for(&barriers.used[used.stage], used.parity);
      if (leads) {
        if (scales.are_decoded()) order_before_bulk_copies();  // decoders wrote to it
        copies.copy_weights(stage, used.stage);
        copies.copy_activations(stage, used.stage);
      }
    }
  } else if (scales.are_decoded()) {
    // The decoders take turns. Below 9.0 each also copies the other parts of its stages.
    using Entry = typename Decode::Entry;
    const int first = warp - warps - 1;
    ScaleDecoder<Entry, Halves, Nested> decoder(work, share, lane);
    decoder.read(first);
    if constexpr (Nested) {
      SharedMap<Entry>::template fill<decoder_warps * 32>(work.scales.nested.map,
                                                          first * 32 + lane);
      synchronize_warps<decoder_warps>(2);
    }
    Turn turn;
    for (int i = 0; i < first; ++i) turn.next(layout.stages);
#pragma unroll 1
    for (int stage = first; stage < stages; stage += decoder_warps) {
      // A ring has three stages at least, so when a warp comes to a barrier the phase before the
      // one that it waits for is over.
      wait_for(&barriers.used[turn.stage], turn.parity ^ 1);
      if (scales.are_copied()) wait_for(&barriers.copied[turn.stage], turn.parity);
      if constexpr (!has_bulk_copies) copies.copy_without_accelerator(stage, turn.stage, lane);
      decoder.decode(stage, layout.scales + turn.stage * layout.scales_bytes);
      __syncwarp();  // racecheck does not see that it orders: tests/kernels/sanitizer
      if (is_elected()) arrive(&barriers.filled[turn.stage]);
      decoder.read(stage + decoder_warps);
      for (int i = 0; i < decoder_warps; ++i) turn.next(layout.stages);
    }
  }

  // The warp's unit of a stage, and its step of the unit; the tiles of its team.
  const int team = warp / team_warps, in_unit = warp % team_warps;
  const int stage_unit = team & (stage_units - 1), tile_team = team >> cut.stage_shift;
  const Shares team_shares(share.tiles, teams >> cut.stage_shift);
  const int team_tile = team_shares.begin(tile_team), team_tiles = team_shares.size(tile_team);
  const int unit_tile = stage_unit * (layout.outputs / tile) + team_tile;
  const unsigned lane_codes =
      layout.codes + unit_tile * (tile * unit_bytes) + Weights::codes_at(lane, in_unit);
  const unsigned lane_scales =
      layout.scales + unit_tile * (tile * scale_bytes) + Weights::scales_at(lane, in_unit);
  const unsigned lane_activations = layout.activations +
                                    (stage_unit * unit_steps + in_unit) * (rows * step_bytes) +
                                    Activations::first_part(lane);
  const LaneTable<Decode> table(lane);
  float sums[max_team_tiles][RowTiles][4] = {};
  Turn turn;
#pragma unroll 1
  for (int stage = 0; warp < warps && stage < stages; ++stage, turn.next(layout.stages)) {
    wait_for(&barriers.filled[turn.stage], turn.parity);
    if (team_tiles > 0 && stage * stage_units + stage_unit < share.units) {
      const unsigned codes = lane_codes + turn.stage * layout.codes_bytes;
      const unsigned team_scales = lane_scales + turn.stage * layout.scales_bytes;
      Weights next_weights;
      next_weights.read(codes, team_scales);
      const Activations activations(lane_activations + turn.stage * layout.activations_bytes);
#pragma unroll
      for (int t = 0; t < max_team_tiles; ++t) {
        if (t >= team_tiles) break;
        const Weights weights = next_weights;
        // Behind the last tile something is read, too, and not used.
        next_weights.read(codes + (t + 1) * (tile * unit_bytes),
                          team_scales + (t + 1) * (tile * scale_bytes));
        multiply_step<Out>(sums[t], table, weights, activations);
      }
    }
    __syncwarp();
    if (is_elected()) arrive(&barriers.used[turn.stage]);
  }

  // The sums of the warps that have the same tiles, in shared memory: [tile][register][warp][lane].
  const int sharers = team_warps * stage_units, sharer = stage_unit * team_warps + in_unit;
  const unsigned lane_sums = stages_begin + (team_tile * (RowTiles * 4) * sharers * 32 + lane) * 4;
  __syncthreads();
#pragma unroll
  for (int t = 0; t < max_team_tiles; ++t) {
    if (warp >= warps || t >= team_tiles) break;
#pragma unroll
    for (int i = 0; i < RowTiles * 4; ++i) {
      write_stage(lane_sums + ((t * RowTiles * 4 + i) * sharers + sharer) * 128,
                  sums[t][i / 4][i % 4]);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int at = sharer; warp < warps && at < team_tiles * RowTiles * 4; at += sharers) {
    float total = 0;
#pragma unroll 1
    for (int of = 0; of < sharers; of += team_warps) {
#pragma unroll
      for (int i = 0; i < team_warps; ++i) {
        total += read_stage<float>(lane_sums + (at * sharers + of + i) * 128);
      }
    }
    const int t = at / (RowTiles * 4), i = at % (RowTiles * 4);
    const int row = i / 4 * 8 + Activations::row_of(lane % 4 * 2 + i % 2);
    const std::int64_t output =
        share.first_output + (team_tile + t) * tile + Weights::output_of(lane) + i % 4 / 2 * 8;
    if (row >= work.m || output >= work.n) continue;
    if (cut.parts > 1) {
      *work.part_sums.at(part, row, output) = total;
    } else {
      write_output<Out>(work.output, row * work.n + output, total, work.bias, output);
    }
  }
  if (cut.parts == 1) return;

  add_parts_in_last_block(work.arrivals, group, cut.parts, [&] {
    const int fours = (share.outputs + 3) / 4;
    for (int i = threadIdx.x; i < fours * work.m; i += blockDim.x) {
      add_four<Out>(work.part_sums, i / fours, share.first_output + i % fours * 4, work.bias,
                    work.output);
    }
  });
#endif
}

}  // namespace reprolab::nf4_product
