// What transpose kernels require of a problem.
#pragma once

#include <cstdint>

#include "kernels/registry.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {

/// Whether every row of both matrices begins at a multiple of 16 bytes.
inline bool has_aligned_rows(const Problem& problem) {
  const auto aligned = [](const float* start, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(start) % 16 == 0 && stride % 4 == 0;
  };
  return aligned(problem.input, problem.in_stride) && aligned(problem.output, problem.out_stride);
}

inline Support supports_all(const Problem&) { return Support::yes(); }

/// Whether both matrices consist of aligned groups of 16 bytes.
inline bool moves_in_float4s(const Problem& problem) {
  return has_aligned_rows(problem) && problem.rows % 4 == 0 && problem.columns % 4 == 0;
}

inline Support supports_float4s(const Problem& problem) {
  if (moves_in_float4s(problem)) return Support::yes();
  return Support::no(
      "needs rows and columns in multiples of 4, and rows that begin at multiples of 16 bytes");
}

}  // namespace reprolab::transpose
