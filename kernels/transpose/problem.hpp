// The problem that a transpose kernel is given: non-owning views of device memory.
#pragma once

#include <cstdint>

namespace reprolab::transpose {

/// output[c * out_stride + r] = input[r * in_stride + c], bit for bit, for all r < rows and
/// c < columns. Both matrices are row-major, do not overlap, and may have padding between their
/// rows. The padding, and anything past the last row, may be neither read nor written. `rows` or
/// `columns` may be 0.
struct Problem {
  static constexpr const char* family = "transpose";  ///< Its folder.

  const float* input = nullptr;  ///< [rows][in_stride], 4-byte aligned.
  float* output = nullptr;       ///< [columns][out_stride], 4-byte aligned.
  std::int64_t rows = 0;         ///< Below 2^31.
  std::int64_t columns = 0;      ///< Below 2^31.
  std::int64_t in_stride = 0;    ///< Elements from one row of `input` to the next; >= columns.
  std::int64_t out_stride = 0;   ///< Elements from one row of `output` to the next; >= rows.
};

}  // namespace reprolab::transpose
