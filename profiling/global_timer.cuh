// The GPU's wall clock, shared by all its SMs.
#pragma once

#include <cstdint>

namespace reprolab::profiling {

/// Nanoseconds; in steps of 1 us on Hopper, of up to 32 us on others.
__device__ inline std::uint64_t global_timer_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace reprolab::profiling
