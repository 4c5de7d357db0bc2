// Observes the GPU's clocks, power and temperature during a measurement. Nothing here sets a clock.
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

/// One reading of the GPU's state. A value is empty if NVML does not give it.
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

/// Summary of the snapshots of a period. A range is empty if no snapshot holds the value.
struct ClockSummary {
  std::size_t snapshots = 0;
  std::optional<ClockRange> sm_mhz;
  std::optional<ClockRange> memory_mhz;
  std::optional<ClockRange> power_w;
  std::optional<ClockRange> temperature_c;
  /// Names of all reasons seen that limited a clock; idleness is not one. Empty list: none seen.
  std::optional<std::vector<std::string>> throttle_reasons;
};

/// The median of an even number of values is the mean of the two middle ones.
ClockSummary summarize(const std::vector<ClockSnapshot>& snapshots);

/// The members of `provenance.clocks` that are observed; null where NVML gives no value.
void to_json(nlohmann::json& json, const ClockSummary& summary);

/// Takes a snapshot at start(), at stop(), and once every period in between, in its own thread.
/// Without a device all values are empty, and no thread runs.
class ClockObserver {
 public:
  explicit ClockObserver(std::optional<NvmlDevice> device,
                         std::chrono::milliseconds period = std::chrono::milliseconds(20));
  ~ClockObserver();
  ClockObserver(const ClockObserver&) = delete;
  ClockObserver& operator=(const ClockObserver&) = delete;

  /// Discards the snapshots of an earlier start. Does nothing if it already runs.
  void start();
  void stop();

  /// Queries NVML now; the snapshot is not part of the summary.
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
