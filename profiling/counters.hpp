// The instrument that reads hardware counters of a kernel's calls, and no times: replaying disturbs
// clocks and caches.
//
// A call that launches one kernel is counted around that kernel, which CUPTI repeats for each pass.
// A call that launches several is counted as a whole and made again for each pass, so that sums,
// ratios and rates are those of the call.
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

/// The current device, as the CUDA runtime and the driver have it; tests bring their own.
struct CountedDevice {
  std::function<int()> ordinal;
  std::function<CUcontext()> context;
  std::function<void(std::string_view what)> synchronize;  ///< Throws CudaError.

  static CountedDevice current();
};

struct CounterOptions {
  std::vector<Counter> counters;
  /// Called once for each reason, whole sentences, for which no counter of a call can be read. May
  /// be empty.
  std::function<void(const std::string& reason)> warn{};
};

/// Samples of this instrument have a reading for each counter, or say why it is missing: one that
/// the chip lacks, one that is a ratio to zero, or all of them where CUPTI, the permission or a
/// free GPU is missing. The work is done in any case. It must consist of one call, enqueue the same
/// work whenever it is asked to, and give the same result when that is repeated. The stream is not
/// held.
std::unique_ptr<Instrument> make_counters(CounterOptions options,
                                          CountedDevice device = CountedDevice::current());

}  // namespace reprolab::profiling
