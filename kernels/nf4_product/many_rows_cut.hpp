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
inline constexpr int unit_blocks = unit_inputs / block_inputs;  ///< One stage of codes.
inline constexpr int warp_outputs = 16, warpgroup_outputs = 4 * warp_outputs;
inline constexpr std::int64_t max_inputs = std::int64_t{1} << 26;  ///< 2^30 weights of a warp.
inline constexpr int code_pitch = unit_inputs / 2;
inline constexpr int code_stage_bytes = warpgroup_outputs * code_pitch;  ///< A warpgroup's.
inline constexpr int max_activation_stages = 8;

/// Where the stages lie in shared memory: those of codes, then as many of activations as fit.
struct ManyRowsLayout {
  static constexpr int shared_bytes = 227 * 1024;  ///< As much as compute capability 9.0 has.
  /// Left to blocks that add the parts, a KiB for each, which so can wait on the multiprocessor.
  static constexpr int left_bytes = 3 * 1024;
  int code_stages;   ///< The more, the less time a unit takes.
  int stage_blocks;  ///< Blocks of inputs per stage of activations.
  int stage_bytes, codes_end;
  int activation_stages;  ///< At most `max_activation_stages`.

  __host__ __device__ constexpr ManyRowsLayout(int rows, int warps)
      : code_stages(rows <= 32 ? 3 : 2),
        stage_blocks(rows == 16   ? unit_blocks
                     : rows <= 64 ? 2
                                  : 1),
        stage_bytes(stage_blocks * rows * 128),
        codes_end(stages_begin + warps / 4 * code_stages * code_stage_bytes),
        activation_stages((shared_bytes - (rows <= 128 ? left_bytes : 0) - codes_end) /
                          stage_bytes) {
    if (activation_stages > max_activation_stages) activation_stages = max_activation_stages;
  }
  __host__ __device__ constexpr int codes(int warpgroup) const {
    return stages_begin + warpgroup * code_stages * code_stage_bytes;
  }
  __host__ __device__ constexpr int stage(int i) const { return codes_end + i * stage_bytes; }
  /// As many bytes are asked for.
  constexpr int end() const { return stage(activation_stages); }
};

/// Rows that a block takes at a time, at most `max`: twice 128 only where they are no more in all.
inline int row_tile_of(const Problem& problem, int max) {
  int rows = 16;
  while (rows < std::min(max, 128) && rows < problem.m) rows *= 2;
  const std::int64_t in_last_256 = (problem.m - 1) % 256 + 1;
  return max == 256 && problem.m > 128 && in_last_256 > 128 ? 256 : rows;
}

/// The outputs of a group of blocks: `own` from `first` on, for all rows, and behind them up to
/// `all`, for the group's share of the rows, those of a tile that begins `apart` further on.
struct GroupOutputs {
  int first, own, all, apart;

  __host__ __device__ int place(int output) const { return output + (output < own ? 0 : apart); }
};

/// How groups share the outputs: evenly, in tiles of a warp's; or, if they may share rows, in tiles
/// of a warpgroup's, where four groups, or two, share each one that is left over if they suffice.
struct OutputShares {
  Shares even;
  int n, groups;
  int own = 0;      ///< Each group's outputs without those that it shares.
  int sharers = 1;  ///< Of a tile that is left over.

  OutputShares(int n, int groups, bool may_share_rows)
      : even(static_cast<int>(blocks_over(n, warp_outputs)), groups), n(n), groups(groups) {
    const int tiles = static_cast<int>(blocks_over(n, warpgroup_outputs)), left = tiles % groups;
    if (!may_share_rows || tiles < groups || left == 0 || left * 2 > groups) return;
    own = tiles / groups * warpgroup_outputs;
    sharers = left * 4 > groups ? 2 : 4;
  }
  __host__ __device__ GroupOutputs of(int group) const {
    if (sharers == 1) {
      const int first = even.begin(group) * warp_outputs;
      const int outputs = up_to_n(first, even.size(group) * warp_outputs);
      return {first, outputs, outputs, 0};
    }
    const int first = group * own, shared = groups * own + group / sharers * warpgroup_outputs;
    return {first, own, own + up_to_n(shared, warpgroup_outputs), shared - first - own};
  }

 private:
  /// So many outputs from `first` on, or as many as there are.
  __host__ __device__ int up_to_n(int first, int outputs) const {
    const int left = n - first > 0 ? n - first : 0;
    return left < outputs ? left : outputs;
  }
};

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
    const std::int64_t groups =
        std::max(std::clamp<std::int64_t>(device.multiprocessors / parts, 1,
                                          blocks_over(problem.n, warpgroup_outputs)),
                 blocks_over(problem.n * problem.k, max_inputs * warp_outputs));
    const std::int64_t tiles = blocks_over(blocks_over(problem.n, warp_outputs), groups);
    const std::int64_t passes = blocks_over(tiles * warp_outputs, pass);
    // In the time of a pass of 256 outputs over a unit, for the same number of rows. Parts take a
    // launch to be added, and are written and read.
    const double adding = 4 + static_cast<double>(parts * problem.n) / 9000;
    const double load =
        static_cast<double>(passes * blocks_over(units, parts)) + (parts > 1 ? adding : 0);
    if (best.parts == 0 || load < least) {
      best = {static_cast<int>(groups), parts};
      least = load;
    }
  }
  return best;
}

}  // namespace reprolab::nf4_product
