// NVML (the driver's management library), loaded on demand, for the few queries that describe the
// conditions of a measurement, and to lock the SM clock (clocks.hpp). Toolkits often lack
// nvml.h, so the functions used are declared in nvml.cpp, following NVIDIA's "NVML API Reference".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprolab::profiling {

struct NvmlFunctions;

/// A snapshot of the GPU's state. A value is empty if NVML does not provide it.
struct ClockSnapshot {
  std::optional<double> sm_mhz, memory_mhz;
  std::optional<double> power_w;  ///< On Ampere and later the driver's average over a second.
  std::optional<double> temperature_c;
  std::optional<std::uint64_t> event_reasons;  ///< Mask, see decode_clock_event_reasons.
};

/// One GPU in NVML. A query is empty if NVML lacks the function or refuses the call.
class NvmlDevice {
 public:
  ClockSnapshot snapshot() const;
  std::optional<std::string> driver_version() const;
  /// The limit in force, in watts.
  std::optional<double> power_limit_w() const;

  /// The SM clocks in MHz that the GPU supports at its highest memory clock, ascending; empty if
  /// NVML does not list them.
  std::vector<unsigned> sm_clocks_mhz() const;
  /// The processes that compute on the GPU, by number; empty if NVML does not list them.
  std::vector<unsigned> compute_processes() const;

  /// Locks the SM clock for every program on this GPU, until it is reset or the driver is reloaded.
  /// Returns the reason for a failure; empty if it is locked.
  std::string lock_sm_clock(unsigned mhz) const;
  /// Resets any lock of the SM clock, also one that another program set: NVML cannot query locks.
  /// Returns the reason for a failure, else empty.
  std::string reset_sm_clock() const;

 private:
  friend std::optional<NvmlDevice> find_nvml_device(const std::string&, std::string*);
  NvmlDevice(std::shared_ptr<const NvmlFunctions> functions, void* handle)
      : functions_(std::move(functions)), handle_(handle) {}
  std::shared_ptr<const NvmlFunctions> functions_;
  void* handle_;
};

/// The GPU with this PCI bus id ("0000:17:00.0"): CUDA and NVML number GPUs differently, so an
/// index would name the wrong one. Loads libnvidia-ml.so.1, or the library that REPROLAB_NVML
/// names. If that is not usable or does not know the GPU, returns nullopt, and `*why_not` says why.
std::optional<NvmlDevice> find_nvml_device(const std::string& pci_bus_id, std::string* why_not);

/// Names of the bits set, lowest first, as in nvml.h's nvmlClocksEventReason* in snake_case;
/// a bit unknown here is "unknown_0x...".
std::vector<std::string> decode_clock_event_reasons(std::uint64_t mask);

/// The bit for an idle GPU; it limits no clock of a busy GPU.
inline constexpr std::uint64_t clock_event_gpu_idle = 0x1;

}  // namespace reprolab::profiling
