// Watches what the GPU's clocks, power and temperature do while something else is measured.
// It observes only: nothing here sets a clock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "profiling/nvml.hpp"

namespace reprolab::profiling {

/// One look at the GPU. A value is empty where NVML does not give it.
struct ClockSnapshot {
  std::optional<double> sm_mhz;
  std::optional<double> memory_mhz;
  std::optional<double> power_w;
  std::optional<double> temperature_c;
  std::optional<std::uint64_t> event_reasons;  ///< Mask, see decode_clock_event_reasons.
};

struct ClockRange {
  double min = 0, median = 0, max = 0;
};

/// A period's snapshots in short. A range is empty when no snapshot holds the value.
struct ClockSummary {
  std::size_t snapshots = 0;
  std::optional<ClockRange> sm_mhz;
  std::optional<ClockRange> memory_mhz;
  std::optional<ClockRange> power_w;
  std::optional<ClockRange> temperature_c;
  /// Every reason seen that held a clock down, by name; idleness is none. Empty list: none seen.
  std::optional<std::vector<std::string>> throttle_reasons;
};

/// Median: the mean of the two middle values when their number is even.
ClockSummary summarize(const std::vector<ClockSnapshot>& snapshots);

/// The members of `provenance.clocks` that are observed; null where NVML is silent.
void to_json(nlohmann::json& json, const ClockSummary& summary);

/// Takes a snapshot at start(), at stop(), and once every period between them, in a thread of its
/// own. Without a device all values are empty, and no thread runs.
class ClockObserver {
 public:
  explicit ClockObserver(std::optional<NvmlDevice> device,
                         std::chrono::milliseconds period = std::chrono::milliseconds(20));
  ~ClockObserver();
  ClockObserver(const ClockObserver&) = delete;
  ClockObserver& operator=(const ClockObserver&) = delete;

  /// Forgets the snapshots of an earlier start. Nothing happens when it already runs.
  void start();
  void stop();

  /// Asks NVML at this moment; not part of the summary.
  ClockSnapshot snapshot() const;

  ClockSummary summary() const;

 private:
  void keep_snapshot();
  void observe();

  std::optional<NvmlDevice> device_;
  std::chrono::milliseconds period_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<ClockSnapshot> snapshots_;
  std::thread thread_;
};

}  // namespace reprolab::profiling
