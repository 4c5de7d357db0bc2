// CUDA's device code as host code: each thread of a block is a fiber, and blocks run one after
// another, so that a kernel's bits are checked without a GPU and without nvcc. translate.py
// rewrites what is not C++: launches, __shared__, inline PTX.
//
// The device has compute capability 7.5 (__CUDA_ARCH__ == 750), with few multiprocessors and a
// small L2, so that small problems reach the branches for large ones. Code for newer ones is not
// checked. Not emulated: time, caches, the memory model, and races. Every problem runs with the
// threads of a block in ascending order and in descending order, and shared memory is poisoned
// before each block: a missing barrier is detected only if one of the two orders then gives a wrong
// bit. Reads outside an array are not detected; CUB is replaced by plain loads and stores.
// Rounding to 16 bits is that of reference/float16.hpp.
//
// A function that is missing here does not compile; PTX that inline_ptx does not know throws
// NotEmulated: such a kernel is refused.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "reference/float16.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace on_cpu {

/// A kernel needs something that only a GPU has.
struct NotEmulated : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs a grid; `body` is one thread.
void run(const dim3& grid, const dim3& block, const std::function<void()>& body);
/// Whether later grids run the threads of a block in descending order.
void set_descending(bool descending);
void wait_for_block();
void wait_for_warp(unsigned lanes);
/// The value of lane `from` of the warp; poison if that is not among `lanes` or has ended.
std::uint64_t exchange(unsigned lanes, std::uint64_t own, unsigned from);
unsigned lane();
/// Poisons a variable in shared memory, once in each block.
void poison(void* shared, std::size_t bytes);

/// `kernel<<<grid, block, ...>>>`, whose call operator runs it.
template <class Kernel>
struct Launch {
  Kernel kernel;
  dim3 grid, block;

  Launch(Kernel kernel, dim3 grid, dim3 block, std::size_t = 0, const void* = nullptr)
      : kernel(kernel), grid(grid), block(block) {}
  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    run(grid, block, [&] { kernel(arguments...); });
  }
};

template <class T, class... Operands>
inline constexpr bool all_are = (std::is_same_v<std::remove_cvref_t<Operands>, T> && ...);

/// The instructions without which no kernel of the simpler kinds runs: arithmetic with a rounding
/// of its own, 16-byte stores, and prefetches, which no bit depends on.
template <class... Operands>
void inline_ptx(std::string_view ptx, Operands&&... operands) {
  const auto place = std::tie(operands...);
  if (ptx.starts_with("prefetch.global")) return;
  if constexpr (sizeof...(Operands) == 3 && all_are<float, Operands...>) {
    if (ptx == "mul.rn.ftz.f32 %0, %1, %2;") {
      using reprolab::reference::flush_subnormal;
      std::get<0>(place) = flush_subnormal(flush_subnormal(std::get<1>(place)) *
                                           flush_subnormal(std::get<2>(place)));
      return;
    }
  }
  if constexpr (sizeof...(Operands) == 4 && all_are<float, Operands...>) {
    if (ptx == "fma.rn.f32 %0, %1, %2, %3;") {
      std::get<0>(place) = std::fma(std::get<1>(place), std::get<2>(place), std::get<3>(place));
      return;
    }
  }
  if constexpr (sizeof...(Operands) == 5) {
    using To = std::remove_cvref_t<std::tuple_element_t<0, std::tuple<Operands...>>>;
    if constexpr (std::is_same_v<To, float4*> || std::is_same_v<To, uint4*>) {
      if (ptx.starts_with("st.global.v4.")) {
        *std::get<0>(place) = {std::get<1>(place), std::get<2>(place), std::get<3>(place),
                               std::get<4>(place)};
        return;
      }
    }
  }
  throw NotEmulated("inline PTX: " + std::string(ptx.substr(0, ptx.find_first_of(" ;"))));
}

}  // namespace on_cpu

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

[[noreturn]] inline std::size_t __cvta_generic_to_shared(const void*) {
  throw on_cpu::NotEmulated("__cvta_generic_to_shared");
}
inline void __syncthreads() { on_cpu::wait_for_block(); }
inline void __syncwarp(unsigned lanes = ~0u) { on_cpu::wait_for_warp(lanes); }
template <class T>
T __shfl_sync(unsigned lanes, T own, int from) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<T>(static_cast<std::uint32_t>(on_cpu::exchange(
      lanes, std::bit_cast<std::uint32_t>(own), static_cast<unsigned>(from) % 32)));
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T own, int mask) {
  return __shfl_sync(lanes, own, static_cast<int>(on_cpu::lane()) ^ mask);
}

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return result;
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned bits) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (bits < 32 ? bits : 32));
}

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900
};
using cudaStream_t = struct Stream*;
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrL2CacheSize,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone };
struct cudaFuncAttributes {
  int ptxVersion = 75;
};

cudaError_t cudaGetLastError();
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  constexpr int values[] = {4, 1 << 20, 7, 5};
  return *value = values[attribute], cudaSuccess;
}
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  return *attributes = {}, cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  *memory = static_cast<T*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return cudaSuccess;
}
