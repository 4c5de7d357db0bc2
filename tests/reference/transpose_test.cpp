#include "reference/transpose/transpose.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "tests/refusal.hpp"

namespace reprolab::reference {
namespace {

using Bits = std::vector<std::uint32_t>;

constexpr std::uint32_t in_gap = 0xdeadbeefu, untouched = 0xcdcdcdcdu;
constexpr std::int64_t tail = 3;  ///< Elements of an output after the end of its matrix.

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
                                  tail);
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

Bits transposed(const Bits& input, const MatrixShape& shape, std::int64_t out_stride) {
  Bits output(output_size(shape, out_stride), untouched);
  transpose(input, shape, output, out_stride);
  return output;
}

/// With and without padding between rows, on either side.
void expect_follows_the_definition(std::int64_t rows, std::int64_t columns) {
  for (const std::int64_t in_gap_length : {0, 1, 5}) {
    for (const std::int64_t out_gap_length : {0, 1, 3}) {
      const MatrixShape shape{rows, columns, columns + in_gap_length};
      const std::int64_t out_stride = rows + out_gap_length;
      const Bits input = make_input(shape);
      EXPECT_EQ(transposed(input, shape, out_stride), by_definition(input, shape, out_stride))
          << rows << "x" << columns << ", strides " << shape.stride << " and " << out_stride;
    }
  }
}

TEST(Transpose, OfEverySmallShapeFollowsTheDefinition) {
  for (const std::int64_t rows : {0, 1, 2, 9}) {
    for (const std::int64_t columns : {0, 1, 3, 8}) {
      expect_follows_the_definition(rows, columns);
    }
  }
}

TEST(Transpose, FollowsTheDefinitionAtTheSeamsOfItsBlocks) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {63, 65}, {64, 64}, {65, 63},   {127, 129}, {128, 192}, {257, 1031}, {1031, 257},
      {1, 64},  {1, 65},  {1, 10007}, {64, 1},    {65, 1},    {10007, 1}};
  for (const auto& [rows, columns] : shapes) {
    expect_follows_the_definition(rows, columns);
  }
}
/// Computed by a second implementation in Python, so that the data never change silently.
TEST(DistinctValues, AreTheseForEver) {
  const struct {
    std::uint64_t index, seed;
    std::uint32_t bits;
  } golden[] = {{0, 0, 0x80000000u},          {1, 0, 0x8ac197dfu},
                {1, 1, 0x38defec1u},          {1000003, 1, 0x319b4b1eu},
                {2147483648, 1, 0x80000000u}, {1099511627775, 1, 0x8ecfabfau},
                {1, 2147483647, 0x9760d65bu}, {12345678901, 42, 0x3934093cu}};
  for (const auto& [index, seed, bits] : golden) {
    EXPECT_EQ(distinct_value_bits(index, seed), bits) << index << ", seed " << seed;
  }
}

TEST(DistinctValues, AreDistinctFiniteAndBelowTwo) {
  constexpr std::uint64_t stretch = std::uint64_t{1} << 31, count = 1 << 18;
  for (const std::uint64_t first : {std::uint64_t{0}, stretch / 2 - 12345, 3 * stretch - count}) {
    Bits bits;
    for (std::uint64_t i = first; i < first + count; ++i) bits.push_back(distinct_value_bits(i, 1));
    std::ranges::sort(bits);
    EXPECT_EQ(std::ranges::adjacent_find(bits), bits.end()) << "from index " << first;
    EXPECT_TRUE(std::ranges::all_of(
        bits, [](std::uint32_t value) { return std::abs(std::bit_cast<float>(value)) < 2; }));
  }
}

}  // namespace
}  // namespace reprolab::reference
