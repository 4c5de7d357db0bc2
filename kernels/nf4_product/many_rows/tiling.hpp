// The tiling of many_rows, the layout of a block's shared memory, its arguments, and its epilogue:
// a warp's sums become outputs or, with split-K, partial sums that a second launch adds.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>

#include "kernels/definition.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"

namespace reprolab::nf4_product {

inline constexpr int warp_n = 16, warpgroup_n = 4 * warp_n;
inline constexpr std::int64_t max_k = std::int64_t{1} << 26;         ///< 2^30 weights of a warp.
inline constexpr int code_stage_bytes = warpgroup_n * tile_k_bytes;  ///< One K tile of a warpgroup.
inline constexpr int max_activation_stages = 8;

/// The stages in shared memory: the stages of codes, then as many stages of activations as fit.
struct ManyRowsLayout {
  static constexpr int shared_bytes = 227 * 1024;  ///< The maximum of compute capability 9.0.
  /// Reserved for the blocks of add_slices, one KiB each, so that they can be resident early and
  /// wait.
  static constexpr int free_bytes = 3 * 1024;
  int code_stages;  ///< Three if a K tile takes little time.
  int stage_steps;  ///< Steps in a stage of activations.
  int stage_bytes, codes_end;
  int activation_stages;  ///< At most `max_activation_stages`.

  __host__ __device__ constexpr ManyRowsLayout(int tile_m, int warps)
      : code_stages(tile_m <= 32 ? 3 : 2),
        stage_steps(tile_m == 16   ? tile_steps
                    : tile_m <= 64 ? 2
                                   : 1),
        stage_bytes(stage_steps * tile_m * step_bytes),
        codes_end(stages_begin + warps / 4 * code_stages * code_stage_bytes),
        activation_stages((shared_bytes - (tile_m <= 128 ? free_bytes : 0) - codes_end) /
                          stage_bytes) {
    if (activation_stages > max_activation_stages) activation_stages = max_activation_stages;
  }
  __host__ __device__ constexpr int codes(int warpgroup) const {
    return stages_begin + warpgroup * code_stages * code_stage_bytes;
  }
  __host__ __device__ constexpr int stage(int i) const { return codes_end + i * stage_bytes; }
  /// The bytes to request.
  constexpr int end() const { return stage(activation_stages); }
};

/// The M tile of a problem, at most `max`: 256 only if it pads M no further than 128 does.
inline int tile_m_of(const Problem& problem, int max) {
  int tile_m = 16;
  while (tile_m < std::min(max, 128) && tile_m < problem.m) tile_m *= 2;
  const std::int64_t in_last_256 = (problem.m - 1) % 256 + 1;
  return max == 256 && problem.m > 128 && in_last_256 > 128 ? 256 : tile_m;
}

/// The columns of the output of a block: `own` from `first` on, for all rows of its M tile; then,
/// up to `all`, shared columns that start `gap` columns after its own, for its part of the rows.
struct NRange {
  int first, own, all, gap;

  /// The offset from `first` of column number `i` of the range.
  __host__ __device__ int place(int i) const { return i + (i < own ? 0 : gap); }
};

/// Splits N over blocks: evenly in tiles of a warp or, if blocks may share rows, in tiles of a
/// warpgroup. Two or four blocks then share each remaining tile, if there are enough blocks.
struct NSplit {
  EvenSplit even;
  int n, n_blocks;
  int own = 0;      ///< Unshared columns of each block.
  int sharers = 1;  ///< Blocks that share a remaining tile.

  NSplit(int n, int n_blocks, bool may_share_m)
      : even(static_cast<int>(blocks_over(n, warp_n)), n_blocks), n(n), n_blocks(n_blocks) {
    const int tiles = static_cast<int>(blocks_over(n, warpgroup_n)), left = tiles % n_blocks;
    if (!may_share_m || tiles < n_blocks || left == 0 || left * 2 > n_blocks) return;
    own = tiles / n_blocks * warpgroup_n;
    sharers = left * 4 > n_blocks ? 2 : 4;
  }
  __host__ __device__ NRange of(int n_block) const {
    if (sharers == 1) {
      const int first = even.begin(n_block) * warp_n;
      const int columns = up_to_n(first, even.size(n_block) * warp_n);
      return {first, columns, columns, 0};
    }
    const int first = n_block * own, shared = n_blocks * own + n_block / sharers * warpgroup_n;
    return {first, own, own + up_to_n(shared, warpgroup_n), shared - first - own};
  }

 private:
  /// `columns` columns from `first` on, or as many as exist.
  __host__ __device__ int up_to_n(int first, int columns) const {
    const int left = n - first > 0 ? n - first : 0;
    return left < columns ? left : columns;
  }
};

/// The tiling of a problem. The order of a sum does not depend on M.
struct ManyRowsTiling {
  int n_blocks = 0;  ///< Ranges of N.
  int split_k = 0;   ///< Slices of K.
};

inline ManyRowsTiling many_rows_tiling(const Problem& problem, const Device& device) {
  const std::int64_t k_tiles = blocks_over(problem.k, tile_k);
  constexpr int tile_n = 256;
  ManyRowsTiling best;
  double least = 0;
  for (int split_k = 1; split_k <= std::min<std::int64_t>(k_tiles, 16); ++split_k) {
    // Limits a block's weights to what 31 bits can count.
    const std::int64_t n_blocks =
        std::max(std::clamp<std::int64_t>(device.multiprocessors / split_k, 1,
                                          blocks_over(problem.n, warpgroup_n)),
                 blocks_over(problem.n * problem.k, max_k * warp_n));
    const std::int64_t warp_tiles = blocks_over(blocks_over(problem.n, warp_n), n_blocks);
    const std::int64_t n_tiles = blocks_over(warp_tiles * warp_n, tile_n);
    // The time in units of one tile of 256 x 256 at the same M. With split-K, partial sums are
    // written, and a second launch reads and adds them.
    const double reduction = 4 + static_cast<double>(split_k * problem.n) / 9000;
    const double load = static_cast<double>(n_tiles * blocks_over(k_tiles, split_k)) +
                        (split_k > 1 ? reduction : 0);
    if (best.split_k == 0 || load < least) {
      best = {static_cast<int>(n_blocks), split_k};
      least = load;
    }
  }
  return best;
}

/// The partial sums of all slices of K, in tiles of eight rows x warp_n columns, in the order of
/// mma's fragments: the four sums of a lane are adjacent.
struct PartialTiles {
  int split_k = 1;
  std::int64_t rows = 0, columns = 0;  ///< In tiles.
  float4* sums = nullptr;              ///< [split_k][rows][columns][lanes]

