// 24 registers that a thread has no need of, held until after its last store, so that a kernel has
// as many registers per thread as a statement about its occupancy assumes.
//
// ptxas has no option for "at least so many registers". But it may not drop a volatile load, and
// must keep what was loaded as long as a use of it may still come.
#pragma once

#include <cuda_runtime_api.h>

namespace reprolab::nf4 {

/// Entries of the table: all 16, and the first eight again. One load is of four, of the same four
/// for all threads of a warp.
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

  /// The use that never comes: `really` is false, which the compiler cannot know. It would leave
  /// the table as it is.
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
