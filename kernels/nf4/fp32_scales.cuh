// Nested scales in two steps, for a library with one call for the scales and one for the weights:
// memory for the fp32 scales between the two calls, and the offset. Source: Unsloth's
// fast_dequantize, which keeps a buffer for each device.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/grid.hpp"
#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4 {

static __global__ void add_offset(float* absmax, float offset, std::int64_t blocks) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block < blocks) absmax[block] = __fadd_rn(absmax[block], offset);
}

/// Memory for `count` fp32 scales, which lives as long as the process. Only a launch that needs
/// more than any earlier one on its stream allocates: a kernel is verified on a problem before it
/// is timed on it, so a timed launch does not allocate.
///
/// Each stream has its own, because launches on two of them may run at once. Memory that has become
/// too small is kept, because a captured graph may still write to it. Sizes are powers of two, so
/// this at most doubles the memory.
///
/// Returns cudaErrorStreamCaptureUnsupported if a capture would have to allocate: launch once
/// outside of it.
inline cudaError_t fp32_scales(std::int64_t count, cudaStream_t stream, float*& scales) {
  struct Buffer {
    float* memory = nullptr;
    std::uint64_t count = 0;
  };
  static std::mutex one_at_a_time;
  static std::map<std::pair<int, cudaStream_t>, Buffer> buffers;  // by device and stream
  int device = 0;
  if (const auto error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const std::lock_guard lock(one_at_a_time);
  Buffer& buffer = buffers[{device, stream}];
  if (const auto wanted = static_cast<std::uint64_t>(count); buffer.count < wanted) {
    cudaStreamCaptureStatus capture{};
    if (const auto error = cudaStreamIsCapturing(stream, &capture); error != cudaSuccess) {
      return error;
    }
    if (capture != cudaStreamCaptureStatusNone) return cudaErrorStreamCaptureUnsupported;
    Buffer larger{.count = std::bit_ceil(wanted)};
    if (const auto error = cudaMalloc(&larger.memory, larger.count * sizeof(float));
        error != cudaSuccess) {
      return error;
    }
    buffer = larger;
  }
  scales = buffer.memory;
  return cudaSuccess;
}

/// Calls `launch(absmax, blocks)` with memory for as many fp32 scales as the problem has blocks;
/// both enqueue on `stream`.
template <class Launch>
cudaError_t with_fp32_scales(const Problem& problem, cudaStream_t stream, Launch launch) {
  const std::int64_t blocks = blocks_over(problem.n, problem.block_size);
  if (blocks == 0) return cudaSuccess;
  float* absmax = nullptr;
  if (const auto error = fp32_scales(blocks, stream, absmax); error != cudaSuccess) return error;
  return launch(absmax, blocks);
}

}  // namespace reprolab::nf4
