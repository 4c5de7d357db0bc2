// The problem that a transpose kernel is given: non-owning views of device memory. Common
// requirements of the kernels.
#pragma once

#include <cstdint>

#include "kernels/definition.hpp"

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

/// Yes for every valid problem that a grid covers: no kernel's tiles are smaller than 32 x 32.
inline Support supports_tiles(const Problem& problem) {
  const std::int64_t down = blocks_over(problem.rows, 32),
                     across = blocks_over(problem.columns, 32);
  if (across == 0 || down <= max_blocks / across) return Support::yes();
  return Support::no("a grid has blocks for 2^31 - 1 tiles of 32 x 32 at most");
}

/// Whether both matrices consist of aligned groups of 16 bytes.
inline bool moves_in_float4s(const Problem& problem) {
  const auto aligned = [](const float* start, std::int64_t length, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(start) % 16 == 0 && length % 4 == 0 && stride % 4 == 0;
  };
  return aligned(problem.input, problem.columns, problem.in_stride) &&
         aligned(problem.output, problem.rows, problem.out_stride);
}

inline Support supports_float4s(const Problem& problem) {
  if (moves_in_float4s(problem)) return supports_tiles(problem);
  return Support::no(
      "needs rows and columns in multiples of 4, and rows that begin at multiples of 16 bytes");
}

}  // namespace reprolab::transpose
