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

/// The tilings of recorded rows, on 132 multiprocessors with 227 KiB.
TEST(FewRowsTiling, EqualsTheTilingOfRecordedRows) {
  struct Recorded {
    std::int64_t n, k;
    int split_k, n_blocks, n_tiles, stage_shift;
    int stages_of_8, end_of_8, stages_of_16, end_of_16;  ///< With an M tile of 8, and of 16.
  };
  constexpr Recorded recorded[] = {
      {17, 64, 1, 2, 1, 0, 8, 120064, 8, 152832},
      {1000, 4160, 1, 63, 1, 0, 8, 120064, 8, 152832},
      {1024, 4096, 1, 64, 1, 2, 6, 222464, 3, 194816},
      {1024, 5120, 1, 64, 1, 2, 6, 222464, 3, 194816},
      {1024, 8192, 1, 64, 1, 2, 6, 222464, 3, 194816},
      {2048, 4608, 1, 128, 1, 2, 6, 222464, 3, 194816},
      {2048, 5376, 1, 128, 1, 2, 6, 222464, 3, 194816},
      {4096, 4096, 1, 132, 2, 2, 4, 208128, 3, 222464},
      {4096, 4608, 1, 132, 2, 2, 4, 208128, 3, 222464},
      {4096, 5376, 1, 132, 2, 2, 4, 208128, 3, 222464},
      {4096, 12288, 1, 132, 2, 2, 4, 208128, 3, 222464},
      {4096, 14336, 1, 132, 2, 2, 4, 208128, 3, 222464},
      {4608, 4096, 1, 132, 3, 1, 7, 222976, 5, 219904},
      {4608, 36864, 3, 44, 7, 1, 4, 230656, 3, 214784},
      {5120, 8192, 1, 132, 3, 1, 7, 222976, 5, 219904},
      {5120, 25600, 2, 66, 5, 1, 5, 225024, 4, 226560},
      {5376, 4096, 1, 132, 3, 1, 7, 222976, 5, 219904},
      {5376, 21504, 1, 132, 3, 1, 7, 222976, 5, 219904},
      {8192, 5120, 1, 132, 4, 1, 6, 228608, 4, 208128},
      {8192, 8192, 1, 132, 4, 1, 6, 228608, 4, 208128},
      {8192, 28672, 1, 132, 4, 1, 6, 228608, 4, 208128},
      {12288, 4096, 1, 132, 6, 1, 4, 212224, 3, 200960},
      {14336, 4096, 1, 132, 7, 1, 4, 230656, 3, 214784},
      {21504, 5376, 1, 132, 11, 0, 5, 216064, 4, 203008},
      {25600, 5120, 1, 132, 13, 0, 4, 205056, 4, 221440},
      {28672, 8192, 1, 132, 14, 0, 4, 214272, 4, 230656},
      {36864, 4608, 1, 132, 18, 0, 3, 205568, 3, 217856},
      {1048576, 256, 1, 3300, 20, 0, 3, 219392, 3, 231680},
  };
  const StageMemory memory = stage_memory<Full>(devices[1]);
  for (const Recorded& row : recorded) {
    SCOPED_TRACE(testing::Message() << row.n << "x" << row.k);
    for (const std::int64_t m : {1, max_m}) {
      const FewRowsTiling tiling = tiling_of<Full>(product(row.n, row.k, 64, m), devices[1]);
      EXPECT_EQ(tiling.split_k, row.split_k);
      EXPECT_EQ(tiling.n_blocks, row.n_blocks);
      EXPECT_EQ(tiling.n_tiles, row.n_tiles);
      EXPECT_EQ(tiling.stage_shift, row.stage_shift);
      const FewRowsLayout of_8(tiling, 8, tile_scales(64), memory);
      EXPECT_EQ(of_8.stages, row.stages_of_8);
      EXPECT_EQ(of_8.end, row.end_of_8);
      const FewRowsLayout of_16(tiling, 16, tile_scales(64), memory);
      EXPECT_EQ(of_16.stages, row.stages_of_16);
      EXPECT_EQ(of_16.end, row.end_of_16);
    }
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

TEST(FewRowsTiling, IsEmptyIfSharedMemoryIsTooSmall) {
  EXPECT_EQ(tiling_of<Full>(product(8192, 8192), {86, 84, 99 * 1024}).split_k, 0);
  EXPECT_EQ(tiling_of<Small>(product(8192, 8192), {75, 68, 64 * 1024}).split_k, 0);
  EXPECT_EQ(tiling_of<Small>(product(8448, 8192), {86, 132, 82 * 1024}).split_k, 0);
  EXPECT_EQ(tiling_of<Small>(product(8192, 8192), {}).split_k, 0);
}

}  // namespace
}  // namespace reprolab::nf4_product
