// The tiling of few_rows covers every problem and fits in shared memory. Needs no GPU.
#include <gtest/gtest.h>

#include <utility>

#include "kernels/nf4_product/few_rows/tiling.hpp"

namespace reprolab::nf4_product {
namespace {

using Full = ScaledSums<__half>;
using Small = SmallTable<Full>;

constexpr Device devices[] = {{80, 108, 163 * 1024}, {90, 132, 227 * 1024}, {100, 148, 227 * 1024}};
constexpr Device small_devices[] = {
    {86, 28, 99 * 1024},  {86, 82, 99 * 1024},   {89, 34, 99 * 1024},   {89, 128, 99 * 1024},
    {120, 36, 99 * 1024}, {120, 170, 99 * 1024}, {90, 132, 227 * 1024}, {80, 108, 163 * 1024}};

Problem product(std::int64_t n, std::int64_t k, int block_size = 64, std::int64_t m = 1) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k, problem.block_size = block_size;
  return problem;
}

template <class Decode>
FewRowsTiling tiling_of(const Problem& problem, const Device& device) {
  return few_rows_tiling(problem, device, stage_memory<Decode>(device));
}

/// The N and K of models' layers, and odd ones.
constexpr std::int64_t all_n[] = {1,    16,    17,    1000,  1024,  2048,  4096,  5120,  5376,
                                  8192, 12288, 14336, 21504, 25600, 28672, 36864, 57344, 1 << 20};
constexpr std::int64_t all_k[] = {64,   192,  256,   1024,  2304,  4096,  4160,   5120,
                                  5376, 8192, 12288, 14336, 25600, 28672, 1 << 20};

template <class Decode>
void check(const Problem& problem, const Device& device) {
  const StageMemory memory = stage_memory<Decode>(device);
  const FewRowsTiling tiling = few_rows_tiling(problem, device, memory);
  ASSERT_GT(tiling.split_k, 0);
  EXPECT_GE(std::int64_t{tiling.n_blocks} * tiling.n_tiles * tile_n, problem.n);
  EXPECT_LE(tiling.n_blocks, blocks_over(problem.n, tile_n));  // no block is empty
  EXPECT_LE(tiling.split_k, stages_over(problem.k, tiling));   // no slice is empty
  EXPECT_LE(tiling.n_tiles << tiling.stage_shift, teams * max_team_tiles);
  if (problem.k % tile_k != 0) {
    EXPECT_EQ(tiling.stage_k_tiles(), 1);
  }
  const Boxes boxes(tiling, memory.has_small_stages);
  EXPECT_GE(boxes.count * boxes.n_tiles, tiling.n_tiles);
  // No box is empty in the blocks with the most N tiles.
  EXPECT_LT((boxes.count - 1) * boxes.n_tiles, tiling.n_tiles);
  if (memory.has_small_stages) {
    EXPECT_LE(boxes.count, max_team_tiles);
    EXPECT_LE(boxes.n_tiles << tiling.stage_shift, teams);
  } else if (tiling.stage_k_tiles() > 1) {
    EXPECT_EQ(boxes.count, 1);
  }
  const int tile_m = problem.m <= 8 ? 8 : max_m;
  const FewRowsLayout layout(tiling, tile_m, tile_scales(problem.block_size), memory);
  EXPECT_GE(layout.stages, 3);
  EXPECT_GE(layout.codes, stages_begin_of<Decode>);
  EXPECT_LE(layout.end, memory.end);
  EXPECT_LE(layout.end, device.shared_bytes);
  EXPECT_EQ(layout.stage_n, boxes.n_tiles * tile_n * (memory.has_small_stages ? 1 : boxes.count));
  // No part of shared memory begins before the previous one ends.
  const int sharing = memory.has_small_stages ? boxes.count : 1;
  EXPECT_GE(layout.activations, layout.codes + layout.stages * layout.codes_bytes);
  EXPECT_GE(layout.scales,
            layout.activations + layout.activation_ring(sharing) * layout.activations_bytes);
  EXPECT_GE(layout.end, layout.scales + layout.stages * layout.scales_bytes);
  // A stage is loaded after the one `stages` before it was read, and activations are read with the
  // first stage that shares them.
  EXPECT_GE(layout.activation_ring(sharing) * sharing, layout.stages);
}

template <class Decode>
void check_all(const Device& device) {
  for (const std::int64_t n : all_n) {
    for (const std::int64_t k : all_k) {
      for (const int block_size : {32, 64, 4096}) {
        for (const std::int64_t m : {1, 8, 9, max_m}) {
          SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << "/b" << block_size
                                          << " on " << device.multiprocessors);
          check<Decode>(product(n, k, block_size, m), device);
        }
      }
    }
  }
}

TEST(FewRowsTiling, CoversNAndKAndFitsInSharedMemory) {
  for (const Device& device : devices) check_all<Full>(device);
}

TEST(FewRowsTiling, FitsIn99KiBWithASmallTable) {
  for (const Device& device : small_devices) {
    EXPECT_LE(stage_memory<Small>(device).end, 99 * 1024);
    check_all<Small>(device);
  }
}

/// A row has the same bits alone and in a batch.
TEST(FewRowsTiling, OrderOfASumDoesNotDependOnM) {
  const auto order = [](const FewRowsTiling& tiling) {
    return std::pair(tiling.split_k, tiling.stage_shift);
  };
  for (const Device& device : small_devices) {
    for (const std::int64_t n : all_n) {
      for (const std::int64_t k : all_k) {
        const Problem one = product(n, k), all = product(n, k, 64, max_m);
        EXPECT_EQ(order(tiling_of<Small>(one, device)), order(tiling_of<Small>(all, device)));
        if (device.shared_bytes < 163 * 1024) continue;
        EXPECT_EQ(order(tiling_of<Full>(one, device)), order(tiling_of<Full>(all, device)));
      }
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4_product
