// Shared by the product kernels: their requirements on the GPU and on a problem, their launch, how
// tiles are split, and how a sum becomes an output.
#pragma once

#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <map>

#include "kernels/device.hpp"
#include "kernels/nf4/format.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4_product {

struct Device {
  int capability = 0;  ///< 90 for compute capability 9.0; 0 where there is no GPU.
  int multiprocessors = 0;
  int shared_bytes = 0;  ///< Maximum shared memory of a block.
};

/// Queried once per thread and GPU: every plan needs it.
inline Device current_device() {
  thread_local std::map<int, Device> devices;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  const auto [entry, is_new] = devices.try_emplace(device);
  if (is_new) {
    entry->second = {.capability = compute_capability(),
                     .multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount),
                     .shared_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)};
  }
  return entry->second;
}

inline nf4::Table table_of(const Problem& problem) {
  nf4::Table table{};
  std::copy(problem.table.begin(), problem.table.end(), table.entry);
  return table;
}

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Yes where K is a multiple of 64, arrays are aligned to 16 bytes, and the GPU has m16n8k16.
inline Support supports_matrix_operands(const Problem& problem, const Device& device) {
  if (device.capability < 80) return Support::no("needs compute capability 8.0 or newer");
  if (problem.k < 64 || problem.k % 64 != 0) return Support::no("needs k to be a multiple of 64");
  if (!is_aligned(problem.codes) || !is_aligned(problem.input)) {
    return Support::no("needs codes and input aligned to 16 bytes");
  }
  constexpr std::int64_t limit = std::int64_t{1} << 30;
  if (problem.n > limit || problem.k > limit) return Support::no("needs n and k up to 2^30");
  return Support::yes();
}

/// Yes if the code that this GPU would run was compiled for that compute capability (80 for 8.0) or
/// newer; older code is empty.
template <class... Arguments>
Support is_compiled(void (*kernel)(Arguments...), int capability) {
  if (is_compiled_for(capability, reinterpret_cast<const void*>(kernel))) return Support::yes();
  return Support::no("is not compiled for this GPU");
}

/// Calls `launch` as launch.operator()<Out, Nested>(), for the problem's type and kind of scales.
template <class Launch>
auto with_types(const Problem& problem, const Launch& launch) {
  if (problem.type == nf4::OutputType::fp16) {
    return problem.is_nested() ? launch.template operator()<__half, true>()
                               : launch.template operator()<__half, false>();
  }
  return problem.is_nested() ? launch.template operator()<__nv_bfloat16, true>()
                             : launch.template operator()<__nv_bfloat16, false>();
}

struct Launch {
  std::int64_t blocks;
  int threads, shared_bytes;
  cudaStream_t stream;
  /// Whether it may start before the previous launch has ended: it waits for that launch's output
  /// (grid_dependency_wait), but not for codes and scales. CUDA C++ Programming Guide,
  /// "Programmatic Dependent Launch".
  bool programmatic_launch = false;
};

/// More than 48 KiB of shared memory must be requested: the maximum, because another thread may
/// launch the kernel for a shape that needs more.
template <class... Arguments>
cudaError_t allow_shared_memory(void (*kernel)(Arguments...), int shared_bytes) {
  if (shared_bytes > 48 * 1024 &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           current_device().shared_bytes) != cudaSuccess) {
    return cudaGetLastError();
  }
  return cudaSuccess;
}

/// Requires allow_shared_memory() for `launch.shared_bytes`.
template <class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Arguments...), const Launch& launch,
                          const Arguments&... arguments) {
  cudaLaunchAttribute programmatic{};
  programmatic.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  programmatic.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid_of(launch.blocks);
  config.blockDim = launch.threads;
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = launch.stream;
  config.attrs = &programmatic;
  // Code for older GPUs does not wait.
  const bool waits = is_compiled_for(90, reinterpret_cast<const void*>(kernel));
  config.numAttrs = launch.programmatic_launch && waits ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
  return cudaGetLastError();
}

/// A step is 128 bytes of a row of activations; a tile's codes of one column of the output are 128
/// bytes.
inline constexpr int step_k = 64, step_bytes = step_k * 2;
inline constexpr int tile_k = 256, tile_k_bytes = tile_k / 2;
inline constexpr int tile_steps = tile_k / step_k;

/// Splits `items` into `count` ranges that differ by one at most, the larger ones first.
struct EvenSplit {
  int each = 0, larger = 0;

  __host__ __device__ EvenSplit(int items, int count)
      : each(items / count), larger(items % count) {}
  __host__ __device__ int begin(int i) const { return i * each + (i < larger ? i : larger); }
  __host__ __device__ int size(int i) const { return each + (i < larger ? 1 : 0); }
};

__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

/// Writes element `at` of the output, rounded once. The bias is added in fp32.
template <class Out>
__device__ void write_output(void* output, std::int64_t at, float sum, const void* bias,
                             std::int64_t column) {
  if (bias != nullptr) sum += to_float(static_cast<const Out*>(bias)[column]);
  static_cast<Out*>(output)[at] = nf4::round_to<Out>(sum);
}

}  // namespace reprolab::nf4_product
