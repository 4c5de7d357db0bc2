// Description of the machine of a measurement: the GPU, the host and the build, with the names of
// the result file's provenance (data/results.schema.json). All values are queried; unknown ones are
// empty, and null in JSON.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace reprolab::profiling {

struct Gpu {
  std::string name;
  std::string compute_capability;  ///< "9.0"
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
  /// Memory clock x 2 (double data rate) x bus width, in 1e9 bytes per second.
  std::optional<double> theoretical_bandwidth_gb_s;
  std::optional<std::string> driver;  ///< "580.65.06", from NVML.
  std::string cuda_driver;            ///< Newest CUDA version that the driver supports: "13.0".
  std::string cuda_runtime;           ///< CUDA version that this build was made with: "13.0".
  bool ecc = false;
  std::optional<double> power_limit_w;  ///< From NVML.
  std::string pci_bus_id;               ///< "0000:17:00.0"; not part of the JSON.
  std::string uuid;                     ///< "GPU-..."; the JSON has only its digest, `unit`.
};

/// The current CUDA device. If none is usable, returns nullopt, and `*why_not` is one line, "no
/// device: ...". Creates no CUDA context.
std::optional<Gpu> find_gpu(std::string* why_not);

/// `provenance.gpu`, `provenance.host` and `provenance.build`.
void to_json(nlohmann::json& json, const Gpu& gpu);
nlohmann::json describe_host();
nlohmann::json describe_build();

/// MemAvailable of /proc/meminfo; the largest number if it is missing.
std::uint64_t memory_available_bytes(std::istream& proc_meminfo);
/// Memory that a control group (version 2: memory.max, memory.current, memory.stat) still allows
/// its processes, including file pages that it can drop; the largest number if there is no limit.
std::uint64_t control_group_free_bytes(std::istream& max, std::istream& current,
                                       std::istream& stat);

}  // namespace reprolab::profiling
