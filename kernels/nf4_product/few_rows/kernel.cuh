// A matmul for the few rows (M <= 16) of decoding, out[M, N] = x[M, K] * W[N, K]^T, in one pass
// over the codes of W.
//
// Idea:   Codes are streamed to shared memory; the math warps decode a byte, two weights, by
//         one permutation of bytes and one load from a table, into registers from which
//         mma.m16n8k16 takes its 16 x 16 operand. The sum over a block of weights is scaled in
//         fp32.
// Source: ours. Weights as the first operand from registers, and a split-K reduction in a fixed
//         order, as in Marlin (arXiv 2408.11743), which repacks the weights; here they stay as
//         bitsandbytes laid them out. Full and empty barriers as in CUTLASS's PipelineTmaAsync.
// Bound:  memory: codes and scales are read once.
//
// Tiling. The grid is n_blocks x split_k. A block has a range of N, in tiles of 16, and a slice of
// K, in tiles of 256; a team of four warps multiplies a K tile, each warp one step of 64, for all N
// tiles of the team, so that the activations in its registers serve several tiles.
//
//                     K ->    slice 0                      slice 1                 ...
//                 +---------------+---------------+---------------+---------------+
//   N  block 0    | K tile: 256   |               |               |               |  N tile: 16
//   |             |s0 |s1 |s2 |s3 |               |               |               |
//   v             +---------------+---------------+---------------+---------------+
//                 |               |               |               |               |  N tile
//                 +===============+===============+===============+===============+
//      block 1    |               |               |               |               |
//                 +---------------+---------------+---------------+---------------+
//                  s0 ... s3: steps of 64, of the warps of a team
//
// With many N tiles, the N tiles are divided between the teams; with few, a stage has two or four K
// tiles, which are divided between the teams. Finally the sums of the warps, then of the slices,
// are added in an order that only N, K and the GPU determine: the result depends neither on the run
// nor on the other rows of the batch.
//
// Pipeline. A ring of 3 to 8 stages in shared memory; each stage has codes, activations and scales,
// and a `full` and an `empty` barrier.
//
//   load warp        | TMA s0 | TMA s1 | TMA s2 |   wait empty s0 | TMA s0 | ...
//                         |  full or scales_full        ^
//                         v                             |
//   3 decoder warps       | decode scales s0 |          |            (only where scales need it)
//                                   |  full             |
//                                   v                   |  empty
//   16 math warps                   | mma s0            | mma s1             | ...
//
// Before compute capability 9.0 there is no TMA: the decoder warps also copy codes and activations.
// In 99 KiB of shared memory, stages are smaller: few_rows/stages.cuh.
#pragma once

#include "kernels/nf4_product/few_rows/stages.cuh"

namespace reprolab::nf4_product {

/// `ScalesPerStep`: 2 for blocks of 32 weights, else 1. `MTiles`: of 8 rows.
template <class Out, class Decode, int ScalesPerStep, int MTiles, bool Nested>
__global__ void __launch_bounds__(threads, 1)
    few_rows(const __grid_constant__ FewRowsArguments<Nested> args) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  using Activations = ActivationFragment<ScalesPerStep, MTiles>;
  using Weights = CodeFragment<ScalesPerStep>;
  constexpr int tile_m = MTiles * 8;
  constexpr int scale_bytes = tile_steps * ScalesPerStep * 4;  // of a column, in a K tile
  const FewRowsTiling& tiling = args.tiling;
  const FewRowsLayout& layout = args.layout;
  const FewRowsBarriers barriers(shared);

  // The shuffle tells the compiler that all lanes have the same warp number.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int slice = blockIdx.x % tiling.split_k, n_block = blockIdx.x / tiling.split_k;
  const TileRange range(args, n_block, slice);
  const int stage_k_tiles = tiling.stage_k_tiles();
  const int stages = (range.k_tiles + stage_k_tiles - 1) >> tiling.stage_shift;
  const StageScales<ScalesPerStep, Nested> scales{args};
  const StageLoader<ScalesPerStep, MTiles, Nested> loader(args, range, barriers, scales);

  // If no scales are decoded, the decoder warps load small stages, too. At most as many warps load
  // as there are stages, so that the phase before an awaited one has completed.
  const int loaders = scales.are_decoded() ? 1 : min(1 + decoder_warps, layout.stages);

