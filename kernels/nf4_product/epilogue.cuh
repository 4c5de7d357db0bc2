// The epilogue: how an fp32 sum becomes an output.
#pragma once

#include <cstdint>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4_product/ptx.cuh"

namespace reprolab::nf4_product {

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
