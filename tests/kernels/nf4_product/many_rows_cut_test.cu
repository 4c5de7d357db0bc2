// How many_rows cuts products: everything is covered once, on GPUs of any size. No GPU.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/nf4_product/many_rows_cut.hpp"

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

TEST(ManyRowsCut, HasWorkForEachBlock) {
  for (const int multiprocessors : {1, 20, 108, 114, 132, 148}) {
    for (const std::int64_t n : {1, 64, 65, 1024, 5120, 8192, 28672, 57344}) {
      for (const std::int64_t k : {64, 256, 320, 5120, 8192, 36864, 1 << 26}) {
        SCOPED_TRACE(testing::Message() << n << "x" << k << " on " << multiprocessors);
        const auto cut = many_rows_cut(product(n, k), with_multiprocessors(multiprocessors));
        EXPECT_GE(cut.groups, 1);
        EXPECT_LE(cut.groups, blocks_over(n, warp_outputs));
        const OutputShares shares(static_cast<int>(n), cut.groups, false);
        EXPECT_LT(shares.of(0).all * k, std::int64_t{1} << 31);
        EXPECT_GE(cut.parts, 1);
        EXPECT_LE(cut.parts, blocks_over(k, unit_inputs));
        if (n * k < std::int64_t{1} << 30) {
          EXPECT_LE(cut.groups, blocks_over(n, warpgroup_outputs));
          EXPECT_LE(cut.groups * cut.parts, std::max(multiprocessors, cut.parts));
        }
      }
    }
  }
}

/// Else a row of a batch would not be what it is alone.
TEST(ManyRowsCut, DoesNotDependOnTheNumberOfRows) {
  const Device device = with_multiprocessors(132);
  for (const std::int64_t k : {4160, 5120, 8192, 28672}) {
    EXPECT_EQ(many_rows_cut(product(8192, k, 17), device).parts,
              many_rows_cut(product(8192, k, 512), device).parts);
  }
}

TEST(OutputShares, HaveEveryOutputOnceForEachQuarterOfTheRows) {
  for (const bool may_share_rows : {false, true}) {
    for (const int groups : {1, 2, 32, 33, 132}) {
      for (const int n : {1, 64, 1000, 5120, 8192, 8200, 8449, 25600, 28672, 28700, 36864}) {
        if (blocks_over(n, warp_outputs) < groups) continue;
        SCOPED_TRACE(testing::Message() << n << " in " << groups << ", " << may_share_rows);
        const OutputShares shares(n, groups, may_share_rows);
        std::vector<int> seen(4 * n);
        for (int group = 0; group < groups; ++group) {
          const GroupOutputs outputs = shares.of(group);
          ASSERT_LE(outputs.own, outputs.all);
          for (int o = 0; o < outputs.all; ++o) {
            const int output = outputs.first + outputs.place(o);
            ASSERT_LT(output, n);
            for (int quarter = 0; quarter < 4; ++quarter) {
              const bool has =
                  o < outputs.own || group % shares.sharers == quarter * shares.sharers / 4;
              if (has) ++seen[output * 4 + quarter];
            }
          }
        }
        EXPECT_EQ(seen, std::vector<int>(4 * n, 1));
      }
    }
  }
}

/// Each of 132 groups would else have the time of one whole tile more.
TEST(OutputShares, ShareTheRowsOfTilesThatAreLeftOver) {
  const OutputShares halves(28672, 132, true), quarters(25600, 132, true);
  EXPECT_EQ(halves.sharers, 2);
  EXPECT_EQ(halves.of(0).all, 4 * warpgroup_outputs);
  EXPECT_EQ(halves.of(103).all, 4 * warpgroup_outputs);
  EXPECT_EQ(halves.of(104).all, 3 * warpgroup_outputs);
  EXPECT_EQ(quarters.sharers, 4);
  EXPECT_EQ(quarters.of(15).all, 4 * warpgroup_outputs);
  EXPECT_EQ(quarters.of(16).all, 3 * warpgroup_outputs);
  EXPECT_EQ(OutputShares(21504, 132, true).sharers, 1);  // 72 left over
  EXPECT_EQ(OutputShares(28672, 132, false).sharers, 1);
}

}  // namespace
}  // namespace reprolab::nf4_product
