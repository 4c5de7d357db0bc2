// The instrument that reads hardware counters of a kernel's calls, but no times: replaying disturbs
// clocks and caches.
//
// If a call launches one kernel, CUPTI counts and repeats that kernel for each pass. A call that
// launches several kernels is counted as a whole and repeated for each pass, so that sums, ratios
// and rates are those of the call.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "profiling/counter_table.hpp"
#include "profiling/instrument.hpp"

namespace reprolab::profiling {

/// The current device of the CUDA runtime and the driver; tests substitute their own.
struct CountedDevice {
  std::function<int()> ordinal;
  std::function<CUcontext()> context;
  std::function<void(std::string_view what)> synchronize;  ///< Throws CudaError.

  static CountedDevice current();
};

struct CounterOptions {
  std::vector<Counter> counters;
  /// Called once for each reason, in whole sentences, that makes a call's counters unreadable. May
  /// be empty.
  std::function<void(const std::string& reason)> warn{};
};

/// Samples of this instrument have a reading for each counter, or the reason for its absence: the
/// chip lacks it, it is a ratio to zero, or CUPTI, the permission or a free GPU is missing. The
/// work is run in any case. It must be one call, enqueue the same launches each time, and give the
/// same result when repeated. The stream is not held.
std::unique_ptr<Instrument> make_counters(CounterOptions options,
                                          CountedDevice device = CountedDevice::current());

}  // namespace reprolab::profiling
