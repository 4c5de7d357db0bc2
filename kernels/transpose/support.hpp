// What transpose kernels require of a problem and of the GPU.
#pragma once

#include <cuda_runtime_api.h>

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

/// Of the current device; 0 where there is none.
inline int compute_capability_major() {
  int device = 0, major = 0;
  const bool found =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  if (!found) cudaGetLastError();
  return found ? major : 0;
}

/// For kernels that use the tensor memory accelerator (CUDA C++ Programming Guide, "Tensor maps":
/// a row stride must be a multiple of 16 bytes).
inline Support supports_tma(const Problem& problem) {
  if (compute_capability_major() < 9) {
    return Support::no("needs the tensor memory accelerator (compute capability 9.0 or newer)");
  }
  if (has_aligned_rows(problem)) return Support::yes();
  return Support::no("needs rows that begin at multiples of 16 bytes, in input and output");
}

}  // namespace reprolab::transpose
