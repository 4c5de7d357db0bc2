#include "reference/float16.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>

namespace reprolab::reference {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// For every pair of neighbouring finite values: their midpoint is rounded to the even one, and one
/// fp32 ULP to either side of it is rounded to the nearer one.
void check_every_midpoint(WeightType type, std::uint16_t infinity_bits, double past_the_greatest) {
  for (std::uint16_t low = 0; low < infinity_bits; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const double high_value = high == infinity_bits ? past_the_greatest : widen(type, high);
    const double exact = (static_cast<double>(widen(type, low)) + high_value) / 2;
    const auto midpoint = static_cast<float>(exact);
    ASSERT_EQ(exact, static_cast<double>(midpoint));
    ASSERT_EQ(round_to(type, midpoint), low % 2 == 0 ? low : high) << midpoint;
    ASSERT_EQ(round_to(type, std::nextafter(midpoint, 0.0f)), low) << midpoint;
    ASSERT_EQ(round_to(type, std::nextafter(midpoint, infinity)), high) << midpoint;
    ASSERT_EQ(round_to(type, -midpoint), 0x8000 | (low % 2 == 0 ? low : high)) << midpoint;
  }
}

TEST(Float16, RoundsEveryMidpointToEven) {
  check_every_midpoint(WeightType::fp16, 0x7c00, 65536.0);
  check_every_midpoint(WeightType::bf16, 0x7f80, std::ldexp(1.0, 128));
}

/// Compared with another implementation of fp16; every pattern of either type survives a round
/// trip.
TEST(Float16, WidensEveryPatternExactly) {
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const auto expected = static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
    if (!std::isnan(expected)) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(widen_fp16(bits)),
                std::bit_cast<std::uint32_t>(expected));
    }
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      const float value = widen(type, bits);
      ASSERT_EQ(round_to(type, value), std::isnan(value) ? 0x7fff : bits) << name(type);
    }
  }
}

TEST(Float16, FlushingKeepsTheSignAndTheNormals) {
  constexpr float min_normal = std::numeric_limits<float>::min();
  EXPECT_EQ(flush_subnormal(min_normal), min_normal);
  const float flushed = flush_subnormal(std::nextafter(-min_normal, 0.0f));
  EXPECT_EQ(flushed, 0.0f);
  EXPECT_TRUE(std::signbit(flushed));
}

}  // namespace
}  // namespace reprolab::reference
