#include "profiling/range_profiler.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

namespace reprolab::profiling {
namespace {

constexpr std::size_t max_ranges = 16;

}  // namespace

RangeProfiler::RangeProfiler(const DynamicLibrary& cupti) : CuptiCalls{.what = "counters"} {
  bind(cupti, "12.6 update 2",
       {{get_result_string, "cuptiGetResultString"},
        {initialize_, "cuptiProfilerInitialize"},
        {get_chip_name_, "cuptiDeviceGetChipName"},
        {get_counter_availability_, "cuptiProfilerGetCounterAvailability"},
        {enable_, "cuptiRangeProfilerEnable"},
        {disable_, "cuptiRangeProfilerDisable"},
        {set_config_, "cuptiRangeProfilerSetConfig"},
        {start_, "cuptiRangeProfilerStart"},
        {stop_, "cuptiRangeProfilerStop"},
        {push_range_, "cuptiRangeProfilerPushRange"},
        {pop_range_, "cuptiRangeProfilerPopRange"},
        {decode_data_, "cuptiRangeProfilerDecodeData"},
        {get_counter_data_size_, "cuptiRangeProfilerGetCounterDataSize"},
        {initialize_image_, "cuptiRangeProfilerCounterDataImageInitialize"},
        {get_counter_data_info_, "cuptiRangeProfilerGetCounterDataInfo"}});
}

void RangeProfiler::initialize() const {
  CUpti_Profiler_Initialize_Params params{};
  params.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
  check(initialize_(&params), "cuptiProfilerInitialize");
}

std::string RangeProfiler::chip(int device) const {
  CUpti_Device_GetChipName_Params params{};
  params.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE;
  params.deviceIndex = static_cast<std::size_t>(device);
  check(get_chip_name_(&params), "cuptiDeviceGetChipName");
  return params.pChipName;
}

std::vector<std::uint8_t> RangeProfiler::availability(CUcontext context) const {
  CUpti_Profiler_GetCounterAvailability_Params params{};
  params.structSize = CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE;
  params.ctx = context;
  check(get_counter_availability_(&params), "cuptiProfilerGetCounterAvailability");
  std::vector<std::uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  check(get_counter_availability_(&params), "cuptiProfilerGetCounterAvailability");
  image.resize(params.counterAvailabilityImageSize);
  return image;
}

/// Profiling of one context, from construction to the end of the scope, whatever is thrown in it.
class RangeProfiler::Session {
 public:
  Session(const RangeProfiler& cupti, CUcontext context) : cupti_(cupti) {
    CUpti_RangeProfiler_Enable_Params params{};
    params.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE;
    params.ctx = context;
    cupti_.check(cupti_.enable_(&params), "cuptiRangeProfilerEnable");
    profiler_ = params.pRangeProfilerObject;
  }

  /// After an error, the calls that are still due are made without a look at their results: the
  /// error is what matters.
  ~Session() {
    if (pushed_) pop();
    if (started_) stop();
    call(cupti_.disable_, CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
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
    cupti_.check(call(cupti_.get_counter_data_size_,
                      CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE, size),
                 "cuptiRangeProfilerGetCounterDataSize");
    std::vector<std::uint8_t> image(size.counterDataSize);
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params params{};
    params.counterDataSize = image.size();
    params.pCounterData = image.data();
    cupti_.check(call(cupti_.initialize_image_,
                      CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE, params),
                 "cuptiRangeProfilerCounterDataImageInitialize");
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
    cupti_.check(call(cupti_.set_config_, CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE, params),
                 "cuptiRangeProfilerSetConfig");
  }

  /// Runs `work` once, as a range of its own if `whole`. Returns whether every pass is through.
  bool pass(const std::function<void()>& work, bool whole) {
    cupti_.check(call(cupti_.start_, CUpti_RangeProfiler_Start_Params_STRUCT_SIZE),
                 "cuptiRangeProfilerStart");
    started_ = true;
    if (whole) {
      CUpti_RangeProfiler_PushRange_Params range{};
      range.pRangeName = "call";
      cupti_.check(
          call(cupti_.push_range_, CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE, range),
          "cuptiRangeProfilerPushRange");
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
    cupti_.check(
        call(cupti_.decode_data_, CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE, params),
        "cuptiRangeProfilerDecodeData");
    return params.numOfRangeDropped;
  }

 private:
  /// Calls a function of CUPTI for this profiler.
  template <class Params>
  CUptiResult call(CUptiResult (*function)(Params*), std::size_t size, Params& params) const {
    params.structSize = size;
    params.pRangeProfilerObject = profiler_;
    return function(&params);
  }
  template <class Params>
  CUptiResult call(CUptiResult (*function)(Params*), std::size_t size) const {
    Params params{};
    return call(function, size, params);
  }

  CUptiResult pop() {
    pushed_ = false;
    return call(cupti_.pop_range_, CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE);
  }

  CUptiResult stop(bool* is_last = nullptr) {
    started_ = false;
    CUpti_RangeProfiler_Stop_Params params{};
    const CUptiResult result =
        call(cupti_.stop_, CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE, params);
    if (is_last) *is_last = params.isAllPassSubmitted != 0;
    return result;
  }

  const RangeProfiler& cupti_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  bool started_ = false, pushed_ = false;
};

Counted RangeProfiler::count(CUcontext context, const CounterPlan& plan, Ranges ranges,
                             const std::function<void()>& work) const {
  Counted counted;
  Session session(*this, context);
  counted.image = session.new_image(plan);
  session.configure(plan, ranges, counted.image);
  // CUPTI says when it has every pass; the bound keeps a fault of it from repeating the work for
  // ever.
  for (std::size_t pass = 0; !session.pass(work, ranges == Ranges::the_whole_work); ++pass) {
    if (pass >= plan.passes) check(CUPTI_ERROR_MAX_LIMIT_REACHED, "collecting every pass");
  }
  counted.dropped = session.decode();
  CUpti_RangeProfiler_GetCounterDataInfo_Params info{};
  info.structSize = CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE;
  info.pCounterDataImage = counted.image.data();
  info.counterDataImageSize = counted.image.size();
  check(get_counter_data_info_(&info), "cuptiRangeProfilerGetCounterDataInfo");
  counted.ranges = info.numTotalRanges;
  return counted;
}

}  // namespace reprolab::profiling
