#include "profiling/counters.hpp"

#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "profiling/counter_host.hpp"

namespace reprolab::profiling {
namespace {

/// The launches that are counted together, and how they are repeated for every pass of the plan.
enum class Ranges {
  /// Each kernel separately, repeated by CUPTI, which restores the memory that the kernel wrote.
  /// Kernels run one at a time.
  each_kernel,
  /// All launches of the work as one range; the work is repeated for each pass.
  the_whole_work,
};

/// The decoded counters of some ranges; ChipCounters::evaluate gives their values.
struct Counted {
  std::vector<std::uint8_t> image{};
  std::size_t ranges = 0;   ///< In the image.
  std::size_t dropped = 0;  ///< Ranges that did not fit.
};

constexpr std::size_t max_ranges = 16;  // distinguished in a call

/// Profiling of one context during this object's lifetime, also if an exception is thrown.
class Session {
 public:
  Session(const CuptiProfiling& cupti, CUcontext context) : cupti_(cupti) {
    CUpti_RangeProfiler_Enable_Params params{};
    params.ctx = context;
    cupti_.call("cuptiRangeProfilerEnable", CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE, params);
    profiler_ = params.pRangeProfilerObject;
  }

  /// After an error, the remaining calls are made without checking their results: the first error
  /// counts.
  ~Session() {
    if (pushed_) pop();
    if (started_) stop();
    CUpti_RangeProfiler_Disable_Params params{};
    try_call("cuptiRangeProfilerDisable", CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE, params);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// An image without values: a used one would add to its values.
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

  /// `image` and `plan` must outlive the session.
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
    params.targetNestingLevel = 1;
    call("cuptiRangeProfilerSetConfig", CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE, params);
  }

  /// Runs `work` once, as one range if `whole`. Returns whether every pass is complete.
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

/// The counters that are available in this context, for ChipCounters. Calls the driver; must be
/// called before count_ranges().
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

/// Counts what `work` launches in `context`, according to a plan with at least one counter.
/// Profiling is enabled within this call only; every call has a counter image of its own.
/// Exceptions of `work` pass through.
Counted count_ranges(const CuptiProfiling& cupti, CUcontext context, const CounterPlan& plan,
                     Ranges ranges, const std::function<void()>& work) {
  Counted counted;
  Session session(cupti, context);
  counted.image = session.new_image(plan);
  session.configure(plan, ranges, counted.image);
  // CUPTI reports when every pass is complete; the bound ends the loop if it never does.
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

/// Why one call was not counted, though CUPTI worked.
struct NotCounted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Counters : public Instrument {
 public:
  Counters(CounterOptions options, CountedDevice device)
      : options_(std::move(options)), device_(std::move(device)) {
    try {
      cupti_.emplace(CuptiCalls{.what = "counters"}.open());
    } catch (const std::runtime_error& error) {
      unavailable_ = error.what();
      warn(unavailable_);
    }
  }

  InstrumentKind kind() const override { return InstrumentKind::counters; }

  Sample measure(const Work& work, cudaStream_t stream) override {
    if (work.calls != 1) {
      throw std::logic_error(work.name + ": counters are read of one call at a time");
    }
    const auto call = [&] { work.enqueue(stream, only_launch); };
    Sample sample;
    std::string reason = unavailable_;
    if (reason.empty()) {
      try {
        prepare();
        sample = count(work.name, call);
      } catch (const CuptiError& error) {
        reason = error.what();
        if (!plan_) unavailable_ = reason;
      } catch (const NotCounted& error) {
        reason = error.what();
      }
    }
    if (!reason.empty()) {
      warn(reason);
      call();  // launches during CUPTI's failure may not have run
      for (const auto& [id, unit, names] : options_.counters) {
        sample.missing.push_back({id, unit, reason});
      }
    }
    device_.synchronize(work.name);
    return sample;
  }

 private:
  /// Needs a context, so it is done at the first call.
  void prepare() {
    if (plan_) return;
    context_ = device_.context();
    const auto availability = availability_of(*cupti_, context_);
    chip_.emplace(*cupti_, chip_of(*cupti_, device_.ordinal()), availability);
    plan_ = chip_->plan(options_.counters);
  }

  Sample count(const std::string& name, const std::function<void()>& call) {
    if (plan_->names().empty()) throw NotCounted("counters: the chip has none of those asked for.");
    if (!launches_several_.contains(name)) {
      const Counted counted = count_ranges(*cupti_, context_, *plan_, Ranges::each_kernel, call);
      if (counted.ranges + counted.dropped == 0) {
        throw NotCounted(fmt::format("counters: {} launched no kernel.", name));
      }
      if (counted.ranges + counted.dropped == 1) return evaluated(counted);
      launches_several_.insert(name);
    }
    const Counted counted = count_ranges(*cupti_, context_, *plan_, Ranges::the_whole_work, call);
    if (counted.ranges != 1) {
      throw NotCounted(
          fmt::format("counters: CUPTI counted {} ranges in a call of {}.", counted.ranges, name));
    }
    return evaluated(counted);
  }

  Sample evaluated(const Counted& counted) const {
    const std::vector<double> values = chip_->evaluate(*plan_, counted.image);
    Sample sample;
    std::size_t i = 0;
    for (const CounterPlan::Entry& entry : plan_->entries) {
      const auto& [id, unit, names] = entry.counter;
      if (!entry.missing.empty()) {
        sample.missing.push_back({id, unit, entry.missing});
      } else if (const double value = values.at(i++); std::isfinite(value)) {
        sample.readings.push_back({id, unit, value});
      } else {
        sample.missing.push_back(
            {id, unit, "is a ratio to zero: nothing of that kind happened in the call"});
      }
    }
    return sample;
  }

  void warn(const std::string& reason) {
    if (warned_.insert(reason).second && options_.warn) options_.warn(reason);
  }

  CounterOptions options_;
  CountedDevice device_;
  std::optional<CuptiProfiling> cupti_;
  std::string unavailable_;  ///< Why no counter can be read; empty as long as that may succeed.
  std::set<std::string> warned_;
  CUcontext context_ = nullptr;
  std::optional<ChipCounters> chip_;
  std::optional<CounterPlan> plan_;
  std::set<std::string> launches_several_;  ///< Kernels whose calls are counted as a whole.
};

/// The context that the runtime uses for the current device.
CUcontext current_context() {
  check(cudaFree(nullptr), "making a CUDA context");
  std::string why_not;
  const auto driver = DynamicLibrary::open({"libcuda.so.1"}, &why_not);
  decltype(&cuCtxGetCurrent) get_current = nullptr;
  CUcontext context = nullptr;
  if (!driver || !driver->bind({{get_current, "cuCtxGetCurrent"}}).empty() ||
      get_current(&context) != CUDA_SUCCESS) {
    throw NotCounted("counters: the driver does not name its CUDA context.");
  }
  return context;
}

int current_ordinal() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  return device;
}

}  // namespace

CountedDevice CountedDevice::current() {
  return {current_ordinal, current_context,
          [](std::string_view what) { check(cudaDeviceSynchronize(), std::string(what)); }};
}

std::unique_ptr<Instrument> make_counters(CounterOptions options, CountedDevice device) {
  return std::make_unique<Counters>(std::move(options), std::move(device));
}

}  // namespace reprolab::profiling
