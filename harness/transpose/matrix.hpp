// A matrix on the host with its transpose: the start of every measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/compare.hpp"
#include "reference/transpose/transpose.hpp"

namespace reprolab::transpose {

enum class Data {
  random,   ///< Every element has its own value (reference::distinct_value_bits).
  constant  ///< 1.0 everywhere, as in the post's own check.
};

/// Shape and data of a matrix.
struct MatrixSpec {
  std::int64_t rows = 0, columns = 0;
  std::int64_t padding = 0;  ///< Elements between two rows, of input and output.
  Data data = Data::random;

  std::int64_t elements() const { return rows * columns; }
  reference::MatrixShape input() const { return {rows, columns, columns + padding}; }
  reference::MatrixShape output() const { return {columns, rows, rows + padding}; }
  /// "4096x4100", "4096x4100+4", "4096x4100/constant".
  std::string name() const;
};

/// The bits between two rows, in input and expected output, which no kernel may use or change.
/// Outputs are filled with them before a launch.
inline constexpr std::uint32_t gap_bits = 0xffffffffu;

/// The bits of the input's element (row, column).
constexpr std::uint32_t value_bits(Data data, std::int64_t columns, std::int64_t row,
                                   std::int64_t column, std::uint64_t seed) {
  constexpr std::uint32_t one = 0x3f800000u;
  if (data == Data::constant) return one;
  return reference::distinct_value_bits(static_cast<std::uint64_t>(row * columns + column), seed);
}

/// Bits of fp32 elements, and of the gaps.
struct Matrix {
  std::vector<std::uint32_t> input;     ///< [spec.input().elements()]
  std::vector<std::uint32_t> expected;  ///< [spec.output().elements()]
};

/// Depends only on `spec` and `seed`.
Matrix make_matrix(const MatrixSpec& spec, std::uint64_t seed);

/// One line: "3 of 16 elements differ; first at row 1, column 2 of the output: expected 0x3f800000
/// (1), actual 0xffffffff (-nan)". `comparison` (over output and gaps) has a mismatch.
std::string describe_mismatch(const reference::Comparison& comparison, const MatrixSpec& spec,
                              std::uint32_t expected, std::uint32_t actual);

}  // namespace reprolab::transpose
