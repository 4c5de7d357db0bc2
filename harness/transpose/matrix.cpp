#include "harness/transpose/matrix.hpp"

#include <fmt/core.h>

#include <bit>

#include "reference/parallel.hpp"

namespace reprolab::transpose {

std::string MatrixSpec::name() const {
  std::string text = fmt::format("{}x{}", rows, columns);
  if (padding > 0) text += fmt::format("+{}", padding);
  if (data == Data::constant) text += "/constant";
  return text;
}

Matrix make_matrix(const MatrixSpec& spec, std::uint64_t seed) {
  const auto input = spec.input();
  Matrix matrix;
  matrix.input.assign(static_cast<std::size_t>(input.elements()), gap_bits);
  matrix.expected.assign(static_cast<std::size_t>(spec.output().elements()), gap_bits);
  reference::parallel_for(spec.rows, 16, 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::uint32_t* const elements = matrix.input.data() + row * input.stride;
      for (std::int64_t column = 0; column < spec.columns; ++column) {
        elements[column] = value_bits(spec.data, spec.columns, row, column, seed);
      }
    }
  });
  reference::transpose(matrix.input, input, matrix.expected, spec.output().stride);
  return matrix;
}

std::string describe_mismatch(const reference::Comparison& comparison, const MatrixSpec& spec,
                              std::uint32_t expected, std::uint32_t actual) {
  const auto output = spec.output();
  const std::int64_t row = comparison.first_mismatch / output.stride;
  const std::int64_t column = comparison.first_mismatch % output.stride;
  return fmt::format(
      "{} of {} elements differ; first at row {}, column {} of the output{}: expected {:#010x} "
      "({:.6g}), actual {:#010x} ({:.6g})",
      comparison.mismatches, spec.elements(), row, column,
      column < output.columns ? "" : ", between two rows", expected, std::bit_cast<float>(expected),
      actual, std::bit_cast<float>(actual));
}

}  // namespace reprolab::transpose
