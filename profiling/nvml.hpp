// NVML (the driver's management library) loaded on demand: the few queries that describe a
// measurement's circumstances. It reads and never sets. The toolkit before CUDA 13 often lacks
// nvml.h, so the functions used are declared in nvml.cpp, after NVIDIA's "NVML API Reference".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprolab::profiling {

struct NvmlFunctions;

/// One GPU seen through NVML. Every query is empty where NVML lacks the function or refuses it.
class NvmlDevice {
 public:
  std::optional<double> sm_clock_mhz() const;
  std::optional<double> memory_clock_mhz() const;
  /// Watts; on Ampere and later the driver's average over the last second.
  std::optional<double> power_w() const;
  std::optional<double> temperature_c() const;
  /// Bit mask; `decode_clock_event_reasons` names the bits.
  std::optional<std::uint64_t> clock_event_reasons() const;
  /// The limit in force, in watts.
  std::optional<double> power_limit_w() const;

 private:
  friend class Nvml;
  NvmlDevice(std::shared_ptr<const NvmlFunctions> functions, void* handle)
      : functions_(std::move(functions)), handle_(handle) {}
  std::shared_ptr<const NvmlFunctions> functions_;
  void* handle_;
};

class Nvml {
 public:
  /// Loads libnvidia-ml.so.1, or the library that REPROLAB_NVML names. Without a usable one:
  /// empty, and `*why_not` says why.
  static std::optional<Nvml> load(std::string* why_not);

  std::optional<std::string> driver_version() const;

  /// The GPU with this PCI bus id ("0000:17:00.0"), or else with this UUID ("GPU-..."). CUDA and
  /// NVML number GPUs differently, so an index would name the wrong one.
  std::optional<NvmlDevice> device(const std::string& pci_bus_id, const std::string& uuid,
                                   std::string* why_not) const;

 private:
  explicit Nvml(std::shared_ptr<const NvmlFunctions> functions)
      : functions_(std::move(functions)) {}
  std::shared_ptr<const NvmlFunctions> functions_;
};

/// Names of the bits set, lowest first, as in nvml.h's nvmlClocksEventReason* in snake_case;
/// a bit unknown here is "unknown_0x...".
std::vector<std::string> decode_clock_event_reasons(std::uint64_t mask);

/// The bit that says that the GPU has nothing to do; it limits no clock of a busy GPU.
inline constexpr std::uint64_t clock_event_gpu_idle = 0x1;

}  // namespace reprolab::profiling
