// Attributes of the current device that launches need.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <utility>

namespace reprolab {

/// An attribute of the current device; 0 where there is none.
inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess) {
    return value;
  }
  cudaGetLastError();
  return 0;
}

/// 90 for compute capability 9.0; 0 where there is no GPU.
inline int compute_capability() {
  return 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
         device_attribute(cudaDevAttrComputeCapabilityMinor);
}

/// Whether the code of a kernel that this GPU would run was compiled for that capability or newer.
/// Queried once, because every product of a model calls this.
inline bool is_compiled_for(int capability, const void* kernel) {
  thread_local std::map<std::pair<const void*, int>, int> known;
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) {
    const auto found = known.find({kernel, device});
    if (found != known.end()) return found->second >= capability;
    cudaFuncAttributes compiled{};
    if (cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess) {
      known[{kernel, device}] = compiled.ptxVersion;
      return compiled.ptxVersion >= capability;
    }
  }
  cudaGetLastError();
  return false;
}

}  // namespace reprolab
