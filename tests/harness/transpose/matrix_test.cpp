#include "harness/transpose/matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

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

TEST(MatrixSpec, NamesTellShapesPaddingsAndDataApart) {
  EXPECT_EQ((MatrixSpec{.rows = 4096, .columns = 4100}.name()), "4096x4100");
  EXPECT_EQ((MatrixSpec{.rows = 4096, .columns = 4100, .padding = 4}.name()), "4096x4100+4");
  EXPECT_EQ((MatrixSpec{.rows = 4096, .columns = 4100, .data = Data::constant}.name()),
            "4096x4100/constant");
  EXPECT_EQ((MatrixSpec{.rows = 1, .columns = 2, .padding = 3, .data = Data::constant}.name()),
            "1x2+3/constant");
  std::set<std::string> names;
  for (const MatrixSpec& spec : specs) names.insert(spec.name());
  EXPECT_EQ(names.size(), std::size(specs));
}

TEST(MatrixSpec, OutputsAreTheInputsTurnedWithThePaddingInBoth) {
  const MatrixSpec spec{.rows = 5, .columns = 7, .padding = 2};
  EXPECT_EQ(spec.elements(), 35);
  EXPECT_EQ(spec.input().rows, 5);
  EXPECT_EQ(spec.input().columns, 7);
  EXPECT_EQ(spec.input().stride, 9);
  EXPECT_EQ(spec.output().rows, 7);
  EXPECT_EQ(spec.output().columns, 5);
  EXPECT_EQ(spec.output().stride, 7);
}

TEST(MakeMatrix, HoldsTheValuesAtTheirPlacesAndGapsBetween) {
  for (const MatrixSpec& spec : specs) {
    const Matrix matrix = make_matrix(spec, 5);
    const std::int64_t stride = spec.columns + spec.padding;
    ASSERT_EQ(std::ssize(matrix.input), (spec.rows - 1) * stride + spec.columns) << spec.name();
    for (std::int64_t i = 0; i < std::ssize(matrix.input); ++i) {
      const std::int64_t row = i / stride, column = i % stride;
      const std::uint32_t expected =
          column < spec.columns ? value_bits(spec.data, spec.columns, row, column, 5) : gap_bits;
      ASSERT_EQ(matrix.input[i], expected) << spec.name() << " at " << i;
    }
  }
}

TEST(MakeMatrix, ExpectsWhatTwoLoopsGive) {
  for (const MatrixSpec& spec : specs) {
    const Matrix matrix = make_matrix(spec, 5);
    const std::int64_t in_stride = spec.columns + spec.padding;
    const std::int64_t out_stride = spec.rows + spec.padding;
    std::vector<std::uint32_t> expected((spec.columns - 1) * out_stride + spec.rows, gap_bits);
    for (std::int64_t row = 0; row < spec.rows; ++row) {
      for (std::int64_t column = 0; column < spec.columns; ++column) {
        expected[column * out_stride + row] = matrix.input[row * in_stride + column];
      }
    }
    EXPECT_EQ(matrix.expected, expected) << spec.name();
  }
}

TEST(MakeMatrix, OfRandomDataHasEveryValueOnceAndIsNoTransposeOfItself) {
  auto [input, expected] = make_matrix({.rows = 300, .columns = 300}, 1);
  EXPECT_NE(input, expected);
  std::ranges::sort(input);
  EXPECT_EQ(std::ranges::adjacent_find(input), input.end());
}

TEST(MakeMatrix, OfConstantDataIsOneEverywhereButInTheGaps) {
  const auto [input, expected] =
      make_matrix({.rows = 3, .columns = 2, .padding = 1, .data = Data::constant}, 1);
  EXPECT_EQ(input, (std::vector<std::uint32_t>{one, one, gap_bits, one, one, gap_bits, one, one}));
  EXPECT_EQ(expected, (std::vector<std::uint32_t>{one, one, one, gap_bits, one, one, one}));
}

TEST(MakeMatrix, DependsOnTheSeedAlone) {
  const MatrixSpec spec{.rows = 40, .columns = 50};
  const Matrix first = make_matrix(spec, 1);
  EXPECT_EQ(make_matrix(spec, 1).input, first.input);
  const Matrix other = make_matrix(spec, 2);
  for (std::size_t i = 1; i < first.input.size(); ++i) {  // the first is always -0.0
    ASSERT_NE(other.input[i], first.input[i]) << i;
  }
}

/// In 64 bits: the last element of the largest matrix of the sweep has a position beyond 2^32 - 1.
TEST(ValueBits, AreThoseOfTheElementsPlace) {
  EXPECT_EQ(value_bits(Data::random, 65537, 65536, 65536, 1),
            reference::distinct_value_bits(65537ull * 65537 - 1, 1));
  EXPECT_EQ(value_bits(Data::random, 10, 3, 4, 9), reference::distinct_value_bits(34, 9));
  EXPECT_EQ(value_bits(Data::constant, 10, 3, 4, 9), one);
}

/// Memory that was not written must differ from every value that may be written.
TEST(GapBits, AreNoElementsValue) {
  const Matrix matrix = make_matrix({.rows = 500, .columns = 500}, 1);
  EXPECT_EQ(std::ranges::count(matrix.input, gap_bits), 0);
  EXPECT_NE(one, gap_bits);
}

TEST(DescribeMismatch, TellsThePlaceInTheOutputAndTheBits) {
  const MatrixSpec spec{.rows = 4, .columns = 4};
  EXPECT_EQ(describe_mismatch({.mismatches = 3, .first_mismatch = 6}, spec, one, poison),
            "3 of 16 elements differ; first at row 1, column 2 of the output: expected 0x3f800000 "
            "(1), actual 0xffffffff (-nan)");
  EXPECT_EQ(describe_mismatch({.mismatches = 16, .first_mismatch = 0}, spec, 0, 0x80000000u),
            "16 of 16 elements differ; first at row 0, column 0 of the output: expected "
            "0x00000000 (0), actual 0x80000000 (-0)");
}

/// The output of a 3 x 5 matrix with padding 2 has rows of 3 elements, 5 apart.
TEST(DescribeMismatch, SaysWhenAGapWasWrittenTo) {
  const MatrixSpec spec{.rows = 3, .columns = 5, .padding = 2};
  EXPECT_EQ(describe_mismatch({.mismatches = 1, .first_mismatch = 12}, spec, one, 0x40000000u),
            "1 of 15 elements differ; first at row 2, column 2 of the output: expected 0x3f800000 "
            "(1), actual 0x40000000 (2)");
  EXPECT_EQ(describe_mismatch({.mismatches = 1, .first_mismatch = 13}, spec, gap_bits, one),
            "1 of 15 elements differ; first at row 2, column 3 of the output, between two rows: "
            "expected 0xffffffff (-nan), actual 0x3f800000 (1)");
}

TEST(DescribeMismatch, CountsPlacesIn64Bits) {
  const MatrixSpec spec{.rows = 65536, .columns = 65536};
  const std::string text = describe_mismatch(
      {.mismatches = std::int64_t{1} << 32, .first_mismatch = (std::int64_t{1} << 32) - 1}, spec,
      one, one);
  EXPECT_EQ(text.substr(0, text.find(':')),
            "4294967296 of 4294967296 elements differ; first at row 65535, column 65535 of the "
            "output");
}

}  // namespace
}  // namespace reprolab::transpose
