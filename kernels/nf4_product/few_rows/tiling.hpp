// The tiling of few_rows, the layout of a block's shared memory, and split-K: the last block to
// arrive of those that share columns of the output adds their partial sums.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "kernels/definition.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"

namespace reprolab::nf4_product {

/// Writes columns `first_n` to `first_n` + 3 of a row of the output, as many as exist.
template <class Out>
__device__ void write_four(void* output, std::int64_t m_index, std::int64_t first_n, std::int64_t n,
                           float4 sums, const void* bias) {
  const float values[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first_n + i < n) {
      write_output<Out>(output, m_index * n + first_n + i, values[i], bias, first_n + i);
    }
  }
}

/// The partial sums of all slices of K, in the workspace.
struct PartialSums {
  float* sums = nullptr;  ///< [split_k][m][pitch(n)]
  int split_k = 0;
  std::int64_t m = 0, n = 0;

  __host__ __device__ static std::int64_t pitch(std::int64_t n) { return (n + 3) / 4 * 4; }
  static std::int64_t bytes(int split_k, std::int64_t m, std::int64_t n) {
    return split_k > 1 ? split_k * m * pitch(n) * 4 : 0;
  }
  /// Aligned to 16 bytes where `first_n` is a multiple of four.
  __device__ float* at(int slice, std::int64_t m_index, std::int64_t first_n) const {
    return sums + (slice * m + m_index) * pitch(n) + first_n;
  }
};

/// Adds the slices of four columns of a row, in order.
template <class Out>
__device__ void add_four(const PartialSums& partial, std::int64_t m_index, std::int64_t first_n,
                         const void* bias, void* output) {
  float4 total = {};
#pragma unroll 4
  for (int slice = 0; slice < partial.split_k; ++slice) {
    const auto* const at = reinterpret_cast<const float4*>(partial.at(slice, m_index, first_n));
    const float4 sums = __ldcg(at);
    total.x += sums.x, total.y += sums.y, total.z += sums.z, total.w += sums.w;
  }
  write_four<Out>(output, m_index, first_n, partial.n, total, bias);
}

/// Counters of arrived slices, in memory with any content: a counter counts as 0 unless its upper
/// 40 bits equal the launch's own number, which any other content is unlikely to match.
struct Arrivals {
  unsigned long long* counters = nullptr;  ///< One per range of N.
  unsigned long long launch = 0;

  static constexpr int count_bits = 24;
  static Arrivals of_next_launch(void* counters) {
    // Starts from the time in nanoseconds, so that no process repeats a number of an earlier
    // process; the multiplication maps distinct numbers to distinct ones (Steele et al., "Fast
    // splittable pseudorandom number generators", 2014).
    static std::atomic<std::uint64_t> launches{
        static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())};
    const std::uint64_t number = launches.fetch_add(1) * 0x9e3779b97f4a7c15u;
    return {static_cast<unsigned long long*>(counters), number >> count_bits};
  }
  /// Whether this is the last of `split_k` arrivals; it resets the counter for a repeated launch.
  __device__ bool is_last(int n_block, int split_k) const {
    // Expect to be the last arrival: its compare-and-swap, on the critical path, then succeeds at
    // once.
    unsigned long long seen = (launch << count_bits) + split_k - 1, expected, next;
    do {
      expected = seen;
      next = (expected >> count_bits == launch ? expected : launch << count_bits) + 1;
      seen = atomicCAS(counters + n_block, expected, next);
    } while (seen != expected);
    const bool is_last = next == (launch << count_bits) + split_k;
    if (is_last) counters[n_block] = 0;
    return is_last;
  }
};

/// Called by all threads of the blocks that share a range of N, after they have written their
/// slices. `reduce` runs only in the last block to arrive, to which all slices are visible.
template <class Reduce>
__device__ void reduce_in_last_block(const Arrivals& arrivals, int n_block, int split_k,
                                     Reduce reduce) {
  __syncthreads();
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = arrivals.is_last(n_block, split_k);
    __threadfence();
  }
  if (__syncthreads_or(is_last)) reduce();
}

