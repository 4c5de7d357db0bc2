#include "reference/compare.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

namespace reprolab::reference {
namespace {

constexpr std::int64_t seam = 1 << 18;  // a boundary between chunks of the comparison
constexpr std::int64_t n = 3 * seam + 17;

class PlantedFault : public testing::TestWithParam<std::tuple<std::int64_t, int>> {};

TEST_P(PlantedFault, OneDifferentElementIsFoundAtItsIndex) {
  const auto [index, threads] = GetParam();
  std::vector<std::uint16_t> expected(n, 0x3c01);
  std::vector<std::uint16_t> actual = expected;
  for (const std::uint16_t planted : {0x3c00, 0xbc01, 0x7fff, 0xcdcd}) {
    actual[index] = planted;
    const Comparison found = compare_bits(expected, actual, threads);
    EXPECT_EQ(found.mismatches, 1);
    EXPECT_EQ(found.first_mismatch, index);
  }
  expected[index] = 0x0000;
  actual[index] = 0x8000;
  EXPECT_EQ(compare_bits(expected, actual, threads).first_mismatch, index) << "-0.0 is not 0.0";
  std::vector<std::uint32_t> wide_expected(n, 7);
  std::vector<std::uint32_t> wide_actual(n, 7);
  wide_actual[index] ^= 0x80000000u;
  EXPECT_EQ(compare_bits(wide_expected, wide_actual, threads).first_mismatch, index);
}

INSTANTIATE_TEST_SUITE_P(EndsAndSeams, PlantedFault,
                         testing::Combine(testing::Values(0, 1, seam - 1, seam, seam + 1,
                                                          2 * seam - 1, 2 * seam, n - 2, n - 1),
                                          testing::Values(1, 2, 3, 8)));

TEST(Compare, CountsAllAndNamesTheFirst) {
  std::vector<std::uint16_t> expected(n, 1);
  auto actual = expected;
  for (const auto index : {n - 1, seam, seam + 5, std::int64_t{99}}) actual[index] = 2;
  for (const int threads : {1, 2, 5}) {
    const Comparison found = compare_bits(expected, actual, threads);
    EXPECT_EQ(found.mismatches, 4);
    EXPECT_EQ(found.first_mismatch, 99);
  }
}

TEST(Compare, NanEqualsTheSameNanAndNoOther) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compare_bits(std::vector<float>{nan, 1}, std::vector<float>{nan, 1}).equal());
  EXPECT_FALSE(compare_bits(std::vector<float>{nan}, std::vector<float>{-nan}).equal());
  EXPECT_FALSE(compare_bits(std::vector<float>{0.0f}, std::vector<float>{-0.0f}).equal());
}

TEST(Compare, EmptyArraysAreEqual) {
  const Comparison found =
      compare_bits(std::span<const std::uint16_t>(), std::span<const std::uint16_t>());
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.first_mismatch, -1);
}

TEST(Compare, DifferentLengthsAreRefused) {
  const std::vector<std::uint16_t> three(3);
  const std::vector<std::uint16_t> four(4);
  try {
    compare_bits(three, four);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "cannot compare 3 elements with 4; pass both in full");
  }
}

TEST(Compare, ProvesItself) {
  for (const int threads : {1, 2, 4}) EXPECT_NO_THROW(prove_comparison(threads));
}

}  // namespace
}  // namespace reprolab::reference
