#include "reference/transpose/transpose.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <stdexcept>

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

using BitMatrix = Eigen::Matrix<std::uint32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;

/// A block of this many rows and columns stays in the L1 cache.
constexpr std::int64_t block = 64;

}  // namespace

void transpose(std::span<const std::uint32_t> input, const MatrixShape& shape,
               std::span<std::uint32_t> output, std::int64_t out_stride) {
  const MatrixShape transposed{shape.columns, shape.rows, out_stride};
  if (shape.rows < 0 || shape.columns < 0 || shape.stride < shape.columns ||
      out_stride < shape.rows) {
    throw std::invalid_argument("transpose: a stride is shorter than its rows");
  }
  if (static_cast<std::int64_t>(input.size()) < shape.elements() ||
      static_cast<std::int64_t>(output.size()) < transposed.elements()) {
    throw std::invalid_argument("transpose: a span is shorter than its matrix");
  }
  const Eigen::Map<const BitMatrix, 0, Stride> from(input.data(), shape.rows, shape.columns,
                                                    Stride(shape.stride));
  Eigen::Map<BitMatrix, 0, Stride> to(output.data(), shape.columns, shape.rows, Stride(out_stride));
  parallel_for(shape.columns, block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < shape.rows; row += block) {
      const std::int64_t rows = std::min(block, shape.rows - row);
      to.block(begin, row, end - begin, rows) =
          from.block(row, begin, rows, end - begin).transpose();
    }
  });
}

}  // namespace reprolab::reference
