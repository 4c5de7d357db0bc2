// __nv_bfloat16 on the host, with the reference's rounding.
#pragma once

#include <cuda_runtime_api.h>

struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return {reprolab::reference::round_to_bf16(value)};
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return reprolab::reference::widen_bf16(value.bits);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
