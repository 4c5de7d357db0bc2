#include "profiling/kernel_activity.hpp"

#include <cuda_occupancy.h>

#include <algorithm>
#include <climits>

namespace reprolab::profiling {

ActivitySum sum(const std::vector<KernelActivity>& kernels) {
  if (kernels.empty()) return {};
  std::uint64_t first_ns = kernels.front().start_ns, last_ns = 0, busy_ns = 0;
  for (const KernelActivity& kernel : kernels) {
    first_ns = std::min(first_ns, kernel.start_ns);
    last_ns = std::max(last_ns, kernel.end_ns);
    busy_ns += kernel.end_ns - kernel.start_ns;
  }
  return {.kernels = kernels.size(),
          .busy_us = 1e-3 * static_cast<double>(busy_ns),
          .first_ns = first_ns,
          .last_ns = last_ns};
}

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
