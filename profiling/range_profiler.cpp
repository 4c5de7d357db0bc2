#include "profiling/range_profiler.hpp"

#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>

#include <cstdint>

namespace reprolab::profiling {
namespace {

constexpr std::size_t max_ranges = 16;

/// Profiling of one context, from construction to the end of the scope, whatever is thrown in it.
class Session {
 public:
  Session(const CuptiProfiling& cupti, CUcontext context) : cupti_(cupti) {
    CUpti_RangeProfiler_Enable_Params params{};
    params.ctx = context;
    cupti_.call("cuptiRangeProfilerEnable", CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE, params);
    profiler_ = params.pRangeProfilerObject;
  }

  /// After an error, the calls that are still due are made without a look at their results: the
  /// error is what matters.
  ~Session() {
    if (pushed_) pop();
    if (started_) stop();
    CUpti_RangeProfiler_Disable_Params params{};
    try_call("cuptiRangeProfilerDisable", CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE, params);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// An image without values: one that was used before would add to them.
  std::vector<std::uint8_t> new_image(const CounterPlan& plan) const {
    std::vector<const char*> names = plan.names();
    CUpti_RangeProfiler_GetCounterDataSize_Params size{};
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = max_ranges;
    size.maxNumRangeTreeNodes = max_ranges;
    call("cuptiRangeProfilerGetCounterDataSize",
         CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE, size);
    std::vector<std::uint8_t> image(size.counterDataSize);
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params params{};
    params.counterDataSize = image.size();
    params.pCounterData = image.data();
    call("cuptiRangeProfilerCounterDataImageInitialize",
         CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE, params);
    return image;
  }

  /// `image` and `plan` have to outlive the session.
  void configure(const CounterPlan& plan, Ranges ranges, std::vector<std::uint8_t>& image) const {
    const bool each = ranges == Ranges::each_kernel;
    CUpti_RangeProfiler_SetConfig_Params params{};
    params.configSize = plan.config.size();
    params.pConfig = plan.config.data();
    params.counterDataImageSize = image.size();
    params.pCounterDataImage = image.data();
    params.range = each ? CUPTI_AutoRange : CUPTI_UserRange;
    params.replayMode = each ? CUPTI_KernelReplay : CUPTI_UserReplay;
    params.maxRangesPerPass = max_ranges;
    params.numNestingLevels = 1;
    params.minNestingLevel = 1;
    params.passIndex = 0;
    params.targetNestingLevel = 1;
    call("cuptiRangeProfilerSetConfig", CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE, params);
  }

  /// Runs `work` once, as a range of its own if `whole`. Returns whether every pass is through.
  bool pass(const std::function<void()>& work, bool whole) {
    CUpti_RangeProfiler_Start_Params start{};
    call("cuptiRangeProfilerStart", CUpti_RangeProfiler_Start_Params_STRUCT_SIZE, start);
    started_ = true;
    if (whole) {
      CUpti_RangeProfiler_PushRange_Params range{};
      range.pRangeName = "call";
      call("cuptiRangeProfilerPushRange", CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE, range);
      pushed_ = true;
    }
    work();
    if (whole) cupti_.check(pop(), "cuptiRangeProfilerPopRange");
    bool is_last = false;
    cupti_.check(stop(&is_last), "cuptiRangeProfilerStop");
    return is_last;
  }

  /// Returns the number of ranges that were dropped.
  std::size_t decode() const {
    CUpti_RangeProfiler_DecodeData_Params params{};
    call("cuptiRangeProfilerDecodeData", CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE, params);
    return params.numOfRangeDropped;
  }

 private:
  /// Calls a function of CUPTI for this profiler.
  template <class Params>
  CUptiResult try_call(const char* name, std::size_t size, Params& params) const {
    params.pRangeProfilerObject = profiler_;
    return cupti_.try_call(name, size, params);
  }
  template <class Params>
  void call(const char* name, std::size_t size, Params& params) const {
    cupti_.check(try_call(name, size, params), name);
  }

  CUptiResult pop() {
    pushed_ = false;
    CUpti_RangeProfiler_PopRange_Params params{};
    return try_call("cuptiRangeProfilerPopRange", CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE,
                    params);
  }

  CUptiResult stop(bool* is_last = nullptr) {
    started_ = false;
    CUpti_RangeProfiler_Stop_Params params{};
    const CUptiResult result =
        try_call("cuptiRangeProfilerStop", CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE, params);
    if (is_last) *is_last = params.isAllPassSubmitted != 0;
    return result;
  }

  const CuptiProfiling& cupti_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  bool started_ = false, pushed_ = false;
};

}  // namespace

std::vector<std::uint8_t> availability_of(const CuptiProfiling& cupti, CUcontext context) {
  CUpti_Profiler_Initialize_Params initialize{};
  cupti.call("cuptiProfilerInitialize", CUpti_Profiler_Initialize_Params_STRUCT_SIZE, initialize);
  CUpti_Profiler_GetCounterAvailability_Params params{};
  params.ctx = context;
  const auto ask = [&] {
    cupti.call("cuptiProfilerGetCounterAvailability",
               CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE, params);
  };
  ask();
  std::vector<std::uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  ask();
  image.resize(params.counterAvailabilityImageSize);
  return image;
}

Counted count(const CuptiProfiling& cupti, CUcontext context, const CounterPlan& plan,
              Ranges ranges, const std::function<void()>& work) {
  Counted counted;
  Session session(cupti, context);
  counted.image = session.new_image(plan);
  session.configure(plan, ranges, counted.image);
  // CUPTI says when it has every pass; the bound keeps a fault of it from repeating the work for
  // ever.
  for (std::size_t pass = 0; !session.pass(work, ranges == Ranges::the_whole_work); ++pass) {
    if (pass >= plan.passes) cupti.check(CUPTI_ERROR_MAX_LIMIT_REACHED, "collecting every pass");
  }
  counted.dropped = session.decode();
  CUpti_RangeProfiler_GetCounterDataInfo_Params info{};
  info.pCounterDataImage = counted.image.data();
  info.counterDataImageSize = counted.image.size();
  cupti.call("cuptiRangeProfilerGetCounterDataInfo",
             CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE, info);
  counted.ranges = info.numTotalRanges;
  return counted;
}

}  // namespace reprolab::profiling
