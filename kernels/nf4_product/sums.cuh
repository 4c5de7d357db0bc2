// How work is shared, how a sum becomes an output, and how blocks of threads that each have a part
// of it add the parts.
#pragma once

#include <cstdint>

#include "kernels/nf4/format.hpp"

namespace reprolab::nf4_product {

/// `count` shares of whole things, as even as can be, the larger ones first.
struct Shares {
  int each = 0, larger = 0;

  Shares(int things, int count) : each(things / count), larger(things % count) {}
  __host__ __device__ int begin(int i) const { return i * each + (i < larger ? i : larger); }
  __host__ __device__ int size(int i) const { return each + (i < larger ? 1 : 0); }
  int max() const { return size(0); }
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

/// Called by all threads of `parts` blocks when they have written their parts to memory: `add` runs
/// in the last block alone, which sees all of them. `arrivals` is zero again afterwards.
template <class Add>
__device__ void add_parts_in_last_block(unsigned* arrivals, int parts, Add add) {
  __threadfence();
  __syncthreads();
  bool is_last = false;
  if (threadIdx.x == 0) {
    is_last = atomicAdd(arrivals, 1u) + 1 == static_cast<unsigned>(parts);
    if (is_last) *arrivals = 0;
  }
  if (!__syncthreads_or(is_last)) return;
  __threadfence();
  add();
}

}  // namespace reprolab::nf4_product
