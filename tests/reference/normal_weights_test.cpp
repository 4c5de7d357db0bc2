#include "reference/nf4/normal_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprolab::reference {
namespace {

std::vector<std::uint16_t> weights(std::uint64_t seed, std::uint64_t first, std::size_t count,
                                   int threads = 1, WeightType type = WeightType::fp16) {
  std::vector<std::uint16_t> values(count);
  normal_weights(seed, first, type, 0.02f, values, threads);
  return values;
}

/// The bits themselves: recorded runs have a seed, so its data must never change.
TEST(NormalWeights, AreTheseBitsForEverWhateverPartIsMade) {
  EXPECT_EQ(weights(1, 0, 4), (std::vector<std::uint16_t>{0x23d5, 0x90cf, 0xa71a, 0xa592}));
  EXPECT_EQ(weights(1, 1ull << 40, 2, 1, WeightType::bf16),
            (std::vector<std::uint16_t>{0x3d1b, 0xb913}));
  const auto whole = weights(5, 0, 200'000);
  EXPECT_EQ(whole, weights(5, 0, 200'000, 3));
  const auto part = weights(5, 70'001, 1000, 2);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 70'001));
}

TEST(NormalWeights, MomentsAndTailsAreThoseOfANormalDistribution) {
  const auto values = weights(7, 0, 1 << 20);
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0, fourths = 0, past_3 = 0;
  for (const std::uint16_t bits : values) {
    const double z = widen_fp16(bits) / 0.02;
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    past_3 += std::abs(z) > 3;
  }
  EXPECT_NEAR(sum / n, 0.0, 0.004);
  EXPECT_NEAR(squares / n, 1.0, 0.006);
  EXPECT_NEAR(fourths / n, 3.0, 0.05);
  EXPECT_NEAR(past_3 / n, 0.0027, 0.0003);
}

}  // namespace
}  // namespace reprolab::reference
