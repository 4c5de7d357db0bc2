// What stands between the two calls that a peer's library needs for nested scales: memory for the
// fp32 scales, and the offset. Source: Unsloth's fast_dequantize.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace reprolab::nf4 {

static __global__ void add_offset(float* absmax, float offset, std::int64_t blocks) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block < blocks) absmax[block] = __fadd_rn(absmax[block], offset);
}

/// Where the scales of nested problems are kept between two launches. Its memory stays with it when
/// the GPU is waited for, as Unsloth's and PyTorch's buffers do: the device's own pool would give
/// it back to the driver, and every launch would pay for that.
inline cudaError_t scale_pool(cudaMemPool_t& pool) {
  static cudaMemPool_t made = nullptr;
  static const cudaError_t status = [] {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    if (const auto error = cudaGetDevice(&properties.location.id); error != cudaSuccess) {
      return error;
    }
    if (const auto error = cudaMemPoolCreate(&made, &properties); error != cudaSuccess) {
      return error;
    }
    std::uint64_t kept = UINT64_MAX;
    return cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &kept);
  }();
  pool = made;
  return status;
}

}  // namespace reprolab::nf4
