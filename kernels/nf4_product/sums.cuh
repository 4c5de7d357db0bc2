// How work is shared, and how a sum becomes an output.
#pragma once

#include <cstdint>

#include "kernels/grid.hpp"
#include "kernels/nf4/format.hpp"
#include "kernels/nf4_product/device.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "kernels/nf4_product/ptx.cuh"

namespace reprolab::nf4_product {

/// Blocks of threads share the inputs in units of so many.
inline constexpr int unit_inputs = 256;

/// `count` shares of whole things, as even as can be, the larger ones first.
struct Shares {
  int each = 0, larger = 0;

  __host__ __device__ Shares(int things, int count)
      : each(things / count), larger(things % count) {}
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