  // One warp for each stage's barriers.
  static_assert(max_stages <= math_warps);
  if (warp < layout.stages && elect_one()) {
    const int readers =
        has_small_stages<Decode>
            ? (min(range.n_tiles, args.boxes.n_tiles) << tiling.stage_shift) * team_warps
            : math_warps;
    barriers.init(warp, scales.are_decoded(), readers);
  }
  __syncthreads();

  // Codes, scales and the table do not depend on the previous launch; activations do.
  if (warp < math_warps) {
    fill_table<Decode>(shared + table_begin, args.table);
    sync_named_barrier<math_warps>(1);
    grid_dependency_wait();
  } else if (has_small_stages<Decode> && has_bulk_copies && warp < math_warps + loaders) {
    load_small_stages(args, range, barriers, scales, stages, warp - math_warps, loaders);
  } else if (warp == math_warps) {
    const bool leads = elect_one();
    const int ring = has_bulk_copies ? min(layout.stages, stages) : 0;
    if (leads) {
#pragma unroll 1
      for (int i = 0; i < ring; ++i) loader.load_weights(i, i);
    }
    grid_dependency_wait();
    launch_dependents();
    if (leads) {
#pragma unroll 1
      for (int i = 0; i < ring; ++i) loader.load_activations(i, i);
    }
    PipelineState state;
#pragma unroll 1
    for (int stage = layout.stages; has_bulk_copies && stage < stages;
         ++stage, state.advance(layout.stages)) {
      wait_for(&barriers.empty[state.stage], state.phase);
      if (leads) {
        if (scales.are_decoded()) fence_async_proxy();  // decoder warps wrote to it
        loader.load_weights(stage, state.stage);
        loader.load_activations(stage, state.stage);
      }
    }
  } else if (scales.are_decoded()) {
    // Each decoder warp has every third stage. Below 9.0 it also copies codes and activations.
    const int first = warp - math_warps - 1;
    ScaleDecoder<Decode, ScalesPerStep, Nested> decoder(args, range, lane);
    decoder.read(first);
    if constexpr (Nested) {
      SharedMap<Decode>::template fill<decoder_warps * 32>(args.scales.nested.map,
                                                           first * 32 + lane);
      sync_named_barrier<decoder_warps>(2);
    }
    if constexpr (has_small_stages<Decode>) {
      decode_small_stages(decoder, loader, scales, barriers, stages, first, lane);
    } else {
      PipelineState state;
      for (int i = 0; i < first; ++i) state.advance(layout.stages);
#pragma unroll 1
      for (int stage = first; stage < stages; stage += decoder_warps) {
        // With at least three stages, the phase before the awaited one has completed.
        wait_for(&barriers.empty[state.stage], state.phase ^ 1);
        if (scales.are_copied()) wait_for(&barriers.scales_full[state.stage], state.phase);
        if constexpr (!has_bulk_copies) {
          loader.load_codes_without_tma(stage, 0, state.stage, lane);
          loader.load_activations_without_tma(stage, state.stage, lane);
          cp_async_arrive(&barriers.full[state.stage]);
        }
        decoder.decode(stage, layout.scales + state.stage * layout.scales_bytes);
        __syncwarp();  // racecheck does not see this ordering: tests/kernels/CMakeLists.txt
        if (elect_one()) arrive(&barriers.full[state.stage]);
        decoder.read(stage + decoder_warps);
        for (int i = 0; i < decoder_warps; ++i) state.advance(layout.stages);
      }
    }
  }

