// Loads the stages of few_rows' pipeline, and all of its small stages.
#pragma once

#include "kernels/nf4_product/few_rows/mma.cuh"
#include "kernels/nf4_product/few_rows/scales.cuh"

namespace reprolab::nf4_product {

/// Loads codes, scales and activations to stage `at` of the ring.
template <int ScalesPerStep, int MTiles, bool Nested>
class StageLoader {
  static constexpr int scale_bytes = tile_steps * ScalesPerStep * 4;  ///< Per column, in a K tile.

 public:
  __device__ StageLoader(const FewRowsArguments<Nested>& args, const TileRange& range,
                         const FewRowsBarriers& barriers,
                         const StageScales<ScalesPerStep, Nested>& scales)
      : args_(args), layout_(args.layout), range_(range), barriers_(barriers), scales_(scales) {}

  /// Codes and scales with the TMA, by one thread.
  __device__ void load_weights(int stage, int at) const {
    const bool copies_scales = scales_.are_copied(), decodes_scales = scales_.are_decoded();
    std::uint64_t* const full = &barriers_.full[at];
    std::uint64_t* const scales_full = &barriers_.scales_full[at];
    const int bytes = layout_.codes_bytes + layout_.activations_bytes;
    arrive_expect_tx(full, bytes + (copies_scales && !decodes_scales ? layout_.scales_bytes : 0));
    if (copies_scales && decodes_scales)
      arrive_expect_tx(scales_full, layout_.stage_n * scale_bytes);
    const int k_tile = first_k_tile(stage);
#pragma unroll 1
    for (int box = 0; box < args_.boxes.count; ++box) {
      const int in_block = box * args_.boxes.n_tiles * tile_n;
      const int n_index = static_cast<int>(range_.first_n) + in_block;
      const unsigned codes = layout_.codes + at * layout_.codes_bytes + in_block * tile_k_bytes;
      if (args_.tiling.stage_shift == 0) {
        bulk_load_tile(codes, &args_.codes_map, n_index, k_tile * tile_k_bytes,
                       shared_address(full));
      } else {  // then there is one box
        bulk_load_tiles(codes, &args_.codes_map, n_index, k_tile, shared_address(full));
      }
      if (!copies_scales) continue;
      const unsigned scales = layout_.scales + at * layout_.scales_bytes + in_block * scale_bytes;
      if (decodes_scales) {
        bulk_load_tile(scales, &args_.scales_map, n_index, scales_.first_copied(k_tile),
                       shared_address(scales_full));
      } else {
        bulk_load_tiles(scales, &args_.scales_map, n_index, k_tile, shared_address(full));
      }
    }
  }

  /// Activations with the TMA, by one thread.
  __device__ void load_activations(int stage, int at) const {
    bulk_load_tiles(layout_.activations + at * layout_.activations_bytes, &args_.activations_map, 0,
                    first_k_tile(stage) * tile_steps, shared_address(&barriers_.full[at]));
  }

