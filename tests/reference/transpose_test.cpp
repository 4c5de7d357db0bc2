#include "reference/transpose/transpose.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "tests/message_of.hpp"

namespace reprolab::reference {
namespace {

using Bits = std::vector<std::uint32_t>;

constexpr std::uint32_t in_gap = 0xdeadbeefu, untouched = 0xcdcdcdcdu;
constexpr std::int64_t behind = 3;  ///< Elements of an output after the end of its matrix.

/// A matrix in which every element has its own value, with `in_gap` between its rows.
Bits make_input(const MatrixShape& shape) {
  Bits input(static_cast<std::size_t>(shape.elements()), in_gap);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t c = 0; c < shape.columns; ++c) {
      input[r * shape.stride + c] = static_cast<std::uint32_t>(r * shape.columns + c);
    }
  }
  return input;
}

std::size_t output_size(const MatrixShape& shape, std::int64_t out_stride) {
  return static_cast<std::size_t>(MatrixShape{shape.columns, shape.rows, out_stride}.elements() +
                                  behind);
}

/// The definition, one element at a time.
Bits by_definition(const Bits& input, const MatrixShape& shape, std::int64_t out_stride) {
  Bits output(output_size(shape, out_stride), untouched);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t c = 0; c < shape.columns; ++c) {
      output[c * out_stride + r] = input[r * shape.stride + c];
    }
  }
  return output;
}

Bits transposed(const Bits& input, const MatrixShape& shape, std::int64_t out_stride,
                int threads = 1) {
  Bits output(output_size(shape, out_stride), untouched);
  transpose(input, shape, output, out_stride, threads);
  return output;
}

/// With and without padding between rows, on either side.
void expect_follows_the_definition(std::int64_t rows, std::int64_t columns, int threads) {
  for (const std::int64_t in_gap_length : {0, 1, 5}) {
    for (const std::int64_t out_gap_length : {0, 1, 3}) {
      const MatrixShape shape{rows, columns, columns + in_gap_length};
      const std::int64_t out_stride = rows + out_gap_length;
      const Bits input = make_input(shape);
      EXPECT_EQ(transposed(input, shape, out_stride, threads),
                by_definition(input, shape, out_stride))
          << rows << "x" << columns << ", strides " << shape.stride << " and " << out_stride
          << ", on " << threads << " threads";
    }
  }
}

TEST(Transpose, OfEverySmallShapeFollowsTheDefinition) {
  for (std::int64_t rows = 0; rows < 10; ++rows) {
    for (std::int64_t columns = 0; columns < 10; ++columns) {
      expect_follows_the_definition(rows, columns, 1);
    }
  }
}

TEST(Transpose, FollowsTheDefinitionAtTheSeamsOfItsBlocksOnAnyNumberOfThreads) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {63, 65}, {64, 64}, {65, 63},   {127, 129}, {128, 192}, {257, 1031}, {1031, 257},
      {1, 64},  {1, 65},  {1, 10007}, {64, 1},    {65, 1},    {10007, 1}};
  for (const auto& [rows, columns] : shapes) {
    for (const int threads : {1, 7}) expect_follows_the_definition(rows, columns, threads);
  }
}

/// If they were moved as floats, a NaN might be quieted.
TEST(Transpose, KeepsEveryBitOfNansZerosAndSubnormals) {
  const Bits special = {0x7f800001u, 0x7fc00000u, 0xffbfffffu, 0xffffffffu,
                        0x7fffffffu, 0x80000000u, 0x00000000u, 0x00000001u,
                        0x807fffffu, 0x7f800000u, 0xff800000u, 0x3f800000u};
  const MatrixShape shape{70, 67, 67};
  Bits input = make_input(shape);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = special[i * 7 % special.size()];
  EXPECT_EQ(transposed(input, shape, 70), by_definition(input, shape, 70));
}

std::string refusal(const MatrixShape& shape, std::int64_t out_stride, std::size_t input_size,
                    std::size_t output_size) {
  return message_of<std::invalid_argument>([&] {
    const Bits input(input_size);
    Bits output(output_size);
    transpose(input, shape, output, out_stride);
  });
}

TEST(Transpose, RefusesStridesAndSpansThatAreShorterThanTheirRowsAndMatrices) {
  const std::string stride = "transpose: a stride is shorter than its rows";
  EXPECT_EQ(refusal({3, 5, 4}, 3, 100, 100), stride);
  EXPECT_EQ(refusal({3, 5, 5}, 2, 100, 100), stride);
  EXPECT_EQ(refusal({-1, 5, 5}, 3, 100, 100), stride);
  const std::string span = "transpose: a span is shorter than its matrix";
  EXPECT_EQ(refusal({3, 5, 7}, 4, 2 * 7 + 5 - 1, 4 * 4 + 3), span);
  EXPECT_EQ(refusal({3, 5, 7}, 4, 2 * 7 + 5, 4 * 4 + 3 - 1), span);
  EXPECT_EQ(refusal({1, 1, 1}, 1, 0, 1), span);
  Bits output(4 * 4 + 3);
  EXPECT_NO_THROW(transpose(Bits(2 * 7 + 5), {3, 5, 7}, output, 4));
}