inline constexpr int tile_n = 16;
inline constexpr int max_m = 16;
/// A team of warps multiplies a K tile, one step each, for the same N tiles.
inline constexpr int teams = 4, team_warps = tile_steps, math_warps = teams * team_warps;
/// The math warps are followed by one load warp and the decoder warps.
inline constexpr int decoder_warps = 3;
inline constexpr int threads = (math_warps + 1 + decoder_warps) * 32;
inline constexpr int max_team_tiles = 5;  ///< N tiles whose sums fit in a warp's registers.
inline constexpr int max_stages = 8;
inline constexpr int max_box_tiles = 16;  ///< A TMA box has 256 rows at most.

/// The tiling of a problem. Does not depend on M: a row's result is the same in any batch.
struct FewRowsTiling {
  int split_k = 0;      ///< Slices of K; one block each for the same range of N.
  int n_blocks = 0;     ///< Ranges of N.
  int n_tiles = 0;      ///< Per range, at most.
  int stage_shift = 0;  ///< log2 of a stage's K tiles: 0 to 2.

  /// Each is multiplied by one team or more, for the same N tiles.
  __host__ __device__ int stage_k_tiles() const { return 1 << stage_shift; }
};

/// The number of stages for `k` elements of K. Slices are whole stages.
inline std::int64_t stages_over(std::int64_t k, const FewRowsTiling& tiling) {
  return blocks_over(k, tile_k << tiling.stage_shift);
}

/// Whether a stage has 16 x 256 weights for each team instead of all N tiles of the block: small
/// stages, for little shared memory.
template <class Decode>
inline constexpr bool has_small_stages = Decode::has_small_table;

/// The TMA boxes of a K tile's codes: equal boxes, of up to 256 rows of weights. A stage has all of
/// them, a small stage one.
struct Boxes {
  int count, n_tiles;  ///< Boxes per K tile; N tiles per box.

  Boxes(const FewRowsTiling& tiling, bool are_small_stages)
      : count(static_cast<int>(blocks_over(
            tiling.n_tiles, are_small_stages ? teams >> tiling.stage_shift : max_box_tiles))),
        n_tiles(are_small_stages ? std::min(tiling.n_tiles, teams >> tiling.stage_shift)
                                 : static_cast<int>(blocks_over(tiling.n_tiles, count))) {}
};

/// The addresses in a block's shared memory that stages may have.
struct StageMemory {
  int begin = 0, end = 0;
  bool has_small_stages = false;
};

/// The maximum of a block on compute capability 8.6, 8.9 and 12.0.
inline constexpr int small_shared_bytes = 99 * 1024;

/// With a small table, at most `small_shared_bytes` on every GPU.
template <class Decode>
StageMemory stage_memory(const Device& device) {
  const int end = Decode::has_small_table ? std::min(device.shared_bytes, small_shared_bytes)
                                          : device.shared_bytes;
  return {stages_begin_of<Decode>, end, has_small_stages<Decode>};
}

/// The stages in shared memory: all codes, then all activations, then all scales. Small stages of
/// the same K tiles share their activations.
struct FewRowsLayout {
  int stage_n = 0;                                               ///< Columns in a stage's boxes.
  int codes = 0, activations = 0, scales = 0;                    ///< Offsets in the first stage.
  int codes_bytes = 0, activations_bytes = 0, scales_bytes = 0;  ///< Per stage.
  int stages = 0;                                                ///< As many as fit; 0: no room.
  int end = 0;                                                   ///< The bytes to request.