  /// Below compute capability 9.0 a warp loads codes and activations in chunks of 16 bytes; then
  /// each lane calls cp_async_arrive(). `first_column`: of the stage, from the block's first.
  __device__ void load_codes_without_tma(int stage, int first_column, int at, int lane) const {
    const int p = lane % row_chunks, stage_k_tiles = args_.tiling.stage_k_tiles();
    for (int i = lane / row_chunks; i < stage_k_tiles * layout_.stage_n; i += rows_at_once) {
      const int in_block = first_column + i % layout_.stage_n;
      const int k_tile = first_k_tile(stage) + i / layout_.stage_n;
      const std::int64_t byte = std::int64_t{k_tile} * tile_k_bytes + p * 16;
      if (in_block >= range_.n) continue;
      cp_async_16(layout_.codes + at * layout_.codes_bytes + i * tile_k_bytes + (p ^ i % 8) * 16,
                  args_.codes + (range_.first_n + in_block) * (args_.k / 2) + byte,
                  byte < args_.k / 2 ? 16 : 0);
    }
  }
  __device__ void load_activations_without_tma(int stage, int at, int lane) const {
    constexpr int tile_m = MTiles * 8;
    const int p = lane % row_chunks, stage_k_tiles = args_.tiling.stage_k_tiles();
    for (int i = lane / row_chunks; i < stage_k_tiles * tile_steps * tile_m; i += rows_at_once) {
      const int m_index = i % tile_m;
      const std::int64_t k_index =
          (std::int64_t{first_k_tile(stage)} * tile_steps + i / tile_m) * step_k + p * 8;
      const bool exists = m_index < args_.m && k_index < args_.k;
      cp_async_16(layout_.activations + at * layout_.activations_bytes + i * step_bytes +
                      (p ^ m_index % 8) * 16,
                  args_.input + (exists ? m_index * args_.k + k_index : 0), exists ? 16 : 0);
    }
  }

 private:
  static_assert(tile_k_bytes == step_bytes);
  static constexpr int row_chunks = tile_k_bytes / 16, rows_at_once = 32 / row_chunks;

  __device__ int first_k_tile(int stage) const {
    return range_.first_k_tile + (stage << args_.tiling.stage_shift);
  }

  const FewRowsArguments<Nested>& args_;
  const FewRowsLayout& layout_;
  const TileRange& range_;
  const FewRowsBarriers& barriers_;
  const StageScales<ScalesPerStep, Nested>& scales_;
};

// A small stage has 16 x 256 weights for each team, so that a block may have 16
// or 20 N tiles in 99 KiB of shared memory. Consecutive stages have the other N tiles of the same K
// tiles, and share the activations that are loaded with the first one.
//
// On an H200 a small stage is loaded in about 500 cycles. So several warps load; a load computes
// its addresses before it waits; and a stage is free as soon as its codes are in registers.

/// The place of a small stage in the block and in shared memory.
template <bool Nested>
class SmallStage {
 public:
  /// Stage number `number` of the block.
  __device__ SmallStage(const FewRowsArguments<Nested>& args, int number)
      : args_(args), activation_ring_(args.layout.activation_ring(args.boxes.count)) {
    keep(activation_ring_);
    advance(number);
  }

  int number = 0;
  int k = 0, box = 0;   ///< Its number along K, and along N.
  int activations = 0;  ///< The number of its activations in their ring.
  PipelineState state;

  /// Its first column, from the first of the block.
  __device__ int first_column() const { return box * args_.layout.stage_n; }
  __device__ void advance(int stages) {
    for (int i = 0; i < stages; ++i) {
      ++number;
      state.advance(args_.layout.stages);
      if (++box < args_.boxes.count) continue;
      box = 0;
      ++k;
      if (++activations == activation_ring_) activations = 0;
    }
  }

 private:
  const FewRowsArguments<Nested>& args_;
  int activation_ring_;
};

/// Loads small stages with the TMA.
template <int ScalesPerStep, bool Nested>
class SmallStageLoader {
 public:
  __device__ SmallStageLoader(const FewRowsArguments<Nested>& args, const TileRange& range,
                              const FewRowsBarriers& barriers,
                              const StageScales<ScalesPerStep, Nested>& scales)
      : args_(args), layout_(args.layout), range_(range), barriers_(barriers), scales_(scales) {}

