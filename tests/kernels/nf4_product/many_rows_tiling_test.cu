// The tiling of many_rows covers every problem once, on GPUs of any size. Needs no GPU.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/nf4_product/many_rows/tiling.hpp"

namespace reprolab::nf4_product {
namespace {

Problem product(std::int64_t n, std::int64_t k, std::int64_t m = 32) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  return problem;
}

Device with_multiprocessors(int count) {
  Device device;
  device.multiprocessors = count;
  return device;
}

TEST(ManyRowsTiling, HasTilesForEachBlock) {
  for (const int multiprocessors : {1, 20, 108, 114, 132, 148}) {
    for (const std::int64_t n : {1, 64, 65, 1024, 5120, 8192, 28672, 57344}) {
      for (const std::int64_t k : {64, 256, 320, 5120, 8192, 36864, 1 << 26}) {
        SCOPED_TRACE(testing::Message() << n << "x" << k << " on " << multiprocessors);
        const auto tiling = many_rows_tiling(product(n, k), with_multiprocessors(multiprocessors));
        EXPECT_GE(tiling.n_blocks, 1);
        EXPECT_LE(tiling.n_blocks, blocks_over(n, warp_n));
        const NSplit split(static_cast<int>(n), tiling.n_blocks, false);
        EXPECT_LT(split.of(0).all * k, std::int64_t{1} << 31);
        EXPECT_GE(tiling.split_k, 1);
        EXPECT_LE(tiling.split_k, blocks_over(k, tile_k));
        if (n * k < std::int64_t{1} << 30) {
          EXPECT_LE(tiling.n_blocks, blocks_over(n, warpgroup_n));
          EXPECT_LE(tiling.n_blocks * tiling.split_k, std::max(multiprocessors, tiling.split_k));
        }
      }
    }
  }
}

/// A row has the same bits alone and in a batch.
TEST(ManyRowsTiling, DoesNotDependOnM) {
  const Device device = with_multiprocessors(132);
  for (const std::int64_t k : {4160, 5120, 8192, 28672}) {
    EXPECT_EQ(many_rows_tiling(product(8192, k, 17), device).split_k,
              many_rows_tiling(product(8192, k, 512), device).split_k);
  }
}

TEST(NSplit, CoversEveryColumnOnceForEachQuarterOfM) {
  for (const bool may_share_m : {false, true}) {
    for (const int n_blocks : {1, 2, 32, 33, 132}) {
      for (const int n : {1, 64, 1000, 5120, 8192, 8200, 8449, 25600, 28672, 28700, 36864}) {
        if (blocks_over(n, warp_n) < n_blocks) continue;
        SCOPED_TRACE(testing::Message() << n << " in " << n_blocks << ", " << may_share_m);
        const NSplit split(n, n_blocks, may_share_m);
        std::vector<int> seen(4 * n);
        for (int n_block = 0; n_block < n_blocks; ++n_block) {
          const NRange range = split.of(n_block);
          ASSERT_LE(range.own, range.all);
          for (int i = 0; i < range.all; ++i) {
            const int column = range.first + range.place(i);
            ASSERT_LT(column, n);
            for (int quarter = 0; quarter < 4; ++quarter) {
              const bool has =
                  i < range.own || n_block % split.sharers == quarter * split.sharers / 4;
              if (has) ++seen[column * 4 + quarter];
            }
          }
        }
        EXPECT_EQ(seen, std::vector<int>(4 * n, 1));
      }
    }
  }
}

/// Without sharing, all 132 blocks would need the time of one more whole tile.
TEST(NSplit, SharesTheRowsOfTilesThatAreLeftOver) {
  const NSplit halves(28672, 132, true), quarters(25600, 132, true);
  EXPECT_EQ(halves.sharers, 2);
  EXPECT_EQ(halves.of(0).all, 4 * warpgroup_n);
  EXPECT_EQ(halves.of(103).all, 4 * warpgroup_n);
  EXPECT_EQ(halves.of(104).all, 3 * warpgroup_n);
  EXPECT_EQ(quarters.sharers, 4);
  EXPECT_EQ(quarters.of(15).all, 4 * warpgroup_n);
  EXPECT_EQ(quarters.of(16).all, 3 * warpgroup_n);
  EXPECT_EQ(NSplit(21504, 132, true).sharers, 1);  // 72 left over
  EXPECT_EQ(NSplit(28672, 132, false).sharers, 1);
}

}  // namespace
}  // namespace reprolab::nf4_product
