#include "profiling/occupancy.hpp"

#include <cuda_occupancy.h>

#include <climits>

namespace reprolab::profiling {

std::optional<int> blocks_per_multiprocessor(const KernelActivity& kernel,
                                             const cudaDeviceProp& device) {
  const cudaOccDeviceProp properties(device);
  const cudaOccDeviceState state;
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = INT_MAX;
  attributes.numRegs = static_cast<int>(kernel.registers_per_thread);
  attributes.sharedSizeBytes = static_cast<std::size_t>(kernel.static_shared_bytes);
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
  cudaOccResult result;
  const int threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  if (cudaOccMaxActiveBlocksPerMultiprocessor(
          &result, &properties, &attributes, &state, threads,
          static_cast<std::size_t>(kernel.dynamic_shared_bytes)) != CUDA_OCC_SUCCESS) {
    return std::nullopt;
  }
  return result.activeBlocksPerMultiprocessor;
}

}  // namespace reprolab::profiling
