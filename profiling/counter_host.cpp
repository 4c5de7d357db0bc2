#include "profiling/counter_host.hpp"

#include <cupti_target.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace reprolab::profiling {

std::string chip_of(const CuptiProfiling& cupti, int device) {
  CUpti_Device_GetChipName_Params params{};
  params.deviceIndex = static_cast<std::size_t>(device);
  cupti.call("cuptiDeviceGetChipName", CUpti_Device_GetChipName_Params_STRUCT_SIZE, params);
  return params.pChipName;
}

std::vector<const char*> CounterPlan::names() const {
  std::vector<const char*> pointers;
  for (const Entry& entry : entries) {
    if (entry.missing.empty()) pointers.push_back(entry.name.c_str());
  }
  return pointers;
}

/// CUPTI's object for a chip. Each configuration needs a new one: metrics cannot be removed.
class ChipCounters::Object {
 public:
  explicit Object(const ChipCounters& chip) : cupti_(chip.cupti_) {
    CUpti_Profiler_Host_Initialize_Params params{};
    params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    params.pChipName = chip.chip_.c_str();
    params.pCounterAvailabilityImage =
        chip.availability_.empty() ? nullptr : chip.availability_.data();
    cupti_.call("cuptiProfilerHostInitialize", CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE,
                params);
    object_ = params.pHostObject;
  }
  ~Object() {
    CUpti_Profiler_Host_Deinitialize_Params params{};
    params.pHostObject = object_;
    cupti_.try_call("cuptiProfilerHostDeinitialize",
                    CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE, params);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  /// Calls a function of CUPTI for this object.
  template <class Params>
  void call(const char* name, std::size_t size, Params& params) const {
    params.pHostObject = object_;
    cupti_.call(name, size, params);
  }

  void add(std::span<const char* const> names) const {
    std::vector<const char*> pointers(names.begin(), names.end());
    CUpti_Profiler_Host_ConfigAddMetrics_Params params{};
    params.ppMetricNames = pointers.data();
    params.numMetrics = pointers.size();
    call("cuptiProfilerHostConfigAddMetrics",
         CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE, params);
  }

 private:
  const CuptiProfiling& cupti_;
  CUpti_Profiler_Host_Object* object_ = nullptr;
};

ChipCounters::ChipCounters(const CuptiProfiling& cupti, std::string chip,
                           std::vector<std::uint8_t> availability)
    : cupti_(cupti), chip_(std::move(chip)), availability_(std::move(availability)) {
  const Object known(*this);
}

std::vector<std::uint8_t> ChipCounters::config(std::span<const char* const> names) const {
  const Object object(*this);
  object.add(names);
  CUpti_Profiler_Host_GetConfigImageSize_Params size{};
  object.call("cuptiProfilerHostGetConfigImageSize",
              CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE, size);
  std::vector<std::uint8_t> image(size.configImageSize);
  CUpti_Profiler_Host_GetConfigImage_Params get{};
  get.configImageSize = image.size();
  get.pConfigImage = image.data();
  object.call("cuptiProfilerHostGetConfigImage",
              CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE, get);
  return image;
}

std::size_t ChipCounters::passes(std::vector<std::uint8_t> config) const {
  CUpti_Profiler_Host_GetNumOfPasses_Params params{};
  params.configImageSize = config.size();
  params.pConfigImage = config.data();
  cupti_.call("cuptiProfilerHostGetNumOfPasses",
              CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE, params);
  return params.numOfPasses;
}

CounterPlan ChipCounters::plan(const std::vector<Counter>& counters) const {
  CounterPlan plan;
  for (const Counter& counter : counters) {
    CounterPlan::Entry& entry = plan.entries.emplace_back(CounterPlan::Entry{.counter = counter});
    for (const std::string& name : counter.names) {
      try {
        const char* const alone[] = {name.c_str()};
        passes(config(alone));
        entry.name = name;
        break;
      } catch (const CuptiError&) {
        // The next name, if there is one.
      }
    }
    if (entry.name.empty()) {
      entry.missing = fmt::format("{} has no metric {}", chip_, fmt::join(counter.names, " or "));
    } else if (entry.counter.unit.empty()) {
      const Object object(*this);
      CUpti_Profiler_Host_GetMetricProperties_Params params{};
      params.pMetricName = entry.name.c_str();
      object.call("cuptiProfilerHostGetMetricProperties",
                  CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE, params);
      entry.counter.unit = params.pDimUnit ? params.pDimUnit : "";
    }
  }
  if (plan.names().empty()) return plan;
  try {
    plan.config = config(plan.names());
  } catch (const CuptiError&) {
    // Each can be collected, but not all together: the first of conflicting ones are kept.
    std::vector<const char*> kept;
    for (CounterPlan::Entry& entry : plan.entries) {
      if (!entry.missing.empty()) continue;
      kept.push_back(entry.name.c_str());
      try {
        plan.config = config(kept);
      } catch (const CuptiError&) {
        kept.pop_back();
        entry.missing = fmt::format(
            "{} can be collected, but not together with the counters "
            "before it",
            entry.name);
      }
    }
  }
  plan.passes = passes(plan.config);
  return plan;
}

std::vector<double> ChipCounters::evaluate(const CounterPlan& plan,
                                           const std::vector<std::uint8_t>& image) const {
  std::vector<const char*> names = plan.names();
  const Object object(*this);
  object.add(names);
  std::vector<double> values(names.size());
  CUpti_Profiler_Host_EvaluateToGpuValues_Params params{};
  params.pCounterDataImage = image.data();
  params.counterDataImageSize = image.size();
  params.ppMetricNames = names.data();
  params.numMetrics = names.size();
  params.pMetricValues = values.data();
  object.call("cuptiProfilerHostEvaluateToGpuValues",
              CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE, params);
  return values;
}

}  // namespace reprolab::profiling
