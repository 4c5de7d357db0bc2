// Nested scales in two steps, as a library with a call for each needs them: memory for the fp32
// scales between the two, and the offset. Source: Unsloth's fast_dequantize.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4 {

static __global__ void add_offset(float* absmax, float offset, std::int64_t blocks) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block < blocks) absmax[block] = __fadd_rn(absmax[block], offset);
}

/// Where the scales of nested problems are kept between two launches on the current device. Its
/// memory stays with it when the GPU is waited for, as Unsloth's and PyTorch's buffers do: the
/// device's own pool would give it back to the driver, and every launch would pay for that.
inline cudaError_t scale_pool(cudaMemPool_t& pool) {
  static std::mutex one_at_a_time;
  static std::map<int, cudaMemPool_t> made;  // by device
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  if (const auto error = cudaGetDevice(&properties.location.id); error != cudaSuccess) return error;
  const std::lock_guard lock(one_at_a_time);
  cudaMemPool_t& here = made[properties.location.id];
  if (here == nullptr) {
    cudaMemPool_t fresh = nullptr;
    if (const auto error = cudaMemPoolCreate(&fresh, &properties); error != cudaSuccess) {
      return error;
    }
    std::uint64_t kept = UINT64_MAX;
    if (const auto error = cudaMemPoolSetAttribute(fresh, cudaMemPoolAttrReleaseThreshold, &kept);
        error != cudaSuccess) {
      return error;
    }
    here = fresh;
  }
  pool = here;
  return cudaSuccess;
}

/// Calls `launch(absmax, blocks)` with memory for as many fp32 scales as the problem has blocks;
/// both enqueue on `stream`.
template <class Launch>
cudaError_t with_fp32_scales(const Problem& problem, cudaStream_t stream, Launch launch) {
  const std::int64_t blocks = (problem.n + problem.block_size - 1) / problem.block_size;
  if (blocks == 0) return cudaSuccess;
  cudaMemPool_t pool = nullptr;
  if (const auto error = scale_pool(pool); error != cudaSuccess) return error;
  float* absmax = nullptr;
  // Within a stream capture this becomes a node of the graph, which keeps the memory.
  if (const auto error = cudaMallocFromPoolAsync(reinterpret_cast<void**>(&absmax),
                                                 blocks * sizeof(float), pool, stream);
      error != cudaSuccess) {
    return error;
  }
  const cudaError_t launched = launch(absmax, blocks);
  const cudaError_t freed = cudaFreeAsync(absmax, stream);
  return launched != cudaSuccess ? launched : freed;
}

}  // namespace reprolab::nf4
