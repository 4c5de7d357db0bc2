// How few_rows cuts a product, and where things lie in a block's shared memory.
#pragma once

#include <algorithm>
#include <cstdint>

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
inline constexpr int tile_stages = 2;  ///< At most.
/// Parts begin at multiples of four steps, so that rows of scales are aligned to 16 bytes.
inline constexpr int part_grain = 4;
/// A warp's, of a tile: their activations fit in its registers.
inline constexpr int max_warp_steps = 8;

/// Whether the scales of an output's stage are copied as a row of fp32 numbers, one for each step
/// or half of one: plain ones, where each part of a row begins at a multiple of 16 bytes.
inline bool has_rows_of_scales(const Problem& problem) {
  return !problem.is_nested() && problem.block_size <= step && problem.k % (part_grain * step) == 0;
}

/// Scales per step; a block of weights longer than a step has its scale once for each.
__host__ __device__ constexpr int scales_per_step(int block_size) {
  return block_size < step ? step / block_size : 1;
}

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

inline Shares part_shares(std::int64_t k, int parts) {
  return {static_cast<int>(blocks_over(k, part_grain * step)), parts};
}

/// Where things lie in shared memory: below the table, in the halves of its rows that short entries
/// leave free, and behind it. Stages are on both sides.
struct FewRowsLayout {
  static constexpr int barriers = shared_begin, map = barriers + 256, map_end = map + 1024;
  /// The warps' sums of a tile, twice: for a warp and two rows 32 sums of 16 outputs.
  static constexpr int partials_bytes = 2 * warps * max_rows / 2 * 128;

  int partials, partials_pitch;  ///< Of a warp's two rows.
  int pitch;  ///< Between rows of codes: 32 more than a multiple of 128, so that four rows
              ///< use all banks.
  int scales, scales_pitch;  ///< Likewise 16 more, so that eight rows do.
  int scales_bytes;          ///< Of a stage.
  int stages;                ///< As many as there is room for; 0 where that is too few.
  int codes[max_stages];     ///< Of each stage.
  int end;                   ///< As many bytes are asked for.

  FewRowsLayout(const Cut& cut, std::int64_t k, int block_size, int entry_bytes, int shared_bytes) {
    const bool is_in_table = entry_bytes * lanes + 128 <= row_bytes;
    partials = is_in_table ? table_begin + row_bytes - 128 : map_end;
    partials_pitch = is_in_table ? row_bytes : 128;
    const int part_steps = part_shares(k, cut.parts).max() * part_grain;
    const int stage_steps = first_stage_steps(part_steps, cut.stages_per_tile);
    pitch = round_up(stage_steps * step_bytes, 128) + 32;
    scales_pitch = round_up(stage_steps * scales_per_step(block_size) * 4, 128) + 16;
    const int stage_bytes = tile * pitch;
    scales_bytes = tile * scales_pitch;

    // A warp may read past the last stage, to multiply by zero.
    const int read_past = (round_up(stage_steps, warps) - stage_steps) * step_bytes;
    const int behind =
        std::min(max_stages, std::max(0, shared_bytes - table_end - read_past) / stage_bytes);
    scales = map_end + (is_in_table ? 0 : partials_bytes);
    const int room = table_begin - 128 - scales;
    int below = 0;
    while (below + behind < max_stages &&
           (below + behind + 1) * scales_bytes + (below + 1) * stage_bytes <= room) {
      ++below;
    }
    stages = below + behind;
    const int first = round_up(scales + stages * scales_bytes, 128);
    for (int i = 0; i < max_stages; ++i) {
      codes[i] = i < below ? first + i * stage_bytes : table_end + (i - below) * stage_bytes;
    }
    end = table_end + behind * stage_bytes + read_past;
    if (stages < 3 || stages * scales_bytes > room) stages = 0;
  }

 private:
  static int round_up(int bytes, int multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
  }
};

/// The cut into so many parts; no stages where it is not possible.
inline Cut few_rows_cut(const Problem& problem, const Device& device, int entry_bytes,
                        std::int64_t parts) {
  const int part_steps = part_shares(problem.k, static_cast<int>(parts)).max() * part_grain;
  Cut cut{.parts = static_cast<int>(parts)};
  // Such that a group's weights can be counted in 31 bits.
  const std::int64_t groups = std::max({std::int64_t{1}, device.multiprocessors / parts,
                                        blocks_over(problem.n * problem.k, std::int64_t{1} << 30)});
  cut.groups = static_cast<int>(std::min(groups, blocks_over(problem.n, tile)));
  while (cut.stages == 0 && ++cut.stages_per_tile <= tile_stages) {
    const auto of_a_warp = blocks_over(part_steps, warps * cut.stages_per_tile);
    if (of_a_warp * cut.stages_per_tile > max_warp_steps) continue;
    cut.stages =
        FewRowsLayout(cut, problem.k, problem.block_size, entry_bytes, device.shared_bytes).stages;
  }
  return cut;
}

/// The cut for a problem; no stages where there is none. `entry_bytes` is of the table.
inline Cut few_rows_cut(const Problem& problem, const Device& device, int entry_bytes) {
  const std::int64_t fours = blocks_over(problem.k, 4 * step);
  const std::int64_t min_parts = blocks_over(4 * fours, warps * max_warp_steps);
  Cut best;
  double least = 0;
  for (std::int64_t parts = min_parts; parts <= std::min(fours, 4 * min_parts + 12); ++parts) {
    const Cut cut = few_rows_cut(problem, device, entry_bytes, parts);
    if (cut.stages == 0) continue;
    // What the busiest block takes, in the time of a warp's step: its tiles, each with what a stage
    // and a tile take beside the steps, and the sum of the parts.
    const std::int64_t waves =
        blocks_over(std::int64_t{cut.groups} * parts, std::max(1, device.multiprocessors));
    const std::int64_t tiles = blocks_over(blocks_over(problem.n, tile), cut.groups);
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

/// At the begin of the workspace, a multiple of 16.
inline std::int64_t arrivals_bytes(const Cut& cut) { return blocks_over(cut.groups, 2) * 16; }
inline std::uint64_t few_rows_workspace(const Problem& problem, const Cut& cut) {
  if (cut.parts == 1) return 0;
  return static_cast<std::uint64_t>(arrivals_bytes(cut) +
                                    PartSums::bytes(cut.parts, problem.m, problem.n));
}

}  // namespace reprolab::nf4_product
