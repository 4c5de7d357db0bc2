// Loads the stages of few_rows' pipeline.
#pragma once

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

}  // namespace reprolab::nf4_product
