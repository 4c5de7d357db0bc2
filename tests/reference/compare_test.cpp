#include "reference/compare.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "reference/ulps.hpp"
#include "tests/message_of.hpp"

namespace reprolab::reference {
namespace {

constexpr std::uint16_t fp16_infinity = 0x7c00, bf16_infinity = 0x7f80;
constexpr std::uint32_t fp32_infinity = 0x7f800000;
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

TEST(Compare, CountsAllNamesTheFirstAndTellsTheLargestDistance) {
  std::vector<std::uint16_t> expected(n, 0x3c00);
  for (const auto farthest : {std::int64_t{99}, seam, n - 1}) {
    auto actual = expected;
    for (const auto index : {n - 1, seam, seam + 5, std::int64_t{99}}) actual[index] = 0x3c01;
    actual[farthest] = 0x3bfc;
    for (const int threads : {1, 2, 5}) {
      const Comparison found = compare_bits(expected, actual, threads);
      EXPECT_EQ(found.mismatches, 4);
      EXPECT_EQ(found.first_mismatch, 99);
      EXPECT_EQ(found.max_ulps, 4u) << farthest;
    }
    actual[seam + 5] = 0x7fff;
    EXPECT_EQ(compare_bits(expected, actual).max_ulps, no_distance) << "a NaN is farther";
  }
  EXPECT_EQ(compare_bits(expected, expected).max_ulps, 0u);
}

TEST(Compare, NanEqualsTheSameNanAndNoOther) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compare_bits(std::vector<float>{nan, 1}, std::vector<float>{nan, 1}).equal());
  EXPECT_FALSE(compare_bits(std::vector<float>{nan}, std::vector<float>{-nan}).equal());
  EXPECT_FALSE(compare_bits(std::vector<float>{0.0f}, std::vector<float>{-0.0f}).equal());
}

template <class Bits>
void expect_intervals(Bits sign, Bits one, Bits infinity) {
  const auto bits = [](std::uint32_t value) { return static_cast<Bits>(value); };
  const std::vector<Bits> rising = {
      bits(~Bits{0}), bits(sign | infinity), bits(sign | one), bits(sign | 1), sign, 0, 1, one,
      infinity,       bits(infinity + 1)};
  for (std::size_t low = 0; low < rising.size(); ++low) {
    for (std::size_t high = low; high < rising.size(); ++high) {
      for (std::size_t at = 0; at < rising.size(); ++at) {
        EXPECT_EQ(is_within(rising[low], rising[high], rising[at]), low <= at && at <= high);
      }
    }
  }
  EXPECT_EQ(distance_outside(one, bits(one + 2), bits(one + 5)), 3u);
  EXPECT_EQ(distance_outside(one, bits(one + 2), bits(one - 4)), 4u);
}

TEST(Compare, AnIntervalHasAllNumbersFromItsLowerEndToItsUpper) {
  expect_intervals<std::uint16_t>(0x8000, 0x3c00, fp16_infinity);
  expect_intervals<std::uint32_t>(0x80000000, 0x3f800000, fp32_infinity);
  const std::vector<std::uint16_t> low = {0x3c00, 0x8002}, high = {0x3c04, 0x0001};
  EXPECT_TRUE(compare_within(low, high, std::vector<std::uint16_t>{0x3c04, 0x0000}).equal());
  const auto found = compare_within(low, high, std::vector<std::uint16_t>{0x3c06, 0x8003});
  EXPECT_EQ(found.mismatches, 2);
  EXPECT_EQ(found.max_ulps, 2u);
}

TEST(Compare, EmptyArraysAreEqual) {
  const Comparison found =
      compare_bits(std::span<const std::uint16_t>(), std::span<const std::uint16_t>());
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.first_mismatch, -1);
}

TEST(Compare, DifferentLengthsAreRefused) {
  const std::vector<std::uint16_t> three(3), four(4);
  EXPECT_EQ(message_of<std::invalid_argument>([&] { compare_bits(three, four); }),
            "cannot compare 3 elements with 4; pass both in full");
}

template <class Bits>
struct Pair {
  Bits a, b;
  std::uint32_t ulps;
};

/// The same pairs in the bits of one type, whose smallest normal number is `normal`.
template <class Bits>
void expect_distances(Bits infinity, Bits normal, Bits one) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto bits = [](std::uint32_t value) { return static_cast<Bits>(value); };
  const std::vector<Pair<Bits>> pairs = {
      {0, 0, 0},
      {0, sign, 0},                   // +0 and -0
      {0, 1, 1},                      // the smallest subnormal
      {sign, 1, 1},                   // the same from -0
      {1, bits(sign | 1), 2},         // across zero
      {bits(normal - 1), normal, 1},  // subnormal to normal
      {one, bits(one + 1), 1},        // to the next greater
      {one, bits(one - 1), 1},        // to the next smaller one, of another exponent
      {bits(sign | one), bits(sign | (one + 3)), 3},          // both negative
      {one, bits(sign | one), 2u * one},                      // the other sign
      {bits(infinity - 1), infinity, 1},                      // the greatest number
      {infinity, bits(sign | infinity), 2u * infinity},       // the largest distance
      {infinity, bits(infinity + 1), no_distance},            // the first NaN
      {bits(infinity + 1), bits(infinity + 1), no_distance},  // a NaN and itself
      {bits(sign - 1), one, no_distance},                     // 0x7fff
      {bits(~Bits{0}), bits(sign | one), no_distance},        // poison
  };
  for (const auto& [a, b, ulps] : pairs) {
    EXPECT_EQ(distance_in_ulps(a, b, infinity), ulps) << std::hex << a << " and " << b;
    EXPECT_EQ(distance_in_ulps(b, a, infinity), ulps) << std::hex << b << " and " << a;
  }
}

TEST(DistanceInUlps, CountsStepsInEveryType) {
  expect_distances<std::uint16_t>(fp16_infinity, 0x0400, 0x3c00);
  expect_distances<std::uint16_t>(bf16_infinity, 0x0080, 0x3f80);
  expect_distances<std::uint32_t>(fp32_infinity, 0x00800000, 0x3f800000);
}

/// Of 2 bytes, fp16's infinity ends the numbers: no NaN passes for a number, in either type.
TEST(DistanceInUlps, WithoutATypeNoNanIsTakenForANumber) {
  const auto of16 = [](std::uint16_t a, std::uint16_t b) { return distance_in_ulps(a, b); };
  EXPECT_EQ(of16(0x3f80, 0xbf81), 2u * 0x3f80 + 1);
  EXPECT_EQ(of16(0x7bff, fp16_infinity), 1u);
  EXPECT_EQ(of16(0x7c00, 0x7c01), no_distance);
  EXPECT_EQ(of16(0x7f7f, bf16_infinity), no_distance);
  EXPECT_EQ(distance_in_ulps(fp32_infinity, fp32_infinity - 1), 1u);
  EXPECT_EQ(distance_in_ulps(fp32_infinity, fp32_infinity + 1), no_distance);
}

TEST(Compare, ProvesItself) {
  for (const int threads : {1, 2, 4}) EXPECT_NO_THROW(self_test_comparison(threads));
}

}  // namespace
}  // namespace reprolab::reference
