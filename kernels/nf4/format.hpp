// The NF4 format as the kernels see it: table, codes, scales, rounding.
// Source: bitsandbytes' 4-bit NormalFloat; the bit-exact details were determined from its output.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace reprolab::nf4 {

/// Entry `code` (0..15) of the standard table. With a constant `code` it is an immediate.
__host__ __device__ constexpr float table_entry(int code) {
  constexpr float entries[16] = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return entries[code];
}

/// The standard table as an array, to initialise __constant__ and __device__ copies.
struct Table {
  float entry[16];
};
constexpr Table standard_table() {
  Table table{};
  for (int code = 0; code < 16; ++code) table.entry[code] = table_entry(code);
  return table;
}

/// The two codes of a byte: the first weight's code is the high nibble.
__host__ __device__ constexpr unsigned first_code(std::uint8_t byte) { return byte >> 4; }
__host__ __device__ constexpr unsigned second_code(std::uint8_t byte) { return byte & 0x0Fu; }

/// Host equivalent of PTX's `.ftz`: a subnormal becomes zero of the same sign.
inline float flush_subnormal(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

/// entry * scale: one fp32 product, rounded to nearest even, subnormals flushed as by bitsandbytes'
/// fast-math. Written in PTX so that no compiler flag can change it.
__host__ __device__ inline float scaled(float entry, float scale) {
#ifdef __CUDA_ARCH__
  float product;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(entry), "f"(scale));
  return product;
#else
  return flush_subnormal(flush_subnormal(entry) * flush_subnormal(scale));
#endif
}

/// A nested scale: the product is rounded, then the sum is rounded. A fused multiply-add would give
/// other bits for 7 % of the scales.
__host__ __device__ inline float nested_scale(float entry, float second_absmax, float offset) {
  const float product = scaled(entry, second_absmax);
#ifdef __CUDA_ARCH__
  return __fadd_rn(product, offset);
#else
  return product + offset;
#endif
}

/// A nested scale by a fused multiply-add, which rounds once: not what bitsandbytes computes.
__host__ __device__ inline float fused_nested_scale(float entry, float second_absmax,
                                                    float offset) {
#ifdef __CUDA_ARCH__
  float scale;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(scale) : "f"(entry), "f"(second_absmax), "f"(offset));
  return scale;
#else
  return std::fma(entry, second_absmax, offset);
#endif
}

/// Rounded to nearest even; NaN becomes 0x7fff in both types.
template <class Out>
__host__ __device__ inline Out round_to(float value);
template <>
__host__ __device__ inline __half round_to<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__host__ __device__ inline __nv_bfloat16 round_to<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

/// Two neighbouring weights, rounded as by round_to, in one 32-bit word, the first in the low half.
template <class Out>
__device__ inline std::uint32_t packed(float first, float second) {
  if constexpr (std::is_same_v<Out, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

/// log2 of a power of two, so that dividing by a block size is a shift.
constexpr int log2_exact(int power_of_two) {
  return std::countr_zero(static_cast<unsigned>(power_of_two));
}

}  // namespace reprolab::nf4
