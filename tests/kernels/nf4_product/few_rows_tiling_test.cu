// The tiling of few_rows covers every problem and fits in shared memory. Needs no GPU.
#include <gtest/gtest.h>

#include "kernels/nf4_product/few_rows/tiling.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr Device devices[] = {{80, 108, 163 * 1024}, {90, 132, 227 * 1024}, {100, 148, 227 * 1024}};

Problem product(std::int64_t n, std::int64_t k, int block_size = 64, std::int64_t m = 1) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k, problem.block_size = block_size;
  return problem;
}

TEST(FewRowsTiling, CoversNAndKAndFitsInSharedMemory) {
  for (const Device& device : devices) {
    for (const std::int64_t n : {1, 16, 17, 1000, 1024, 5120, 8192, 28672, 57344, 1 << 20}) {
      for (const std::int64_t k : {64, 192, 256, 1024, 2304, 4160, 5120, 8192, 28672, 1 << 20}) {
        for (const int block_size : {32, 64, 4096}) {
          const Problem problem = product(n, k, block_size);
          const FewRowsTiling tiling = few_rows_tiling(problem, device);
          SCOPED_TRACE(testing::Message() << n << "x" << k << " on " << device.multiprocessors);
          ASSERT_GT(tiling.split_k, 0);
          EXPECT_GE(std::int64_t{tiling.n_blocks} * tiling.n_tiles * tile_n, n);
          EXPECT_LE(tiling.n_blocks, blocks_over(n, tile_n));  // no block is empty
          EXPECT_LE(tiling.split_k, stages_over(k, tiling));   // no slice is empty
          EXPECT_LE(tiling.n_tiles << tiling.stage_shift, teams * max_team_tiles);
          if (k % tile_k != 0) {
            EXPECT_EQ(tiling.stage_k_tiles(), 1);
          }
          if (tiling.stage_k_tiles() > 1) {
            EXPECT_EQ(Boxes(tiling).count, 1);
          }
          for (const int tile_m : {8, max_m}) {
            const FewRowsLayout layout(tiling, tile_m, tile_scales(block_size),
                                       device.shared_bytes);
            EXPECT_GE(layout.stages, 3);
            EXPECT_LE(layout.end, device.shared_bytes);
            EXPECT_GE(layout.block_n, tiling.n_tiles * tile_n);
          }
        }
      }
    }
  }
}

/// A row has the same bits alone and in a batch.
TEST(FewRowsTiling, DoesNotDependOnM) {
  for (const std::int64_t k : {4160, 5120, 8192, 28672}) {
    const FewRowsTiling one = few_rows_tiling(product(8192, k), devices[1]);
    const FewRowsTiling all = few_rows_tiling(product(8192, k, 64, max_m), devices[1]);
    EXPECT_EQ(one.split_k, all.split_k);
    EXPECT_EQ(one.n_blocks, all.n_blocks);
    EXPECT_EQ(one.stage_shift, all.stage_shift);
  }
}

TEST(FewRowsTiling, IsEmptyWithoutRoom) {
  EXPECT_EQ(few_rows_tiling(product(8192, 8192), {86, 84, 99 * 1024}).split_k, 0);
  EXPECT_EQ(few_rows_tiling(product(8192, 8192), {}).split_k, 0);
}

}  // namespace
}  // namespace reprolab::nf4_product