  /// Computes what the loads of a stage need, before the wait for it.
  __device__ void prepare(const SmallStage<Nested>& stage) {
    const int at = stage.state.stage, first_column = stage.first_column();
    is_first_ = stage.box == 0;
    // A block may have an N tile less than others, and so an empty box.
    n_index_ = first_column < range_.n ? static_cast<int>(range_.first_n) + first_column : -1;
    k_tile_ = range_.first_k_tile + (stage.k << args_.tiling.stage_shift);
    full_ = shared_address(&barriers_.full[at]);
    codes_ = layout_.codes + at * layout_.codes_bytes;
    scales_to_ = layout_.scales + at * layout_.scales_bytes;
    activations_ = layout_.activations + stage.activations * layout_.activations_bytes;
    const bool has_scales = scales_.are_copied() && !scales_.are_decoded();
    bytes_ = (is_first_ ? layout_.activations_bytes : 0) +
             (n_index_ < 0 ? 0 : layout_.codes_bytes + (has_scales ? layout_.scales_bytes : 0));
    keep(n_index_), keep(k_tile_), keep(full_), keep(codes_), keep(scales_to_), keep(activations_),
        keep(bytes_);
  }

  /// By one thread.
  __device__ void load_weights(const SmallStage<Nested>& stage) const {
    const bool copies_scales = scales_.are_copied(), decodes_scales = scales_.are_decoded();
    std::uint64_t* const scales_full = &barriers_.scales_full[stage.state.stage];
    arrive_expect_tx(&barriers_.full[stage.state.stage], bytes_);
    if (copies_scales && decodes_scales) {
      constexpr int scale_bytes = tile_steps * ScalesPerStep * 4;
      arrive_expect_tx(scales_full, n_index_ < 0 ? 0 : layout_.stage_n * scale_bytes);
    }
    if (n_index_ < 0) return;
    if (args_.tiling.stage_shift == 0) {
      bulk_load_tile(codes_, &args_.codes_map, n_index_, k_tile_ * tile_k_bytes, full_);
    } else {
      bulk_load_tiles(codes_, &args_.codes_map, n_index_, k_tile_, full_);
    }
    if (!copies_scales) return;
    if (decodes_scales) {
      bulk_load_tile(scales_to_, &args_.scales_map, n_index_, scales_.first_copied(k_tile_),
                     shared_address(scales_full));
    } else {
      bulk_load_tiles(scales_to_, &args_.scales_map, n_index_, k_tile_, full_);
    }
  }
  __device__ void load_activations() const {
    if (!is_first_) return;
    bulk_load_tiles(activations_, &args_.activations_map, 0, k_tile_ * tile_steps, full_);
  }

