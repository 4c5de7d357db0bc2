// Locks a GPU's SM clock during the lifetime of this object and at most of this process. A
// guardian, a separate process, sets and resets the lock: it outlives this process however that
// ends, even by SIGKILL. docs/clocks.md describes the use.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace reprolab::profiling {

/// Whether the SM clock is observed or locked, and at which value.
struct ClockPolicy {
  enum class Kind { observe, max, mhz } kind = Kind::observe;
  unsigned mhz = 0;  ///< If that is the kind.

  bool locks() const { return kind != Kind::observe; }
};

/// Reads the value of `--clocks`: "observe", "max", or megahertz. Throws std::invalid_argument with
/// the valid forms.
ClockPolicy parse_clock_policy(std::string_view text);

/// The GPU by CUDA's identifiers: CUDA and NVML number GPUs differently.
struct GpuAddress {
  std::string pci_bus_id, uuid;
};

/// The clock in MHz that `wanted`, which must lock, means on this GPU. Throws std::runtime_error if
/// NVML or the GPU cannot lock; for an unavailable clock it names the nearest one.
unsigned clock_to_lock(const GpuAddress& gpu, const ClockPolicy& wanted);

class ClockLock {
 public:
  /// Starts the guardian, which locks the clock. If that fails, throws std::runtime_error with the
  /// reason, and nothing is locked. Must precede this process's first CUDA or NVML call and its
  /// first thread, because it forks; processes that are forked later do not affect the lock.
  ClockLock(const GpuAddress& gpu, const ClockPolicy& wanted);
  /// Makes the guardian reset the clock to the driver's default, and waits. If that fails, a line
  /// on stderr reports it with the command to do it by hand.
  ~ClockLock();
  ClockLock(const ClockLock&) = delete;
  ClockLock& operator=(const ClockLock&) = delete;

  unsigned mhz() const { return mhz_; }

 private:
  GpuAddress gpu_;
  unsigned mhz_ = 0;
  pid_t owner_, guardian_ = -1;
};

}  // namespace reprolab::profiling
