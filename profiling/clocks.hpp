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

/// The observed members of `provenance.clocks`, from the snapshots of a period: minimum, median and
/// maximum of each value; null if NVML gave none. `throttle_reasons` are the names of all observed
/// reasons that limited a clock, without idleness.
nlohmann::json summarize(const std::vector<ClockSnapshot>& snapshots);

/// Takes a snapshot at construction, at stop(), and once every period in between, in its own
/// thread. Without a device all values are empty, and no thread runs.
class ClockObserver {
 public:
  explicit ClockObserver(std::optional<NvmlDevice> device,
                         std::chrono::milliseconds period = std::chrono::milliseconds(20));
  ~ClockObserver();
  ClockObserver(const ClockObserver&) = delete;
  ClockObserver& operator=(const ClockObserver&) = delete;

  void stop();

  std::vector<ClockSnapshot> snapshots() const;
  nlohmann::json summary() const;

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
