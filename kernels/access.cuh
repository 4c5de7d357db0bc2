// The cache policies of a kernel's loads and stores. PTX ISA, "Cache Operators" and "Cache Eviction
// Priority Hints". Loads are of 1, 4, 8 or 16 bytes that nothing writes while the kernel runs.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace reprolab {

/// The hardware's default caching.
struct PlainAccess {
  template <class T>
  __device__ T load(const T* from) const {
    return __ldg(from);
  }
  __device__ void store(float* to, float value) const { *to = value; }
  __device__ void store(float4* to, float4 value) const {
    // In PTX, because nvcc 13.0 splits a plain assignment into four float stores if the kernel also
    // stores single elements, such as at the ends of a window.
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.x), "f"(value.y),
                 "f"(value.z), "f"(value.w)
                 : "memory");
  }
  __device__ void store(uint4* to, uint4 value) const {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x), "r"(value.y),
                 "r"(value.z), "r"(value.w)
                 : "memory");
  }
};

/// For data that is used once: the caches need not keep it.
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

/// Loads that leave nothing in L1.
struct PassL1 : PlainAccess {
  __device__ std::uint32_t load(const std::uint32_t* from) const {
    std::uint32_t value;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(from));
    return value;
  }
  __device__ uint2 load(const uint2* from) const {
    uint2 value;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(value.x), "=r"(value.y)
                 : "l"(from));
    return value;
  }
  __device__ uint4 load(const uint4* from) const {
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from));
    return value;
  }
};

/// Loads that leave nothing in L1, and that ask L2 to keep the data. Below compute capability 8.0,
/// the same as PlainAccess.
class KeepReads : public PlainAccess {
 public:
  template <class T>
  __device__ T load(const T* from) const {
#if __CUDA_ARCH__ >= 800
    using Wide = std::conditional_t<sizeof(T) == 8, uint2, uint4>;
    using Narrow = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint32_t>;
    using Bits = std::conditional_t<(sizeof(T) > 4), Wide, Narrow>;
    static_assert(sizeof(Bits) == sizeof(T));
    const Bits bits = load_bits(reinterpret_cast<const Bits*>(from));
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
#else
    return __ldg(from);
#endif
  }

 private:
#if __CUDA_ARCH__ >= 800
  __device__ std::uint8_t load_bits(const std::uint8_t* from) const {
    std::uint16_t bits;  // there is no operand of one byte
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.u8 %0, [%1], %2;"
                 : "=h"(bits)
                 : "l"(from), "l"(policy_));
    return static_cast<std::uint8_t>(bits);
  }
  __device__ std::uint32_t load_bits(const std::uint32_t* from) const {
    std::uint32_t bits;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.u32 %0, [%1], %2;"
                 : "=r"(bits)
                 : "l"(from), "l"(policy_));
    return bits;
  }
  __device__ uint2 load_bits(const uint2* from) const {
    uint2 bits;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;"
                 : "=r"(bits.x), "=r"(bits.y)
                 : "l"(from), "l"(policy_));
    return bits;
  }
  __device__ uint4 load_bits(const uint4* from) const {
    uint4 bits;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(from), "l"(policy_));
    return bits;
  }
#endif

  __device__ static std::uint64_t evict_last() {
    std::uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
    return policy;
  }

  std::uint64_t policy_ = evict_last();
};

/// Prefetches to L2, by all threads of a block together, `array[first]` to `array[first + count -
/// 1]` as far as they are before `array[size]`. One request per cache line.
template <int Threads, class T, class Index>
__device__ void prefetch_to_l2(const T* array, Index first, unsigned count, Index size) {
  constexpr unsigned line = 128 / sizeof(T);
#pragma unroll 1
  for (unsigned i = threadIdx.x * line; i < count; i += Threads * line) {
    if (first + i < size) asm volatile("prefetch.global.L2 [%0];" ::"l"(array + (first + i)));
  }
}

}  // namespace reprolab
