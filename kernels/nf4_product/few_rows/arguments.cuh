// The arguments of few_rows, a block's barriers, and its range of tiles.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/nf4_product/few_rows/tiling.hpp"

namespace reprolab::nf4_product {

/// How scales are loaded into a stage. `number`: a scale or, with nested scales, its 8-bit code.
enum class ScaleRows {
  copied,  ///< Along K, tiles are aligned to blocks of weights, or blocks to tiles, and the TMA
           ///< copies a stage's numbers to where the scales of its first K tile will be.
  whole,   ///< Tiles are aligned as above, but the decoder warps read the numbers.
  any      ///< The decoder warps find the number of each scale.
};

/// The maps are used from compute capability 9.0 on.
template <bool Nested>
struct FewRowsArguments {
  CUtensorMap codes_map;        ///< Boxes of n_tiles x a stage's K tiles.
  CUtensorMap activations_map;  ///< Boxes of tile_m x a stage's steps.
  CUtensorMap scales_map;       ///< As codes_map, for the numbers, if they are copied.
  const std::uint8_t* codes;
  const std::uint16_t* input;
  const void* bias;
  void* output;
  PartialSums partial_sums;  ///< With split-K.
  Arrivals arrivals;
  std::int64_t n, k;
  int m;
  FewRowsTiling tiling;
  Boxes boxes;
  EvenSplit n_split, k_split;  ///< How N tiles are split over blocks, and stages over slices.
  FewRowsLayout layout;
  ScaleRows scale_rows;
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// The barriers of a block: arrays with one for each stage.
struct FewRowsBarriers {
  std::uint64_t *full, *empty;
  std::uint64_t* scales_full;  ///< For copied numbers that are decoded before the stage is full.

  __device__ explicit FewRowsBarriers(unsigned char* shared)
      : full(reinterpret_cast<std::uint64_t*>(shared + barriers_begin)),
        empty(full + max_stages),
        scales_full(empty + max_stages) {}

  /// Called by one thread for each stage. `readers`: the number of warps that read it.
  __device__ void init(int stage, bool decodes_scales, int readers) const {
    init_barrier(&full[stage], (has_bulk_copies ? 1 : 32) + (decodes_scales ? 1 : 0));
    init_barrier(&empty[stage], readers);
    init_barrier(&scales_full[stage], 1);
    fence_async_proxy();
  }
};

/// The tiles of a block: n_tiles x k_tiles.
struct TileRange {
  std::int64_t first_n;
  int n_tiles, n;  ///< The last tile may be partial.
  int first_k_tile, k_tiles;

  template <bool Nested>
  __device__ TileRange(const FewRowsArguments<Nested>& args, int n_block, int slice)
      : first_n(std::int64_t{args.n_split.begin(n_block)} * tile_n),
        n_tiles(args.n_split.size(n_block)),
        first_k_tile(args.k_split.begin(slice) << args.tiling.stage_shift) {
    const auto all_k_tiles = static_cast<int>((args.k + tile_k - 1) / tile_k);
    k_tiles = min(args.k_split.size(slice) << args.tiling.stage_shift, all_k_tiles - first_k_tile);
    n = static_cast<int>(min(std::int64_t{n_tiles} * tile_n, args.n - first_n));
  }
};

/// The N tiles of a team: consecutive ones, or one of each small stage.
template <class Decode>
struct TeamTiles {
  int first, count, step;
  int place;  ///< Of the first one's sums in shared memory, after the main loop.

  template <bool Nested>
  __device__ TeamTiles(const FewRowsArguments<Nested>& args, const TileRange& range, int team) {
    if constexpr (has_small_stages<Decode>) {
      first = team, step = args.boxes.n_tiles;
      count = team < step && team < range.n_tiles ? (range.n_tiles - team - 1) / step + 1 : 0;
      place = team * args.boxes.count;
    } else {
      const EvenSplit split(range.n_tiles, teams >> args.tiling.stage_shift);
      place = first = split.begin(team), step = 1;
      count = split.size(team);
    }
  }
};

}  // namespace reprolab::nf4_product
