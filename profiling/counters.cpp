#include "profiling/counters.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "profiling/range_profiler.hpp"

namespace reprolab::profiling {
namespace {

/// Why one call was not counted, though CUPTI worked.
struct NotCounted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether an error of CUPTI is one of every call: of permission, of the machine, or because
/// another profiler is at work.
bool lasts(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_INITIALIZED:
      return true;
    default:  // the devices that cannot be profiled at all
      return result >= CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED &&
             result <= CUPTI_ERROR_INVALID_CHIP_NAME;
  }
}

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
    const auto call = [&] {
      work.enqueue(stream, [](std::string_view, const std::function<void()>& launch) { launch(); });
    };
    Sample sample;
    std::string reason = unavailable_;
    if (reason.empty()) {
      try {
        prepare();
        sample = count(work.name, call);
      } catch (const CuptiError& error) {
        reason = error.what();
        if (!plan_ || lasts(error.result)) unavailable_ = reason;
      } catch (const NotCounted& error) {
        reason = error.what();
      }
    }
    if (!reason.empty()) {
      warn(reason);
      call();  // what was launched while CUPTI failed may not have run
      sample.missing = all_missing(reason);
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
      const Counted counted =
          profiling::count(*cupti_, context_, *plan_, Ranges::each_kernel, call);
      if (counted.ranges + counted.dropped == 0) {
        throw NotCounted(fmt::format("counters: {} launched no kernel.", name));
      }
      if (counted.ranges + counted.dropped == 1) return evaluated(counted);
      launches_several_.insert(name);
    }
    const Counted counted =
        profiling::count(*cupti_, context_, *plan_, Ranges::the_whole_work, call);
    if (counted.ranges != 1) {
      throw NotCounted(
          fmt::format("counters: CUPTI counted {} ranges in a call of {}.", counted.ranges, name));
    }
    return evaluated(counted);
  }

  Sample evaluated(const Counted& counted) const {
    const std::vector<double> values = chip_->evaluate(*plan_, counted.image, 0);
    Sample sample;
    std::size_t i = 0;
    for (const CounterPlan::Entry& entry : plan_->entries) {
      const auto& [id, unit, meaning, names] = entry.counter;
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

  std::vector<Missing> all_missing(const std::string& reason) const {
    std::vector<Missing> missing;
    for (const Counter& counter : options_.counters) {
      missing.push_back({counter.id, counter.unit, reason});
    }
    return missing;
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
