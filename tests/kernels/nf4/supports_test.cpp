// Problems that each kernel refuses, and the reasons.
#include <cmath>

#include "kernels/nf4/support.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

Problem valid_problem(int block_size, std::int64_t n = 1 << 20) {
  Problem problem;
  problem.table = reference::standard_table;
  problem.n = n;
  problem.block_size = block_size;
  return problem;
}

TEST(Supports, EveryKernelSupportsBlocksOf64) {
  for (const auto& kernel : registered_kernels()) {
    if (kernel.origin.kind != Origin::Kind::project) continue;
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1} << 20, std::int64_t{1} << 33}) {
      const Support support = kernel_named<Problem>(kernel.name).supports(valid_problem(64, n));
      EXPECT_TRUE(support.ok) << kernel.name << ", " << n << ": " << support.reason;
    }
  }
}

TEST(Supports, MoreWeightsThanAGridCoversAreRefused) {
  for (const auto& kernel : registered_kernels()) {
    for (const std::int64_t n : {max_weights + 1, INT64_MAX}) {
      const Support support = kernel_named<Problem>(kernel.name).supports(valid_problem(64, n));
      EXPECT_TRUE(contains(support.reason, "2^39 - 256 weights")) << kernel.name << ", " << n;
    }
  }
}

/// -0.0 == 0.0, but dequantizes to other bits.
TEST(Supports, AnyOtherTableIsRefused) {
  for (std::size_t entry = 0; entry < 16; ++entry) {
    Problem problem = valid_problem(64);
    float& changed = problem.table[entry];
    changed = changed == 0 ? -0.0f : std::nextafter(changed, 2.0f);
    for (const auto& kernel : registered_kernels()) {
      EXPECT_TRUE(contains(kernel_named<Problem>(kernel.name).supports(problem).reason, "table"))
          << kernel.name << ", entry " << entry;
    }
  }
}

TEST(Supports, Algorithm1RefusesBlocksLongerThanItsTile) {
  for (const int block_size : block_sizes) {
    const auto& kernel = kernel_named<Problem>("shared_lut_algorithm1");
    const Support support = kernel.supports(valid_problem(block_size));
    EXPECT_EQ(support.ok, block_size <= 512);
    EXPECT_TRUE(support.ok || contains(support.reason, "past the end"));
  }
}

}  // namespace
}  // namespace reprolab::nf4
