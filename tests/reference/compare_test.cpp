#include "reference/compare.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

namespace reprolab::reference {
namespace {

constexpr std::uint16_t fp16_infinity = 0x7c00, bf16_infinity = 0x7f80;
constexpr std::uint32_t fp32_infinity = 0x7f800000;
constexpr std::int64_t seam = 1 << 18;  // a boundary between chunks of the comparison
constexpr std::int64_t n = 3 * seam + 17;

/// Plants faults of all kinds at every sort of place.
TEST(Compare, PassesTheTestThatEveryProgramBeginsWith) { EXPECT_NO_THROW(self_test_comparison()); }

TEST(Compare, CountsMismatchesWithTheFirstAndTheLargestDistance) {
  std::vector<std::uint16_t> expected(n, 0x3c00);
  for (const auto farthest : {std::int64_t{99}, seam, n - 1}) {
    auto actual = expected;
    for (const auto index : {n - 1, seam, seam + 5, std::int64_t{99}}) actual[index] = 0x3c01;
    actual[farthest] = 0x3bfc;
    const Comparison comparison = compare_bits(expected, actual);
    EXPECT_EQ(comparison.mismatches, 4);
    EXPECT_EQ(comparison.first_mismatch, 99);
    EXPECT_EQ(comparison.max_ulps, 4u) << farthest;
    actual[seam + 5] = 0x7fff;
    EXPECT_EQ(compare_bits(expected, actual).max_ulps, no_distance) << "a NaN is farther";
  }
}

TEST(Compare, TakesBitsAndNoNumbersAndArraysOfOneLength) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compare_bits(std::vector<float>{nan, 1}, std::vector<float>{nan, 1}).equal());
  EXPECT_FALSE(compare_bits(std::vector<float>{nan}, std::vector<float>{-nan}).equal());
  EXPECT_EQ(compare_bits(std::vector<float>{}, std::vector<float>{}).first_mismatch, -1);
  const std::vector<std::uint16_t> three(3), four(4);
  EXPECT_THROW(compare_bits(three, four), std::invalid_argument);
  for (const auto& [low, high, actual] :
       {std::tuple{three, four, three}, {four, three, four}, {four, three, three}}) {
    EXPECT_THROW(compare_within(low, high, actual), std::invalid_argument);
  }
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

TEST(Compare, AnIntervalContainsAllNumbersBetweenItsEnds) {
  expect_intervals<std::uint16_t>(0x8000, 0x3c00, fp16_infinity);
  expect_intervals<std::uint32_t>(0x80000000, 0x3f800000, fp32_infinity);
  const std::vector<std::uint16_t> low = {0x3c00, 0x8002}, high = {0x3c04, 0x0001};
  EXPECT_TRUE(compare_within(low, high, std::vector<std::uint16_t>{0x3c04, 0x0000}).equal());
  const auto comparison = compare_within(low, high, std::vector<std::uint16_t>{0x3c06, 0x8003});
  EXPECT_EQ(comparison.mismatches, 2);
  EXPECT_EQ(comparison.first_mismatch, 0);
  EXPECT_EQ(comparison.max_ulps, 2u);
}

/// The same pairs in the bits of one type, whose smallest normal number is `normal`.
template <class Bits>
void expect_distances(Bits infinity, Bits normal, Bits one) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto bits = [](std::uint32_t value) { return static_cast<Bits>(value); };
  const std::vector<std::tuple<Bits, Bits, std::uint32_t>> pairs = {
      {0, sign, 0},                                           // +0 and -0
      {sign, 1, 1},                                           // the smallest subnormal from -0
      {1, bits(sign | 1), 2},                                 // across zero
      {bits(normal - 1), normal, 1},                          // subnormal to normal
      {one, bits(one - 1), 1},                                // to another exponent
      {bits(sign | one), bits(sign | (one + 3)), 3},          // both negative
      {one, bits(sign | one), 2u * one},                      // the other sign
      {bits(infinity - 1), infinity, 1},                      // the greatest number
      {infinity, bits(sign | infinity), 2u * infinity},       // the largest distance
      {infinity, bits(infinity + 1), no_distance},            // the first NaN
      {bits(infinity + 1), bits(infinity + 1), no_distance},  // a NaN and itself
      {bits(~Bits{0}), bits(sign | one), no_distance},        // poison
  };
  for (const auto& [a, b, ulps] : pairs) {
    EXPECT_EQ(distance_in_ulps(a, b, infinity), ulps) << std::hex << a << " and " << b;
    EXPECT_EQ(distance_in_ulps(b, a, infinity), ulps) << std::hex << b << " and " << a;
  }
}

/// If the type is unknown, fp16's infinity ends the numbers of 2 bytes.
TEST(DistanceInUlps, CountsStepsInEveryType) {
  expect_distances<std::uint16_t>(fp16_infinity, 0x0400, 0x3c00);
  expect_distances<std::uint16_t>(bf16_infinity, 0x0080, 0x3f80);
  expect_distances<std::uint32_t>(fp32_infinity, 0x00800000, 0x3f800000);
  const auto of16 = [](std::uint16_t a, std::uint16_t b) { return distance_in_ulps(a, b); };
  EXPECT_EQ(of16(0x7bff, fp16_infinity), 1u);
  EXPECT_EQ(of16(0x7f7f, bf16_infinity), no_distance);
  EXPECT_EQ(distance_in_ulps(fp32_infinity, fp32_infinity - 1), 1u);
  EXPECT_EQ(distance_in_ulps(fp32_infinity, fp32_infinity + 1), no_distance);
}

}  // namespace
}  // namespace reprolab::reference
