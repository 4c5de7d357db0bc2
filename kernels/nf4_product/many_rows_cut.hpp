// How many_rows cuts a product, and where things lie in a block's shared memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/grid.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"
#include "kernels/nf4_product/sums.cuh"

namespace reprolab::nf4_product {

inline constexpr int block_inputs = 64;  ///< Rows of 128 bytes of activations.
inline constexpr int unit_blocks = 4;    ///< Per stage of codes: rows of 128 bytes.
inline constexpr int unit_inputs = unit_blocks * block_inputs;
inline constexpr int warp_outputs = 16;
inline constexpr int code_pitch = unit_inputs / 2;
inline constexpr int code_stages = 3;
inline constexpr int code_stage_bytes = warp_outputs * code_pitch;  ///< A warp's.

inline constexpr int max_activation_stages = 8;
/// Blocks of inputs per stage of activations, which are multiplied together: as many as there are
/// registers for.
__host__ __device__ constexpr int stage_blocks_of(int rows) { return rows <= 32 ? 2 : 1; }

/// Where things lie in shared memory: the codes below the table, if there is room for them, and the
/// stages of activations behind it; else the other way round.
struct ManyRowsLayout {
  static constexpr int barriers = shared_begin;
  static constexpr int below = 2048;  ///< A multiple of 1024, as swizzling needs.
  int stage_bytes, codes_bytes, codes, stages;

  __host__ __device__ constexpr ManyRowsLayout(int rows, int warps)
      : stage_bytes(stage_blocks_of(rows) * rows * 128),
        codes_bytes(warps * code_stages * code_stage_bytes),
        codes(below + codes_bytes <= table_begin ? below : table_end),
        stages(codes == below ? table_end : below) {}
  __host__ __device__ constexpr int stage(int i) const { return stages + i * stage_bytes; }
  int max_stages(int shared_bytes) const {
    const int end = stages == below ? table_begin : shared_bytes;
    return std::min(max_activation_stages, (end - stages) / stage_bytes);
  }
  /// As many bytes are asked for.
  int end(int stages_made) const {
    return stages == below ? codes + codes_bytes : stage(stages_made);
  }
};

/// Rows that a block takes at a time.
inline int row_tile_of(const Problem& problem) {
  return problem.m <= 16 ? 16 : problem.m <= 32 ? 32 : problem.m <= 64 ? 64 : 128;
}

/// How a product is cut; nothing that decides the order of a sum depends on m.
struct ManyRowsCut {
  int groups = 0;  ///< Shares of the outputs.
  int parts = 0;   ///< Shares of the inputs.
};

inline ManyRowsCut many_rows_cut(const Problem& problem, const Device& device) {
  const std::int64_t units = blocks_over(problem.k, unit_inputs);
  constexpr int pass = 256;
  ManyRowsCut best;
  double least = 0;
  for (int parts = 1; parts <= std::min<std::int64_t>(units, 16); ++parts) {
    // Such that a group's weights can be counted in 31 bits.
    const std::int64_t groups = std::max(
        std::clamp<std::int64_t>(device.multiprocessors / parts, 1, blocks_over(problem.n, 64)),
        blocks_over(problem.n * problem.k, std::int64_t{1} << 30));
    const std::int64_t passes = blocks_over(blocks_over(problem.n, groups), pass);
    // In the time of a pass of 256 outputs over a unit; the sum of the parts takes that of eight.
    const double load =
        static_cast<double>(passes * blocks_over(units, parts)) + (parts > 1 ? 8 : 0);
    if (best.parts == 0 || load < least) {
      best = {static_cast<int>(groups), parts};
      least = load;
    }
  }
  return best;
}

struct ManyRowsWorkspace {
  std::int64_t arranged, part_sums;  ///< bytes of each, in this order

  ManyRowsWorkspace(const Problem& problem, const ManyRowsCut& cut) {
    const int rows = row_tile_of(problem);
    const std::int64_t row_tiles = blocks_over(problem.m, rows);
    arranged = row_tiles * blocks_over(problem.k, unit_inputs) * unit_blocks * rows * 128;
    part_sums = PartSums::bytes(cut.parts, problem.m, problem.n);
  }
};

inline std::uint64_t many_rows_workspace(const Problem& problem) {
  const ManyRowsWorkspace workspace(problem, many_rows_cut(problem, current_device()));
  return static_cast<std::uint64_t>(workspace.arranged + workspace.part_sums);
}

}  // namespace reprolab::nf4_product
