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

}  // namespace
}  // namespace reprolab::transpose
