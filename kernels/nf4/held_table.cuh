// 24 registers that a thread does not need, held until after its last store, so that a kernel has
// the number of registers per thread that a statement about its occupancy assumes.
//
// ptxas has no option for "at least so many registers". But it may not drop a volatile load, and
// must keep the loaded value while it may still be used.
#pragma once

#include <cuda_runtime_api.h>

namespace reprolab::nf4 {

/// Entries of the table: all 16, then the first eight again. Each load reads four, the same for all
/// threads of a warp.
class HeldTable {
 public:
  __device__ explicit HeldTable(const float* table) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(table));
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      float4& four = held_[i];
      asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                   : "r"(address + 16 * (i % 4)));
    }
  }

  /// The use that never happens: `really` is false, which the compiler cannot prove. It would not
  /// change the table.
  __device__ void release(float* table, bool really) const {
    if (!really) return;
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(table));
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      const float4& four = held_[i];
      asm volatile("st.volatile.shared.v4.f32 [%4], {%0, %1, %2, %3};" ::"f"(four.x), "f"(four.y),
                   "f"(four.z), "f"(four.w), "r"(address + 16 * (i % 4)));
    }
  }

 private:
  float4 held_[6];
};

}  // namespace reprolab::nf4