  /// `tile_m`: 8 or 16. `tile_scales`: scales of a column in a K tile.
  FewRowsLayout(const FewRowsTiling& tiling, int tile_m, int tile_scales,
                const StageMemory& memory) {
    const Boxes boxes(tiling, memory.has_small_stages);
    stage_n = (memory.has_small_stages ? 1 : boxes.count) * boxes.n_tiles * tile_n;
    codes_bytes = tiling.stage_k_tiles() * stage_n * tile_k_bytes;
    activations_bytes = tiling.stage_k_tiles() * tile_steps * tile_m * step_bytes;
    scales_bytes = tiling.stage_k_tiles() * stage_n * tile_scales * 4;
    const int sharing = memory.has_small_stages ? boxes.count : 1;
    // A warp prefetches one N tile past its last, if the stage has several of its team.
    const int read_past = memory.has_small_stages ? 0 : tile_n * tile_scales * 4;
    for (stages = max_stages; stages > 0; --stages) {
      codes = memory.begin;
      activations = codes + stages * codes_bytes;
      scales = activations + activation_ring(sharing) * activations_bytes;
      end = scales + stages * scales_bytes + read_past;
      if (end <= memory.end) break;
    }
    // After the main loop the warps' sums take the place of the stages.
    const int sum_tiles = memory.has_small_stages ? boxes.count * boxes.n_tiles : tiling.n_tiles;
    const int sums_bytes = (sum_tiles << tiling.stage_shift) * team_warps * tile_m * tile_n * 4;
    end = std::max(end, memory.begin + sums_bytes);
    if (end > memory.end) stages = 0;
  }

  /// The number of stages of activations, if `sharing` stages of weights share one. Enough that the
  /// load of the first of them, which waits for the stage `stages` before it, waits for all warps
  /// that have read the replaced activations: a warp reads them once, with the first stage.
  __host__ __device__ int activation_ring(int sharing) const {
    return (stages + sharing - 1) / sharing;
  }
};

/// The scales of a column in a K tile: at least one per step, even if a block of weights is longer.
constexpr int tile_scales(int block_size) { return tile_k / std::min(block_size, step_k); }

/// Whether there are at least as many stages as decoder warps: each decodes every third stage.
inline bool has_room(const FewRowsTiling& tiling, const Problem& problem, const StageMemory& memory,
                     int tile_m = max_m) {
  return FewRowsLayout(tiling, tile_m, tile_scales(problem.block_size), memory).stages >=
         decoder_warps;
}
/// The N tiles of a block, at most; 0 if there is no room for one of each team.
inline int max_block_tiles(const Problem& problem, const StageMemory& memory, int tile_m = max_m) {
  // One small stage for each K tile needs more memory than two that share activations.
  if (!has_room({.n_tiles = teams}, problem, memory, tile_m)) return 0;
  int tiles = teams * max_team_tiles;
  while (!has_room({.n_tiles = tiles}, problem, memory, tile_m)) --tiles;
  return tiles;
}

/// A model of a product's time in cycles, fitted to an H200: the largest of the times of shared
/// memory, of latency, of device memory, and of the L2 cache, from which each block reads its
/// activations; plus the time of the split-K reduction.
inline double estimated_cycles(const FewRowsTiling& tiling, const Problem& problem,
                               int multiprocessors) {
  constexpr int tile_cycles = 108, stage_overhead = 150, stage_latency = 400;
  constexpr int memory_bytes = 2210, cache_bytes = 4000;  // per cycle
  constexpr int reduction = 5000, reduction_per_slice = 100;
  constexpr int m = 12;  // between the 8 and 16 that a block computes
  const std::int64_t blocks = std::int64_t{tiling.n_blocks} * tiling.split_k;
  const std::int64_t slice_stages = blocks_over(stages_over(problem.k, tiling), tiling.split_k);
  const std::int64_t slice_k_tiles = slice_stages << tiling.stage_shift;
  const std::int64_t waves = blocks_over(blocks, multiprocessors);
  const std::int64_t stages = waves * slice_stages;
  const double weights = static_cast<double>(problem.n) * static_cast<double>(problem.k);
  const double weight_bytes = weights * (0.5 + 4.0 / 64);
  const auto activation_bytes = static_cast<double>(blocks * slice_k_tiles * tile_k * 2 * m);
  return std::max({static_cast<double>(waves * slice_k_tiles * tiling.n_tiles * tile_cycles +
                                       stages * stage_overhead),
                   static_cast<double>(stages * stage_latency), weight_bytes / memory_bytes,
                   (weight_bytes + activation_bytes) / cache_bytes}) +
         (tiling.split_k > 1 ? reduction + reduction_per_slice * tiling.split_k : 0);
}

