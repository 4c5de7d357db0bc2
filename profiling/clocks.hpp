// Observes the GPU's clocks, power and temperature during a measurement, and locks the SM clock.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
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

  void stop();

  std::vector<ClockSnapshot> snapshots() const;

 private:
  void keep_snapshot();
  void observe(const std::stop_token& stopping);

  std::optional<NvmlDevice> device_;
  std::chrono::milliseconds period_;
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<ClockSnapshot> snapshots_;
  std::jthread thread_;
};

/// Whether the SM clock is observed or locked, and at which value.
struct ClockPolicy {
  enum class Kind { observe, max, mhz } kind = Kind::observe;
  unsigned mhz = 0;  ///< If that is the kind.

  bool locks() const { return kind != Kind::observe; }
};

/// Reads the value of `--clocks`: "observe", "max", or megahertz. Throws std::invalid_argument with
/// the valid forms.
ClockPolicy parse_clock_policy(std::string_view text);

/// Locks a GPU's SM clock during the lifetime of this object and at most of this process. A
/// guardian, a separate process, sets and resets the lock: it outlives this process however that
/// ends, even by SIGKILL. docs/clocks.md describes the use.
class ClockLock {
 public:
  /// Starts the guardian, which locks the clock. If that fails, throws std::runtime_error with the
  /// reason, and nothing is locked. Must precede this process's first CUDA or NVML call and its
  /// first thread, because it forks; processes that are forked later do not affect the lock.
  ClockLock(const std::string& pci_bus_id, const ClockPolicy& wanted);
  /// Makes the guardian reset the clock to the driver's default, and waits. If that fails, a line
  /// on stderr reports it with the command to do it by hand.
  ~ClockLock();
  ClockLock(const ClockLock&) = delete;
  ClockLock& operator=(const ClockLock&) = delete;

  unsigned mhz() const { return mhz_; }

 private:
  std::string pci_bus_id_;
  unsigned mhz_ = 0;
  pid_t owner_, guardian_ = -1;
};

}  // namespace reprolab::profiling
