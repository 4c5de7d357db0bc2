// How few_rows cuts products: everything is covered, and has room, on GPUs of any size. No GPU.
#include <gtest/gtest.h>

#include "kernels/nf4_product/few_rows_cut.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr Device devices[] = {{80, 108, 163 * 1024}, {90, 132, 227 * 1024}, {100, 148, 227 * 1024}};

Problem product(std::int64_t n, std::int64_t k, int block_size = 64, std::int64_t m = 1) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k, problem.block_size = block_size;
  return problem;
}

TEST(FewRowsCut, CoversEveryOutputAndInputAndHasRoom) {
  for (const Device& device : devices) {
    for (const std::int64_t n : {1, 16, 17, 1000, 1024, 5120, 8192, 28672, 57344, 1 << 20}) {
      for (const std::int64_t k : {64, 192, 256, 1024, 2304, 4160, 5120, 8192, 28672, 1 << 20}) {
        for (const int block_size : {32, 64, 4096}) {
          const Problem problem = product(n, k, block_size);
          const Cut cut = few_rows_cut(problem, device);
          SCOPED_TRACE(testing::Message() << n << "x" << k << " on " << device.multiprocessors);
          ASSERT_GT(cut.parts, 0);
          EXPECT_GE(std::int64_t{cut.groups} * cut.tiles * tile, n);
          EXPECT_LE(cut.groups, blocks_over(n, tile));  // none without outputs
          EXPECT_LE(cut.parts, stages_over(k, cut));    // each has inputs
          EXPECT_LE(cut.tiles << cut.stage_shift, teams * max_team_tiles);
          if (k % unit_inputs != 0) {
            EXPECT_EQ(cut.stage_units(), 1);
          }
          if (cut.stage_units() > 1) {
            EXPECT_EQ(Boxes(cut).count, 1);
          }
          for (const int rows : {8, max_rows}) {
            const FewRowsLayout layout(cut, rows, unit_scales(block_size), device.shared_bytes);
            EXPECT_GE(layout.stages, 3);
            EXPECT_LE(layout.end, device.shared_bytes);
            EXPECT_GE(layout.outputs, cut.tiles * tile);
          }
        }
      }
    }
  }
}

/// Else a row of a batch would not be what it is alone.
TEST(FewRowsCut, DoesNotDependOnTheNumberOfRows) {
  for (const std::int64_t k : {4160, 5120, 8192, 28672}) {
    const Cut one = few_rows_cut(product(8192, k), devices[1]);
    const Cut all = few_rows_cut(product(8192, k, 64, max_rows), devices[1]);
    EXPECT_EQ(one.parts, all.parts);
    EXPECT_EQ(one.groups, all.groups);
    EXPECT_EQ(one.stage_shift, all.stage_shift);
  }
}

TEST(FewRowsCut, IsNoneWithoutRoom) {
  EXPECT_EQ(few_rows_cut(product(8192, 8192), {86, 84, 99 * 1024}).parts, 0);
  EXPECT_EQ(few_rows_cut(product(8192, 8192), {}).parts, 0);
}

}  // namespace
}  // namespace reprolab::nf4_product