/// The same for small stages, fitted to an H200 with 99 KiB of shared memory: the time in which a
/// block loads its stages, plus the time of the split-K reduction.
inline double estimated_cycles_of_small_stages(const FewRowsTiling& tiling, const Problem& problem,
                                               int multiprocessors) {
  constexpr int loaded_bytes = 18;  // per cycle
  // The relative time for one, two and four K tiles in a stage: DRAM takes longer for 128 bytes of
  // a row at a time than for more, and activations of four K tiles leave room for fewer stages.
  constexpr double of_shift[] = {1.08, 1, 1.02};
  constexpr int reduction = 2500, reduction_per_slice = 3000;
  constexpr int m = 12, scales = 4;
  const Boxes boxes(tiling, true);
  const std::int64_t waves =
      blocks_over(std::int64_t{tiling.n_blocks} * tiling.split_k, multiprocessors);
  const std::int64_t slice_stages = blocks_over(stages_over(problem.k, tiling), tiling.split_k);
  const int loaded_n = boxes.count * boxes.n_tiles * tile_n;
  const int k_tile_loads = loaded_n * (tile_k_bytes + scales * 4) + tile_k * 2 * m;
  return static_cast<double>(waves * (slice_stages << tiling.stage_shift) * k_tile_loads) /
             loaded_bytes * of_shift[tiling.stage_shift] +
         (tiling.split_k > 1 ? reduction + reduction_per_slice * tiling.split_k : 0);
}

/// Blocks of up to `block_tiles` N tiles in whole waves.
inline FewRowsTiling split_n(const Problem& problem, int multiprocessors, int split_k,
                             int block_tiles) {
  const std::int64_t n_tiles = blocks_over(problem.n, tile_n);
  const std::int64_t wave = std::max(1, multiprocessors / split_k);
  const std::int64_t n_blocks =
      std::min(n_tiles, wave * blocks_over(blocks_over(n_tiles, block_tiles), wave));
  return {.split_k = split_k,
          .n_blocks = static_cast<int>(n_blocks),
          .n_tiles = static_cast<int>(blocks_over(n_tiles, n_blocks))};
}

/// The tiling with the least estimated time; `split_k` is 0 where none fits.
inline FewRowsTiling few_rows_tiling(const Problem& problem, const Device& device,
                                     const StageMemory& memory) {
  const std::int64_t k_tiles = blocks_over(problem.k, tile_k);
  const int multiprocessors = std::max(1, device.multiprocessors);
  const int block_tiles = max_block_tiles(problem, memory);
  if (block_tiles == 0) return {};
  FewRowsTiling best;
  double least = 0;
  for (int split_k = 1; split_k <= std::min<std::int64_t>(k_tiles, 16); ++split_k) {
    FewRowsTiling tiling = split_n(problem, multiprocessors, split_k, block_tiles);
    for (tiling.stage_shift = 2; tiling.stage_shift >= 0; --tiling.stage_shift) {
      // One copy loads several K tiles per stage, if K is a multiple of the tile.
      const int stage_k_tiles = tiling.stage_k_tiles();
      if (stage_k_tiles > 1 && (problem.k % tile_k != 0 || stage_k_tiles * split_k > k_tiles ||
                                stage_k_tiles * tiling.n_tiles > teams * max_team_tiles ||
                                !has_room(tiling, problem, memory))) {
        continue;
      }
      const double cycles = memory.has_small_stages
                                ? estimated_cycles_of_small_stages(tiling, problem, multiprocessors)
                                : estimated_cycles(tiling, problem, multiprocessors);
      if (best.split_k == 0 || cycles < least) {
        best = tiling;
        least = cycles;
      }
      if (!memory.has_small_stages) break;  // as many K tiles as fit
    }
  }
  // An M tile of 8 leaves room for more N tiles, which do not change the order of a sum.
  if (problem.m <= 8 && best.stage_shift == 0) {
    return split_n(problem, multiprocessors, best.split_k, max_block_tiles(problem, memory, 8));
  }
  return best;
}

/// At the start of the workspace, a multiple of 16.
inline std::int64_t arrivals_bytes(const FewRowsTiling& tiling) {
  return blocks_over(tiling.n_blocks, 2) * 16;
}

}  // namespace reprolab::nf4_product
