// What transpose kernels require of a problem.
#pragma once

#include <cstdint>

#include "kernels/registry.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {

inline Support supports_all(const Problem&) { return Support::yes(); }

/// Whether both matrices consist of aligned groups of 16 bytes.
inline bool moves_in_float4s(const Problem& problem) {
  const auto aligned = [](const float* start, std::int64_t length, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(start) % 16 == 0 && length % 4 == 0 && stride % 4 == 0;
  };
  return aligned(problem.input, problem.columns, problem.in_stride) &&
         aligned(problem.output, problem.rows, problem.out_stride);
}

inline Support supports_float4s(const Problem& problem) {
  if (moves_in_float4s(problem)) return Support::yes();
  return Support::no(
      "needs rows and columns in multiples of 4, and rows that begin at multiples of 16 bytes");
}

}  // namespace reprolab::transpose
