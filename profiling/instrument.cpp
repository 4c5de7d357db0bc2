#include "profiling/instrument.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "profiling/basics.hpp"

namespace reprolab::profiling {
namespace {

class NoInstrument : public Instrument {
 public:
  InstrumentKind kind() const override { return InstrumentKind::none; }

  /// Does not hold the stream, because a profiler may serialize kernels.
  Sample measure(const Work& work, cudaStream_t stream) override {
    work.enqueue(stream, only_launch);
    check(cudaDeviceSynchronize(), work.name);
    return {};
  }
};

class Events : public Instrument {
 public:
  InstrumentKind kind() const override { return InstrumentKind::events; }

  Sample measure(const Work& work, cudaStream_t stream) override {
    Sample sample;
    sample.held = run(work, only_launch, stream);
    if (!sample.held) return sample;  // its time would include launch latencies
    const double us = sample.held->us / (work.per_call ? work.calls : 1);
    sample.readings = {{"kernel_time", "us", us}};
    return sample;
  }
};

class Activity : public Instrument {
 public:
  InstrumentKind kind() const override { return InstrumentKind::activity; }

  Sample measure(const Work& work, cudaStream_t stream) override {
    check(cudaDeviceSynchronize(), "waiting for what was launched in between");
    recorder_.discard();
    std::vector<std::string> metrics;  // indexed by tag
    const auto held = run(
        work,
        [&](std::string_view metric, const std::function<void()>& launch) {
          const ScopedTag tag(recorder_, metrics.size());
          metrics.emplace_back(metric);
          launch();
        },
        stream);
    Sample sample = read(work, metrics);
    sample.held = held;
    return sample;
  }

 private:
  Sample read(const Work& work, const std::vector<std::string>& metrics) {
    Sample sample;
    try {
      sample = read_activity(work, metrics, recorder_.flush());
    } catch (const NotMeasured& fault) {
      sample.lost = fault.what();
    }
    for (auto& call : sample.launched) {
      for (KernelActivity& activity : call) {
        if (!activity.is_kernel) continue;
        activity.blocks_per_multiprocessor = blocks_per_multiprocessor(activity, device());
      }
    }
    return sample;
  }

  const cudaDeviceProp& device() {
    if (!device_) {
      int current = 0;
      check(cudaGetDevice(&current), "asking for the current GPU");
      check(cudaGetDeviceProperties(&device_.emplace(), current), "asking for its properties");
    }
    return *device_;
  }

  ActivityRecorder recorder_;
  std::optional<cudaDeviceProp> device_;  ///< Read when it is first needed, because it calls CUDA.
};

}  // namespace

Sample read_activity(const Work& work, const std::vector<std::string>& metrics,
                     std::vector<KernelActivity> recorded) {
  std::vector<std::vector<KernelActivity>> calls(metrics.size());
  std::vector<KernelActivity> tagged, untagged;
  for (KernelActivity& activity : recorded) {
    if (!activity.tag) {
      untagged.push_back(std::move(activity));
    } else if (!metrics.at(*activity.tag).empty()) {
      tagged.push_back(activity);
      calls.at(*activity.tag).push_back(std::move(activity));
    }
  }
  Sample sample;
  std::size_t counted = 0, silent = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    counted += !metrics[i].empty();
    silent += !metrics[i].empty() && calls[i].empty();
  }
  if (silent > 0) {
    sample.foreign = static_cast<int>(untagged.size());
    sample.lost = fmt::format(
        "CUPTI recorded no work for {} of {} calls; a time that leaves them out is meaningless; "
        "run again",
        silent, counted);
    return sample;
  }
  std::map<std::string, double> us;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (metrics[i].empty()) continue;
    us[metrics[i]] += sum(calls[i]).busy_us;
    if (metrics[i] == "kernel_time") sample.launched.push_back(std::move(calls[i]));
  }
  for (const auto& [metric, time] : us) {
    sample.readings.push_back({metric, "us", time / (work.per_call ? work.calls : 1)});
  }
  const ActivitySum all = sum(tagged);
  sample.span_us = all.span_us();
  sample.foreign = static_cast<int>(std::ranges::count_if(untagged, [&](const auto& activity) {
    return activity.start_ns >= all.first_ns && activity.start_ns < all.last_ns;
  }));
  return sample;
}

std::optional<BatchTime> Instrument::run(const Work& work, const Call& call, cudaStream_t stream) {
  const auto enqueue = [&](cudaStream_t on) { work.enqueue(on, call); };
  if (work.held) {
    if (!timer_) timer_ = std::make_unique<EventTimer>();
    Batch batch{.enqueue = enqueue};  // the harness's own work around it is not timed
    if (work.while_blocked) batch.while_blocked = [&] { call("", work.while_blocked); };
    if (work.after_stop) {
      batch.after_stop = [&](cudaStream_t on) { call("", [&] { work.after_stop(on); }); };
    }
    std::optional<BatchTime> held;
    call("", [&] { held = timer_->time(batch, stream); });  // of which the timer's own kernel is
    return held;
  }
  enqueue(stream);
  check(cudaDeviceSynchronize(), work.name);
  return std::nullopt;
}

std::unique_ptr<Instrument> make_instrument(InstrumentKind kind) {
  switch (kind) {
    case InstrumentKind::none:
      return std::make_unique<NoInstrument>();
    case InstrumentKind::events:
      return std::make_unique<Events>();
    case InstrumentKind::activity:
      return std::make_unique<Activity>();
    case InstrumentKind::counters:
      break;  // make_counters() knows which
  }
  throw std::logic_error("no such instrument");
}

}  // namespace reprolab::profiling
