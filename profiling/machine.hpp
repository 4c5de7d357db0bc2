// What a measurement ran on: the GPU, the host and the build, as the result file's provenance
// names them (experiments/harness/RESULTS.md). Nothing here is typed in; what the machine does not
// say is empty, and null in JSON.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "profiling/nvml.hpp"

namespace reprolab::profiling {

struct Gpu {
  int device = 0;  ///< CUDA's index of it.
  std::string name;
  std::string compute_capability;  ///< "9.0"
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
  /// Memory clock x 2 (double data rate) x bus width, in 1e9 bytes a second.
  std::optional<double> theoretical_bandwidth_gb_s;
  std::optional<std::string> driver;  ///< "580.65.06", from NVML.
  std::string cuda_driver;            ///< Newest CUDA the driver serves: "13.0".
  std::string cuda_runtime;           ///< CUDA this build was made with: "13.0".
  bool ecc = false;
  std::optional<double> power_limit_w;  ///< From NVML.
  std::string pci_bus_id;               ///< "0000:17:00.0"; not part of the JSON.
  std::string uuid;                     ///< "GPU-..."; not part of the JSON.
};

struct Host {
  std::string cpu;
  unsigned cores = 0;  ///< Hardware threads that this process may use.
  std::uint64_t memory_bytes = 0;
  std::string os;
};

struct Build {
  std::string compiler;       ///< "GNU 13.3.0"
  std::string nvcc;           ///< "13.0.88"
  std::string type;           ///< "Release"
  std::string architectures;  ///< CMAKE_CUDA_ARCHITECTURES: "80,90"
};

/// The current CUDA device. Without a usable one: empty, and `*why_not` is one line,
/// "no device: ...". Makes no CUDA context.
std::optional<Gpu> find_gpu(std::string* why_not);

/// The same GPU for NVML, or why there is none.
std::optional<NvmlDevice> find_nvml_device(const Gpu& gpu, std::string* why_not);

Host describe_host();
Build describe_build();

/// `provenance.gpu`, `provenance.host` and `provenance.build`.
void to_json(nlohmann::json& json, const Gpu& gpu);
void to_json(nlohmann::json& json, const Host& host);
void to_json(nlohmann::json& json, const Build& build);

/// Readers of the system's files, apart from where those lie; "unknown" or 0 when it is not there.
std::string cpu_model(std::istream& proc_cpuinfo);
std::uint64_t memory_total_bytes(std::istream& proc_meminfo);
/// Without a bound where the file does not say.
std::uint64_t memory_available_bytes(std::istream& proc_meminfo);
/// What a control group (version 2: memory.max, memory.current, memory.stat) leaves its processes,
/// pages of files that it can drop included; without a bound where there is none.
std::uint64_t control_group_free_bytes(std::istream& max, std::istream& current,
                                       std::istream& stat);
std::string os_name(std::istream& os_release);

}  // namespace reprolab::profiling
