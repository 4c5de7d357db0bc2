// Locks a GPU's SM clock while this object, or else this process, lives. The lock is set and taken
// back by a guardian: a process of its own, which outlives this one however it ends, SIGKILL
// included. docs/clocks.md says what a user meets.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

namespace reprolab::profiling {

/// Whether the SM clock is observed or locked, and at which value.
struct ClockPolicy {
  enum class Kind { observe, max, mhz } kind = Kind::observe;
  unsigned mhz = 0;  ///< Where that is the kind.

  bool locks() const { return kind != Kind::observe; }
};

/// Reads the value of `--clocks`: "observe", "max", or megahertz. Throws std::invalid_argument that
/// says what to give.
ClockPolicy parse_clock_policy(std::string_view text);

/// The GPU that CUDA means: the numbers that CUDA and NVML give to GPUs differ.
struct GpuAddress {
  std::string pci_bus_id, uuid;
};

/// The clock in MHz that `wanted`, which locks, comes to on this GPU. Throws std::runtime_error if
/// NVML or the GPU cannot do it; if it is only another clock, names the nearest that it has.
unsigned clock_to_lock(const GpuAddress& gpu, const ClockPolicy& wanted);

class ClockLock {
 public:
  /// Starts the guardian, calls `announce` with the clock in MHz, and has the guardian lock the
  /// clock. If that fails, throws std::runtime_error with the reason, and nothing is locked. Must
  /// come before this process's first CUDA or NVML call and its first thread, because it forks; a
  /// process that is forked later, and how long it lives, does not matter.
  ClockLock(const GpuAddress& gpu, const ClockPolicy& wanted,
            const std::function<void(unsigned mhz)>& announce);
  /// Has the clock reset to the driver's default, and waits for it. If that fails, a line on stderr
  /// says so, with the command that does it by hand.
  ~ClockLock();
  ClockLock(const ClockLock&) = delete;
  ClockLock& operator=(const ClockLock&) = delete;

  unsigned mhz() const { return mhz_; }

 private:
  std::string answer() const;
  void end();

  GpuAddress gpu_;
  unsigned mhz_ = 0;
  pid_t owner_ = -1, guardian_ = -1;
  int socket_ = -1;
};

}  // namespace reprolab::profiling
