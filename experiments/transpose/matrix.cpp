#include "experiments/transpose/matrix.hpp"

#include <fmt/core.h>

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

}  // namespace reprolab::transpose