  // The warp's K tile of a stage, its step of the K tile, and the N tiles of its team.
  const int team = warp / team_warps, tile_step = warp % team_warps;
  const int stage_k_tile = team & (stage_k_tiles - 1), tile_team = team >> tiling.stage_shift;
  const TeamTiles<Decode> tiles(args, range, tile_team);
  const int first_tile = stage_k_tile * (layout.stage_n / tile_n) + tiles.first;
  const unsigned lane_codes =
      layout.codes + first_tile * (tile_n * tile_k_bytes) + Weights::codes_at(lane, tile_step);
  const unsigned lane_scales =
      layout.scales + first_tile * (tile_n * scale_bytes) + Weights::scales_at(lane, tile_step);
  const unsigned lane_activations =
      layout.activations + (stage_k_tile * tile_steps + tile_step) * (tile_m * step_bytes) +
      Activations::first_chunk(lane);
  const LaneTable<Decode> table(lane);
  float sums[max_team_tiles][MTiles][4] = {};
  if constexpr (has_small_stages<Decode>) {
    if (warp < math_warps && tiles.count > 0) {
      multiply_small_stages<Out, Decode, ScalesPerStep>(sums, args, range, barriers, table,
                                                        tiles.count, stage_k_tile, lane_codes,
                                                        lane_scales, lane_activations);
    }
  } else {
    PipelineState state;
#pragma unroll 1
    for (int stage = 0; warp < math_warps && stage < stages;
         ++stage, state.advance(layout.stages)) {
      wait_for(&barriers.full[state.stage], state.phase);
      if (tiles.count > 0 && stage * stage_k_tiles + stage_k_tile < range.k_tiles) {
        const unsigned codes = lane_codes + state.stage * layout.codes_bytes;
        const unsigned team_scales = lane_scales + state.stage * layout.scales_bytes;
        Weights next_weights;
        next_weights.read(codes, team_scales);
        Activations activations;
        activations.read(lane_activations + state.stage * layout.activations_bytes);
#pragma unroll
        for (int t = 0; t < max_team_tiles; ++t) {
          if (t >= tiles.count) break;
          const Weights weights = next_weights;
          // Prefetches past the last tile, too, where the values are not used.
          next_weights.read(codes + (t + 1) * (tile_n * tile_k_bytes),
                            team_scales + (t + 1) * (tile_n * scale_bytes));
          mma_step<Out>(sums[t], table, weights, activations);
        }
      }
      __syncwarp();
      if (elect_one()) arrive(&barriers.empty[state.stage]);
    }
  }

  // The sums of the warps that have the same N tiles, in shared memory:
  // [tile][register][warp][lane].
  const int sharers = team_warps * stage_k_tiles, sharer = stage_k_tile * team_warps + tile_step;
  const unsigned lane_sums =
      stages_begin_of<Decode> + (tiles.place * (MTiles * 4) * sharers * 32 + lane) * 4;
  __syncthreads();
#pragma unroll
  for (int t = 0; t < max_team_tiles; ++t) {
    if (warp >= math_warps || t >= tiles.count) break;
#pragma unroll
    for (int i = 0; i < MTiles * 4; ++i) {
      store_shared(lane_sums + ((t * MTiles * 4 + i) * sharers + sharer) * 128,
                   sums[t][i / 4][i % 4]);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int at = sharer; warp < math_warps && at < tiles.count * MTiles * 4; at += sharers) {
    float total = 0;
#pragma unroll 1
    for (int first = 0; first < sharers; first += team_warps) {
#pragma unroll
      for (int i = 0; i < team_warps; ++i) {
        total += load_shared<float>(lane_sums + (at * sharers + first + i) * 128);
      }
    }
    const int t = at / (MTiles * 4), i = at % (MTiles * 4);
    const int m_index = i / 4 * 8 + Activations::m_of(lane % 4 * 2 + i % 2);
    const std::int64_t n_index = range.first_n + (tiles.first + t * tiles.step) * tile_n +
                                 Weights::n_of(lane) + i % 4 / 2 * 8;
    if (m_index >= args.m || n_index >= args.n) continue;
    if (tiling.split_k > 1) {
      *args.partial_sums.at(slice, m_index, n_index) = total;
    } else {
      write_output<Out>(args.output, m_index * args.n + n_index, total, args.bias, n_index);
    }
  }
  if (tiling.split_k == 1) return;

  reduce_in_last_block(args.arrivals, n_block, tiling.split_k, [&] {
    const int fours = (range.n + 3) / 4;
    for (int i = threadIdx.x; i < fours * args.m; i += blockDim.x) {
      add_four<Out>(args.partial_sums, i / fours, range.first_n + i % fours * 4, args.bias,
                    args.output);
    }
  });
#endif
}

}  // namespace reprolab::nf4_product
