#include "profiling/clocks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "profiling/median.hpp"

namespace reprolab::profiling {
namespace {

nlohmann::json range_of(const std::vector<ClockSnapshot>& snapshots,
                        std::optional<double> ClockSnapshot::*member) {
  std::vector<double> values;
  for (const ClockSnapshot& snapshot : snapshots) {
    if (snapshot.*member) values.push_back(*(snapshot.*member));
  }
  if (values.empty()) return nullptr;
  const auto [least, greatest] = std::ranges::minmax(values);
  return {{"min", least}, {"median", median(values)}, {"max", greatest}};
}

}  // namespace

nlohmann::json summarize(const std::vector<ClockSnapshot>& snapshots) {
  nlohmann::json summary = {{"sm_mhz", range_of(snapshots, &ClockSnapshot::sm_mhz)},
                            {"memory_mhz", range_of(snapshots, &ClockSnapshot::memory_mhz)},
                            {"power_w", range_of(snapshots, &ClockSnapshot::power_w)},
                            {"temperature_c", range_of(snapshots, &ClockSnapshot::temperature_c)},
                            {"throttle_reasons", nullptr}};
  std::optional<std::uint64_t> reasons;
  for (const ClockSnapshot& snapshot : snapshots) {
    if (snapshot.event_reasons) reasons = reasons.value_or(0) | *snapshot.event_reasons;
  }
  if (reasons) {
    summary["throttle_reasons"] = decode_clock_event_reasons(*reasons & ~clock_event_gpu_idle);
  }
  return summary;
}

ClockObserver::ClockObserver(std::optional<NvmlDevice> device, std::chrono::milliseconds period)
    : device_(std::move(device)), period_(period) {
  if (!device_) return;
  keep_snapshot();
  thread_ = std::thread(&ClockObserver::observe, this);
}

ClockObserver::~ClockObserver() { stop(); }

void ClockObserver::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  keep_snapshot();
}

std::vector<ClockSnapshot> ClockObserver::snapshots() const {
  const std::lock_guard lock(mutex_);
  return snapshots_;
}

nlohmann::json ClockObserver::summary() const { return summarize(snapshots()); }

void ClockObserver::keep_snapshot() {
  const ClockSnapshot now = device_->snapshot();  // outside the lock: NVML may take a millisecond
  const std::lock_guard lock(mutex_);
  snapshots_.push_back(now);
}

void ClockObserver::observe() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period_, [this] { return stopping_; })) {
    lock.unlock();
    keep_snapshot();
    lock.lock();
  }
}

}  // namespace reprolab::profiling