TEST(MatrixShape, CountsTheRoomBetweenRowsButNoneBehindTheLast) {
  EXPECT_EQ((MatrixShape{3, 5, 5}.elements()), 15);
  EXPECT_EQ((MatrixShape{3, 5, 8}.elements()), 21);
  EXPECT_EQ((MatrixShape{1, 5, 8}.elements()), 5);
  EXPECT_EQ((MatrixShape{0, 5, 8}.elements()), 0);
  EXPECT_EQ((MatrixShape{3, 0, 8}.elements()), 0);
  EXPECT_EQ((MatrixShape{65536, 65536, 65540}.elements()), 65535ll * 65540 + 65536);
}

constexpr std::uint64_t stretch = std::uint64_t{1} << 31;

/// The values at `count` consecutive indices.
Bits values(std::uint64_t first, std::size_t count, std::uint64_t seed) {
  Bits bits(count);
  for (std::size_t i = 0; i < count; ++i) bits[i] = distinct_value_bits(first + i, seed);
  return bits;
}

void expect_distinct(Bits bits, std::uint64_t first) {
  std::ranges::sort(bits);
  EXPECT_EQ(std::ranges::adjacent_find(bits), bits.end()) << "from index " << first;
}

TEST(DistinctValues, AreDistinctAtNeighbouringPlacesOfAStretch) {
  constexpr std::size_t count = 1 << 22;
  for (const std::uint64_t first : {std::uint64_t{0}, stretch / 2 - 12345, 3 * stretch - count}) {
    expect_distinct(values(first, count, 1), first);
  }
}

/// A sample of a range, and all places in it that differ from the first in one bit or two.
TEST(DistinctValues, AreDistinctOverAWholeStretch) {
  for (const std::uint64_t first : {std::uint64_t{0}, 5 * stretch}) {
    Bits apart, near = values(first, 1, 1);
    for (std::uint64_t i = 0; i < stretch; i += 1021) {
      apart.push_back(distinct_value_bits(first + i, 1));
    }
    expect_distinct(apart, first);
    for (int bit = 0; bit < 31; ++bit) {
      for (int other = 0; other <= bit; ++other) {
        const std::uint64_t place = std::uint64_t{1} << bit | std::uint64_t{1} << other;
        near.push_back(distinct_value_bits(first + place, 1));
      }
    }
    expect_distinct(near, first);
  }
}

TEST(DistinctValues, AreFiniteAndBelowTwo) {
  bool negative = false, positive = false;
  for (const std::uint64_t first : {std::uint64_t{0}, stretch - 500000, 1000 * stretch}) {
    for (const std::uint32_t bits : values(first, 1000000, 1)) {
      const float value = std::bit_cast<float>(bits);
      ASSERT_TRUE(std::isfinite(value)) << bits;
      ASSERT_LT(std::abs(value), 2.0f) << bits;
      (std::signbit(value) ? negative : positive) = true;
    }
  }
  EXPECT_TRUE(negative);
  EXPECT_TRUE(positive);
}

/// Neighbours differ in many bits, so that a swap of two is never a small change.
TEST(DistinctValues, OfNeighboursAreFarApart) {
  double flipped = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    flipped += std::popcount(distinct_value_bits(i, 1) ^ distinct_value_bits(i + 1, 1));
  }
  EXPECT_GT(flipped / 100000, 12);
}

TEST(DistinctValues, OfOtherSeedsAndStretchesAreOthersAtTheirPlace) {
  constexpr std::size_t count = 100000;
  const auto in_place = [](const Bits& a, const Bits& b) {
    std::size_t equal = 0;
    for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i];
    return equal;
  };
  const Bits first = values(1, count, 1);
  EXPECT_EQ(in_place(first, values(1, count, 1)), count);
  for (const std::uint64_t seed : {0u, 2u, 3u, 2147483647u}) {
    EXPECT_EQ(in_place(first, values(1, count, seed)), 0u) << "seed " << seed;
  }
  for (const std::uint64_t k : {1u, 2u, 3u, 511u}) {
    EXPECT_EQ(in_place(first, values(k * stretch + 1, count, 1)), 0u) << "stretch " << k;
  }
  // Nor is a later range the same as another seed.
  EXPECT_EQ(in_place(values(stretch + 1, count, 1), values(1, count, 2)), 0u);
  EXPECT_EQ(in_place(values(stretch + 1, count, 0), values(1, count, 1)), 0u);
}

/// Computed by a second implementation, in Python, so that the data never change silently.
TEST(DistinctValues, AreTheseForEver) {
  const struct {
    std::uint64_t index, seed;
    std::uint32_t bits;
  } golden[] = {{0, 0, 0x80000000u},
                {1, 0, 0x8ac197dfu},
                {0, 1, 0x80000000u},
                {1, 1, 0x38defec1u},
                {2, 1, 0x95de8b99u},
                {1000003, 1, 0x319b4b1eu},
                {2147483647, 1, 0xbc04c5feu},
                {2147483648, 1, 0x80000000u},
                {2147483649, 1, 0x17947975u},
                {4294967297, 1, 0x9675c898u},
                {1099511627775, 1, 0x8ecfabfau},
                {1, 2, 0xbc46b1c9u},
                {1, 2147483647, 0x9760d65bu},
                {12345678901, 42, 0x3934093cu}};
  for (const auto& [index, seed, bits] : golden) {
    EXPECT_EQ(distinct_value_bits(index, seed), bits) << index << ", seed " << seed;
  }
  static_assert(distinct_value_bits(1, 1) == 0x38defec1u);
}

}  // namespace
}  // namespace reprolab::reference
