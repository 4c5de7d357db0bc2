// How few_rows cuts a product, and where things lie in a block's shared memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/grid.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"
#include "kernels/nf4_product/few_rows_sums.cuh"

namespace reprolab::nf4_product {

inline constexpr int tile = 16;                    ///< Outputs.
inline constexpr int step = 64, step_bytes = 128;  ///< Inputs, and their activations of a row.
inline constexpr int unit_steps = unit_inputs / step;
inline constexpr int unit_bytes = unit_inputs / 2;  ///< The codes of an output.
inline constexpr int max_rows = 16;
/// A team of warps has a unit's steps, one each, for the same outputs.
inline constexpr int teams = 4, team_warps = unit_steps, warps = teams * team_warps;
/// Behind the warps that multiply come one that copies and some that decode scales.
inline constexpr int decoder_warps = 3;
inline constexpr int threads = (warps + 1 + decoder_warps) * 32;
inline constexpr int max_team_tiles = 5;  ///< Their sums fit in a warp's registers.
inline constexpr int max_stages = 8;
inline constexpr int max_box_tiles = 16;  ///< The accelerator copies 256 rows at most.

/// How a product is cut. Nothing here depends on m.
struct Cut {
  int parts = 0;        ///< Blocks that share a group of outputs, each with its units of inputs.
  int groups = 0;       ///< Of the outputs; one for each block of a part.
  int tiles = 0;        ///< Of a group, at most.
  int stage_shift = 0;  ///< log2 of a stage's units: 0 to 2.

  /// Each has a team for the same outputs.
  __host__ __device__ int stage_units() const { return 1 << stage_shift; }
};

/// The stages that have so many inputs. A block's begin at a multiple of a stage's units.
inline std::int64_t stages_over(std::int64_t inputs, const Cut& cut) {
  return blocks_over(inputs, unit_inputs << cut.stage_shift);
}

/// Copies of a stage's codes: each of up to 256 outputs, all alike.
struct Boxes {
  int count, tiles;  ///< Per unit, and of each.

  explicit Boxes(const Cut& cut)
      : count(static_cast<int>(blocks_over(cut.tiles, max_box_tiles))),
        tiles(static_cast<int>(blocks_over(cut.tiles, count))) {}
  int outputs() const { return count * tiles * tile; }
};

/// Where the stages of a ring lie: behind the table and the map of nested scales.
struct FewRowsLayout {
  int outputs = 0;                                   ///< Of a block, in its boxes.
  int codes = 0, activations = 0, scales = 0;        ///< Of the first stage.
  int codes_bytes, activations_bytes, scales_bytes;  ///< Of each stage.
  int stages = 0;                                    ///< As many as there is room for.
  int end = 0;                                       ///< As many bytes are asked for.

