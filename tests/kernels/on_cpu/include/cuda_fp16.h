// __half on the host, with the reference's rounding.
#pragma once

#include <cuda_runtime_api.h>

struct __half {
  std::uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};
inline __half __float2half_rn(float value) { return {reprolab::reference::round_to_fp16(value)}; }
inline float __half2float(__half value) { return reprolab::reference::widen_fp16(value.bits); }
inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}
