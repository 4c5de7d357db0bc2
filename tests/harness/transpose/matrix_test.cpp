#include "harness/transpose/matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace reprolab::transpose {
namespace {

constexpr std::uint32_t one = 0x3f800000u, poison = 0xffffffffu;

const MatrixSpec specs[] = {{.rows = 1, .columns = 1},
                            {.rows = 1, .columns = 7, .padding = 2},
                            {.rows = 7, .columns = 1, .padding = 2},
                            {.rows = 64, .columns = 64},
                            {.rows = 33, .columns = 100, .padding = 4},
                            {.rows = 257, .columns = 131, .padding = 1},
                            {.rows = 33, .columns = 100, .padding = 4, .data = Data::constant}};

/// Place by place, in the input and in its transpose by two loops; gaps between rows.
TEST(MakeMatrix, HoldsTheValuesAtTheirPlacesAndExpectsThemTurned) {
  for (const MatrixSpec& spec : specs) {
    const Matrix matrix = make_matrix(spec, 5);
    const std::int64_t in_stride = spec.columns + spec.padding;
    const std::int64_t out_stride = spec.rows + spec.padding;
    std::vector<std::uint32_t> input((spec.rows - 1) * in_stride + spec.columns, gap_bits);
    std::vector<std::uint32_t> expected((spec.columns - 1) * out_stride + spec.rows, gap_bits);
    for (std::int64_t row = 0; row < spec.rows; ++row) {
      for (std::int64_t column = 0; column < spec.columns; ++column) {
        const auto bits = value_bits(spec.data, spec.columns, row, column, 5);
        input[row * in_stride + column] = expected[column * out_stride + row] = bits;
      }
    }
    EXPECT_EQ(matrix.input, input) << spec.name();
    EXPECT_EQ(matrix.expected, expected) << spec.name();
    EXPECT_EQ(std::ssize(input), spec.input().elements());
    EXPECT_EQ(std::ssize(expected), spec.output().elements());
  }
}

/// In 64 bits: the last element of the largest matrix of the sweep has a position beyond 2^32 - 1.
TEST(ValueBits, AreThoseOfTheElementsPlace) {
  EXPECT_EQ(value_bits(Data::random, 65537, 65536, 65536, 1),
            reference::distinct_value_bits(65537ull * 65537 - 1, 1));
  EXPECT_EQ(value_bits(Data::random, 10, 3, 4, 9), reference::distinct_value_bits(34, 9));
  EXPECT_EQ(value_bits(Data::constant, 10, 3, 4, 9), one);
}

TEST(DescribeMismatch, TellsThePlaceInTheOutputAndTheBits) {
  EXPECT_EQ(describe_mismatch({.mismatches = 3, .first_mismatch = 6}, {.rows = 4, .columns = 4},
                              one, poison),
            "3 of 16 elements differ; first at row 1, column 2 of the output: expected 0x3f800000 "
            "(1), actual 0xffffffff (-nan)");
  // Rows of 3 elements, 5 apart.
  const MatrixSpec padded{.rows = 3, .columns = 5, .padding = 2};
  EXPECT_EQ(describe_mismatch({.mismatches = 1, .first_mismatch = 12}, padded, 0, 0x80000000u),
            "1 of 15 elements differ; first at row 2, column 2 of the output: expected 0x00000000 "
            "(0), actual 0x80000000 (-0)");
  EXPECT_EQ(describe_mismatch({.mismatches = 1, .first_mismatch = 13}, padded, gap_bits, one),
            "1 of 15 elements differ; first at row 2, column 3 of the output, between two rows: "
            "expected 0xffffffff (-nan), actual 0x3f800000 (1)");
  const std::string large = describe_mismatch(
      {.mismatches = std::int64_t{1} << 32, .first_mismatch = (std::int64_t{1} << 32) - 1},
      {.rows = 65536, .columns = 65536}, one, one);
  EXPECT_EQ(large.substr(0, large.find(':')),
            "4294967296 of 4294967296 elements differ; first at row 65535, column 65535 of the "
            "output");
}

}  // namespace
}  // namespace reprolab::transpose
