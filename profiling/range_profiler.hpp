// CUPTI's range profiler: hardware counters of what this process launches. Needs permission to
// profile. Follows CUPTI's "Range Profiling API" (CUDA 12.6 update 2 and newer).
#pragma once

#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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

/// Members throw CuptiError if CUPTI refuses a call.
class RangeProfiler : CuptiCalls {
 public:
  /// Throws std::runtime_error if the library is too old.
  explicit RangeProfiler(const DynamicLibrary& cupti);

  /// Has to come before the other members; calls the driver.
  void initialize() const;

  /// CUPTI's name for the chip of a CUDA device: "GH100" and so on.
  std::string chip(int device) const;

  /// What can be counted in this context, for ChipCounters.
  std::vector<std::uint8_t> availability(CUcontext context) const;

  /// Counts what `work` launches in `context`, according to a plan with at least one counter.
  /// Profiling is enabled within this call only; every call has a counter image of its own. What
  /// `work` throws goes through. `work` launches at most 16 kernels that are to be told apart.
  Counted count(CUcontext context, const CounterPlan& plan, Ranges ranges,
                const std::function<void()>& work) const;

 private:
  class Session;

  decltype(&cuptiProfilerInitialize) initialize_;
  decltype(&cuptiDeviceGetChipName) get_chip_name_;
  decltype(&cuptiProfilerGetCounterAvailability) get_counter_availability_;
  decltype(&cuptiRangeProfilerEnable) enable_;
  decltype(&cuptiRangeProfilerDisable) disable_;
  decltype(&cuptiRangeProfilerSetConfig) set_config_;
  decltype(&cuptiRangeProfilerStart) start_;
  decltype(&cuptiRangeProfilerStop) stop_;
  decltype(&cuptiRangeProfilerPushRange) push_range_;
  decltype(&cuptiRangeProfilerPopRange) pop_range_;
  decltype(&cuptiRangeProfilerDecodeData) decode_data_;
  decltype(&cuptiRangeProfilerGetCounterDataSize) get_counter_data_size_;
  decltype(&cuptiRangeProfilerCounterDataImageInitialize) initialize_image_;
  decltype(&cuptiRangeProfilerGetCounterDataInfo) get_counter_data_info_;
};

}  // namespace reprolab::profiling