  /// In the problem's workspace.
  PartialTiles(int split_k, const Problem& problem)
      : split_k(split_k),
        rows(blocks_over(problem.m, 8)),
        columns(blocks_over(problem.n, warp_n)),
        sums(static_cast<float4*>(problem.workspace)) {}
  std::int64_t bytes() const { return split_k == 1 ? 0 : split_k * rows * columns * lanes * 16; }

  __device__ float4* of(int slice, std::int64_t tile) const {
    return sums + (slice * rows * columns + tile) * lanes;
  }
};

/// Writes a warp's sums, rounded: `columns` columns from `n_index` on, `rows` rows from `m_index`
/// on. A lane has two columns, eight apart, of two rows in every eight.
template <class Out>
class TileWriter {
 public:
  __device__ TileWriter(void* to, const void* bias, std::int64_t n, std::int64_t m_index, int rows,
                        std::int64_t n_index, int columns)
      : n_(n), rows_(rows - lane() % 4 * 2), columns_(columns - lane() / 4) {
    n_index += lane() / 4;
    to_ = static_cast<Out*>(to) + (m_index + lane() % 4 * 2) * n + n_index;
    for (int half = 0; half < 2; ++half) {
      if (bias != nullptr && half * 8 < columns_) {
        bias_[half] = to_float(static_cast<const Out*>(bias)[n_index + half * 8]);
      }
    }
  }
  /// Writes the lane's sums of the rows from eight times `e` on.
  __device__ void write(int e, float4 sums) const {
    const float values[2][2] = {{sums.x, sums.y}, {sums.z, sums.w}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (e * 8 + i < rows_ && half * 8 < columns_) {
          to_[(e * 8 + i) * n_ + half * 8] = nf4::round_to<Out>(values[half][i] + bias_[half]);
        }
      }
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(this_lane()); }

  Out* to_;
  std::int64_t n_;
  int rows_, columns_;
  float bias_[2] = {};
};

/// Adds the slices, in order, in a separate launch: one tile per warp.
template <class Out>
__global__ void add_slices(PartialTiles tiles, void* output, const void* bias, std::int64_t m,
                           std::int64_t n) {
  grid_dependency_wait();
  launch_dependents();
  const std::int64_t tile = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const std::int64_t m_index = tile / tiles.columns * 8, n_index = tile % tiles.columns * warp_n;
  if (m_index >= m) return;
  const TileWriter<Out> writer(output, bias, n, m_index,
                               static_cast<int>(min(m - m_index, std::int64_t{8})), n_index,
                               static_cast<int>(min(n - n_index, std::int64_t{warp_n})));
  float4 total = {};
#pragma unroll 4
  for (int slice = 0; slice < tiles.split_k; ++slice) {
    const float4 more = __ldcg(tiles.of(slice, tile) + this_lane());
    total.x += more.x, total.y += more.y, total.z += more.z, total.w += more.w;
  }
  writer.write(0, total);
}

template <bool Nested>
struct ManyRowsArguments {
  CUtensorMap codes;        ///< Boxes of warpgroup_n x tile_k.
  CUtensorMap activations;  ///< Boxes of the M tile x step_k.
  const void* bias;
  void* output;
  PartialTiles partial_tiles;
  std::int64_t m, n, k;
  NSplit n_split;
  EvenSplit k_split;  ///< How K tiles are split over slices.
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// Whether blocks may share an N tile, each for a part of the rows: if decoding it several times
/// takes less time than multiplying it once.
__host__ __device__ constexpr bool may_share_m(int tile_m) { return tile_m == 256; }

/// The epilogue of an N tile: writes a warp's sums as outputs or, with split-K, as partial sums.
template <class Out, int TileM, bool Nested>
__device__ void write_sums(const ManyRowsArguments<Nested>& args, int slice, std::int64_t m_index,
                           int rows, std::int64_t n_index, int columns,
                           const float (&sum)[TileM / 2]) {
  if (columns <= 0) return;
  const auto sums_of = [&](int e) {
    return float4{sum[e * 4], sum[e * 4 + 1], sum[e * 4 + 2], sum[e * 4 + 3]};
  };
  const PartialTiles& tiles = args.partial_tiles;
  if (tiles.split_k == 1) {
    const TileWriter<Out> writer(args.output, args.bias, args.n, m_index, rows, n_index, columns);
#pragma unroll
    for (int e = 0; e < TileM / 8; ++e) writer.write(e, sums_of(e));
    return;
  }
  float4* at = tiles.of(slice, m_index / 8 * tiles.columns + n_index / warp_n) + this_lane();
#pragma unroll
  for (int e = 0; e < TileM / 8; ++e, at += tiles.columns * lanes) {
    if (e * 8 < rows) __stcg(at, sums_of(e));
  }
}

}  // namespace reprolab::nf4_product
