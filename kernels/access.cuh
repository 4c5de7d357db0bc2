// How a kernel's loads and stores treat the caches.
#pragma once

#include <cstdint>

namespace reprolab {

/// The hardware's default caching.
struct PlainAccess {
  template <class T>
  __device__ T load(const T* from) const {
    return __ldg(from);
  }
  __device__ void store(float* to, float value) const { *to = value; }
  __device__ void store(float4* to, float4 value) const {
    // In PTX, because nvcc 13.0 splits a plain assignment into four float stores when the kernel
    // also stores single elements, as at the ends of a window.
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.x), "f"(value.y),
                 "f"(value.z), "f"(value.w)
                 : "memory");
  }
};

/// For data that is used only once: the caches need not keep it.
struct StreamingAccess {
  template <class T>
  __device__ T load(const T* from) const {
    return __ldcs(from);
  }
  template <class T>
  __device__ void store(T* to, T value) const {
    __stcs(to, value);
  }
};

/// Asks L2 to keep the data that is read (PTX ISA, "Cache eviction priority hints"). Below compute
/// capability 8.0, the same as PlainAccess.
class KeepReads : public PlainAccess {
 public:
  __device__ KeepReads() {
#if __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy_));
#endif
  }
  __device__ float4 load(const float4* from) const {
#if __CUDA_ARCH__ >= 800
    float4 value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from), "l"(policy_));
    return value;
#else
    return __ldg(from);
#endif
  }
  __device__ std::uint32_t load(const std::uint32_t* from) const {
#if __CUDA_ARCH__ >= 800
    std::uint32_t value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.u32 %0, [%1], %2;"
                 : "=r"(value)
                 : "l"(from), "l"(policy_));
    return value;
#else
    return __ldg(from);
#endif
  }
  __device__ float load(const float* from) const {
#if __CUDA_ARCH__ >= 800
    float value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;"
                 : "=f"(value)
                 : "l"(from), "l"(policy_));
    return value;
#else
    return __ldg(from);
#endif
  }

 private:
  std::uint64_t policy_ = 0;
};

}  // namespace reprolab