  /// `rows`: of activations, 8 or 16. `unit_scales`: of an output in a unit.
  FewRowsLayout(const Cut& cut, int rows, int unit_scales, int shared_bytes)
      : outputs(Boxes(cut).outputs()),
        codes_bytes(cut.stage_units() * outputs * unit_bytes),
        activations_bytes(cut.stage_units() * unit_steps * rows * step_bytes),
        scales_bytes(cut.stage_units() * outputs * unit_scales * 4) {
    // A warp reads one tile further than its last, and uses nothing of it.
    const int read_past = tile * unit_scales * 4;
    stages = std::clamp((shared_bytes - stages_begin - read_past) /
                            (codes_bytes + activations_bytes + scales_bytes),
                        0, max_stages);
    codes = stages_begin;
    activations = codes + stages * codes_bytes;
    scales = activations + stages * activations_bytes;
    // The warps' sums take the stages' place in the end.
    const int sums_bytes = warps * max_team_tiles * rows * tile * 4;
    end = std::max(scales + stages * scales_bytes + read_past, stages_begin + sums_bytes);
    if (end > shared_bytes) stages = 0;
  }
};

/// Scales of an output in a unit; a block of weights longer than a step has its scale once for
/// each.
constexpr int unit_scales(int block_size) { return unit_inputs / std::min(block_size, step); }

/// Whether there are as many stages as decoders, which take turns.
inline bool has_room(const Cut& cut, const Problem& problem, const Device& device) {
  return FewRowsLayout(cut, max_rows, unit_scales(problem.block_size), device.shared_bytes)
             .stages >= decoder_warps;
}

/// What a product takes by that cut, in cycles, from what was seen on an H200: the time of a
/// multiprocessor's shared memory, of its waiting, of the memory, or of the L2 cache, from which
/// each block reads its rows' activations; and that of adding the parts.
inline double estimated_cycles(const Cut& cut, const Problem& problem, int multiprocessors) {
  constexpr int tile_unit = 108, stage_beside = 150, stage_latency = 400;
  constexpr int memory_bytes = 2210, cache_bytes = 4000;  // per cycle
  constexpr int adding_parts = 5000, adding_part = 100;
  constexpr int rows = 12;  // as there may be 8 or 16
  const std::int64_t blocks = std::int64_t{cut.groups} * cut.parts;
  const std::int64_t part_stages = blocks_over(stages_over(problem.k, cut), cut.parts);
  const std::int64_t part_units = part_stages << cut.stage_shift;
  const std::int64_t waves = blocks_over(blocks, multiprocessors);
  const std::int64_t stages = waves * part_stages;
  const double weights = static_cast<double>(problem.n) * static_cast<double>(problem.k);
  const double weight_bytes = weights * (0.5 + 4.0 / 64);
  const auto activation_bytes = static_cast<double>(blocks * part_units * unit_inputs * 2 * rows);
  return std::max({static_cast<double>(waves * part_units * cut.tiles * tile_unit +
                                       stages * stage_beside),
                   static_cast<double>(stages * stage_latency), weight_bytes / memory_bytes,
                   (weight_bytes + activation_bytes) / cache_bytes}) +
         (cut.parts > 1 ? adding_parts + adding_part * cut.parts : 0);
}

/// The cut for a problem; no parts where there is none.
inline Cut few_rows_cut(const Problem& problem, const Device& device) {
  const std::int64_t units = blocks_over(problem.k, unit_inputs);
  const std::int64_t tiles = blocks_over(problem.n, tile);
  const int multiprocessors = std::max(1, device.multiprocessors);
  int most_tiles = teams * max_team_tiles;  // of a block
  while (most_tiles > 0 && !has_room({.tiles = most_tiles}, problem, device)) --most_tiles;
  if (most_tiles == 0) return {};
  Cut best;
  double least = 0;
  for (int parts = 1; parts <= std::min<std::int64_t>(units, 16); ++parts) {
    // As many whole waves of blocks as are needed.
    const std::int64_t wave = std::max(1, multiprocessors / parts);
    const std::int64_t groups =
        std::min(tiles, wave * blocks_over(blocks_over(tiles, most_tiles), wave));
    Cut cut{.parts = parts,
            .groups = static_cast<int>(groups),
            .tiles = static_cast<int>(blocks_over(tiles, groups))};
    // Several units of a stage are copied at once, where a row has whole ones.
    while (cut.stage_shift < 2 && problem.k % unit_inputs == 0 &&
           2 * cut.stage_units() * parts <= units &&
           2 * cut.stage_units() * cut.tiles <= teams * max_team_tiles) {
      ++cut.stage_shift;
    }
    while (cut.stage_shift > 0 && !has_room(cut, problem, device)) --cut.stage_shift;
    const double cycles = estimated_cycles(cut, problem, multiprocessors);
    if (best.parts == 0 || cycles < least) {
      best = cut;
      least = cycles;
    }
  }
  return best;
}

/// At the begin of the workspace, a multiple of 16.
inline std::int64_t arrivals_bytes(const Cut& cut) { return blocks_over(cut.groups, 2) * 16; }
inline std::uint64_t few_rows_workspace(const Problem& problem) {
  const Cut cut = few_rows_cut(problem, current_device());
  if (cut.parts <= 1) return 0;
  return static_cast<std::uint64_t>(arrivals_bytes(cut) +
                                    PartSums::bytes(cut.parts, problem.m, problem.n));
}

}  // namespace reprolab::nf4_product
