// Nested scales in two steps, for a library with one call for the scales and one for the weights.
// Source: Unsloth's fast_dequantize.
#pragma once

#include "kernels/kept_memory.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {

static __global__ void add_offset(float* absmax, float offset, std::int64_t blocks) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block < blocks) absmax[block] = __fadd_rn(absmax[block], offset);
}

/// Calls `launch(absmax, blocks)` with memory for as many fp32 scales as the problem has blocks;
/// both enqueue on `stream`.
template <class Launch>
cudaError_t with_fp32_scales(const Problem& problem, cudaStream_t stream, Launch launch) {
  const std::int64_t blocks = blocks_over(problem.n, problem.block_size);
  if (blocks == 0) return cudaSuccess;
  float* absmax = nullptr;
  if (const auto error = scratch_memory(blocks, stream, absmax); error != cudaSuccess) return error;
  return launch(absmax, blocks);
}

}  // namespace reprolab::nf4