 private:
  const FewRowsArguments<Nested>& args_;
  const FewRowsLayout& layout_;
  const TileRange& range_;
  const FewRowsBarriers& barriers_;
  const StageScales<ScalesPerStep, Nested>& scales_;
  bool is_first_ = false;
  int n_index_ = 0, k_tile_ = 0, bytes_ = 0;
  unsigned full_ = 0, codes_ = 0, scales_to_ = 0, activations_ = 0;
};

/// Loads every `loaders`th stage from number `first` on, by one warp. `k_stages`: the number of
/// stages along K.
template <int ScalesPerStep, bool Nested>
__device__ void load_small_stages(const FewRowsArguments<Nested>& args, const TileRange& range,
                                  const FewRowsBarriers& barriers,
                                  const StageScales<ScalesPerStep, Nested>& scales, int k_stages,
                                  int first, int loaders) {
  SmallStageLoader<ScalesPerStep, Nested> loader(args, range, barriers, scales);
  SmallStage<Nested> stage(args, first), activations(args, first);
  const bool leads = elect_one();
  const int without_wait = min(args.layout.stages, k_stages * args.boxes.count);
#pragma unroll 1
  for (; stage.number < without_wait; stage.advance(loaders)) {
    loader.prepare(stage);
    if (leads) loader.load_weights(stage);
  }
  grid_dependency_wait();
  launch_dependents();
#pragma unroll 1
  for (; activations.number < without_wait; activations.advance(loaders)) {
    loader.prepare(activations);
    if (leads) loader.load_activations();
  }
#pragma unroll 1
  for (; stage.k < k_stages; stage.advance(loaders)) {
    loader.prepare(stage);
    wait_for(&barriers.empty[stage.state.stage], stage.state.phase ^ 1);
    if (!leads) continue;
    if (scales.are_decoded()) fence_async_proxy();  // decoder warps wrote to it
    loader.load_weights(stage);
    loader.load_activations();
  }
}

/// Decodes the scales of every third stage from number `first` on, by one warp. Below compute
/// capability 9.0 it also copies codes and activations.
template <class Decode, int ScalesPerStep, int MTiles, bool Nested>
__device__ void decode_small_stages(ScaleDecoder<Decode, ScalesPerStep, Nested>& decoder,
                                    const StageLoader<ScalesPerStep, MTiles, Nested>& loader,
                                    const StageScales<ScalesPerStep, Nested>& scales,
                                    const FewRowsBarriers& barriers, int k_stages, int first,
                                    int lane) {
  const FewRowsLayout& layout = scales.args.layout;
  SmallStage<Nested> stage(scales.args, first);
  decoder.read(stage.k, stage.first_column());
#pragma unroll 1
  while (stage.k < k_stages) {
    const int at = stage.state.stage;
    std::uint64_t* const full = &barriers.full[at];
    // With at least three stages, the phase before the awaited one has completed.
    wait_for(&barriers.empty[at], stage.state.phase ^ 1);
    if (scales.are_copied()) wait_for(&barriers.scales_full[at], stage.state.phase);
    if constexpr (!has_bulk_copies) {
      loader.load_codes_without_tma(stage.k, stage.first_column(), at, lane);
      if (stage.box == 0) loader.load_activations_without_tma(stage.k, stage.activations, lane);
      cp_async_arrive(full);
    }
    decoder.decode(stage.k, layout.scales + at * layout.scales_bytes, stage.first_column());
    __syncwarp();  // racecheck does not see this ordering: tests/kernels/CMakeLists.txt
    if (elect_one()) arrive(full);
    stage.advance(decoder_warps);
    decoder.read(stage.k, stage.first_column());
  }
}

/// The products of a warp, for the `team_tiles` N tiles of its team. `codes`, `scales` and
/// `activations_from`: the addresses of the lane's first ones in shared memory.
template <class Out, class Decode, int ScalesPerStep, int MTiles, bool Nested>
__device__ void multiply_small_stages(float (&sums)[max_team_tiles][MTiles][4],
                                      const FewRowsArguments<Nested>& args, const TileRange& range,
                                      const FewRowsBarriers& barriers,
                                      const LaneTable<Decode>& table, int team_tiles,
                                      int stage_k_tile, unsigned codes, unsigned scales,
                                      unsigned activations_from) {
  const FewRowsLayout& layout = args.layout;
  int activation_ring = layout.activation_ring(args.boxes.count);
  keep(activation_ring);
  PipelineState state;
  int activations_at = 0;
#pragma unroll 1
  for (int k_tile = 0; k_tile < range.k_tiles; k_tile += args.tiling.stage_k_tiles()) {
    ActivationFragment<ScalesPerStep, MTiles> activations;
#pragma unroll
    for (int t = 0; t < max_team_tiles; ++t, state.advance(layout.stages)) {
      if (t >= args.boxes.count) break;
      wait_for(&barriers.full[state.stage], state.phase);
      CodeFragment<ScalesPerStep> weights;
      weights.read(codes + state.stage * layout.codes_bytes,
                   scales + state.stage * layout.scales_bytes);
      if (t == 0) activations.read(activations_from + activations_at * layout.activations_bytes);
      fence_async_proxy();  // The loads may be in flight: the next bulk copies stay behind them.
      __syncwarp();
      if (elect_one()) arrive(&barriers.empty[state.stage]);
      if (t < team_tiles && k_tile + stage_k_tile < range.k_tiles) {
        mma_step<Out>(sums[t], table, weights, activations);
      }
    }
    if (++activations_at == activation_ring) activations_at = 0;
  }
}

}  // namespace reprolab::nf4_product
