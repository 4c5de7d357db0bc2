// CUPTI's range profiler: hardware counters of what this process launches. Needs permission to
// profile. Follows CUPTI's "Range Profiling API" (CUDA 12.6 update 2 and newer).
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "profiling/counter_host.hpp"

namespace reprolab::profiling {

/// What is counted together, and who repeats it until every pass of the plan is through.
enum class Ranges {
  /// Each kernel by itself, repeated by CUPTI, which puts back the memory that the kernel wrote.
  /// Kernels run one at a time.
  each_kernel,
  /// All that the work launches, as one range; the work is done again for each pass.
  the_whole_work,
};

/// The decoded counters of some ranges; ChipCounters::evaluate gives their values.
struct Counted {
  std::vector<std::uint8_t> image{};
  std::size_t ranges = 0;   ///< In the image.
  std::size_t dropped = 0;  ///< Ranges for which it had no room.
};

/// What can be counted in this context, for ChipCounters. Calls the driver, and has to come before
/// count(). Throws CuptiError, as count() does.
std::vector<std::uint8_t> availability_of(const CuptiProfiling& cupti, CUcontext context);

/// Counts what `work` launches in `context`, according to a plan with at least one counter.
/// Profiling is enabled within this call only; every call has a counter image of its own. What
/// `work` throws goes through. `work` launches at most 16 kernels that are to be told apart.
Counted count(const CuptiProfiling& cupti, CUcontext context, const CounterPlan& plan,
              Ranges ranges, const std::function<void()>& work);

}  // namespace reprolab::profiling
