#include "profiling/clocks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/median.hpp"

namespace reprolab::profiling {
namespace {

std::optional<ClockRange> range_of(const std::vector<ClockSnapshot>& snapshots,
                                   std::optional<double> ClockSnapshot::*member) {
  std::vector<double> values;
  for (const ClockSnapshot& snapshot : snapshots) {
    if (snapshot.*member) values.push_back(*(snapshot.*member));
  }
  if (values.empty()) return std::nullopt;
  const auto [least, greatest] = std::ranges::minmax(values);
  return ClockRange{least, median(values), greatest};
}

nlohmann::json range_json(const std::optional<ClockRange>& range) {
  if (!range) return nullptr;
  return {{"min", range->min}, {"median", range->median}, {"max", range->max}};
}

}  // namespace

ClockSummary summarize(const std::vector<ClockSnapshot>& snapshots) {
  ClockSummary summary;
  summary.snapshots = snapshots.size();
  summary.sm_mhz = range_of(snapshots, &ClockSnapshot::sm_mhz);
  summary.memory_mhz = range_of(snapshots, &ClockSnapshot::memory_mhz);
  summary.power_w = range_of(snapshots, &ClockSnapshot::power_w);
  summary.temperature_c = range_of(snapshots, &ClockSnapshot::temperature_c);
  std::optional<std::uint64_t> reasons;
  for (const ClockSnapshot& snapshot : snapshots) {
    if (snapshot.event_reasons) reasons = reasons.value_or(0) | *snapshot.event_reasons;
  }
  if (reasons) {
    summary.throttle_reasons = decode_clock_event_reasons(*reasons & ~clock_event_gpu_idle);
  }
  return summary;
}

void to_json(nlohmann::json& json, const ClockSummary& summary) {
  json = {{"sm_mhz", range_json(summary.sm_mhz)},
          {"memory_mhz", range_json(summary.memory_mhz)},
          {"power_w", range_json(summary.power_w)},
          {"temperature_c", range_json(summary.temperature_c)},
          {"throttle_reasons", nullptr}};
  if (summary.throttle_reasons) json["throttle_reasons"] = *summary.throttle_reasons;
}

ClockObserver::ClockObserver(std::optional<NvmlDevice> device, std::chrono::milliseconds period)
    : device_(std::move(device)), period_(period) {}

ClockObserver::~ClockObserver() { stop(); }

void ClockObserver::start() {
  if (!device_ || thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    snapshots_.clear();
    stopping_ = false;
  }
  keep_snapshot();
  thread_ = std::thread(&ClockObserver::observe, this);
}

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

ClockSnapshot ClockObserver::snapshot() const {
  if (!device_) return {};
  return {device_->sm_clock_mhz(), device_->memory_clock_mhz(), device_->power_w(),
          device_->temperature_c(), device_->clock_event_reasons()};
}

ClockSummary ClockObserver::summary() const {
  const std::lock_guard lock(mutex_);
  return summarize(snapshots_);
}

void ClockObserver::keep_snapshot() {
  const ClockSnapshot now = snapshot();  // outside the lock: NVML may take a millisecond
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
