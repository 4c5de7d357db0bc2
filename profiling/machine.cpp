#include "profiling/machine.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/printable.hpp"
#include "profiling/basics.hpp"
#include "profiling/cuda_check.hpp"
#include "profiling/nvml.hpp"

namespace reprolab::profiling {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "asking for an attribute of the GPU");
  return value;
}

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  if (!value) return nullptr;
  return *value;
}

/// The text after `separator` and blanks in the first line that starts with `key`.
std::string value_of(std::istream& lines, std::string_view key, char separator) {
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto split = line.find(separator);
    if (split == std::string::npos) continue;
    const auto start = line.find_first_not_of(" \t", split + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return {};
}

/// An entry of /proc/meminfo, which is in KiB, in bytes; 0 if the entry is missing.
std::uint64_t bytes_of(std::istream& proc_meminfo, std::string_view key) {
  return std::strtoull(value_of(proc_meminfo, key, ':').c_str(), nullptr, 10) * 1024;
}

unsigned usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

}  // namespace

std::optional<Gpu> find_gpu(std::string* why_not) {
  Gpu gpu;
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    cudaGetLastError();
    *why_not = fmt::format("no device: {}. {}", cudaGetErrorString(error), cuda_error_hint(error));
    return std::nullopt;
  }
  int index = 0;
  check(cudaGetDevice(&index), "asking for the current GPU");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking for the GPU's properties");
  gpu.name = printable(properties.name);
  gpu.compute_capability = fmt::format("{}.{}", properties.major, properties.minor);
  gpu.multiprocessors = properties.multiProcessorCount;
  gpu.memory_bytes = properties.totalGlobalMem;
  gpu.l2_bytes = static_cast<std::uint64_t>(properties.l2CacheSize);
  gpu.ecc = properties.ECCEnabled != 0;
  gpu.uuid = uuid_text(properties.uuid);

  // CUDA 13 removed the clock members of the properties; the attributes remain.
  const double memory_khz = attribute(cudaDevAttrMemoryClockRate, index);
  const double bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, index);
  if (memory_khz > 0 && bus_bits > 0) {
    gpu.theoretical_bandwidth_gb_s = 2 * memory_khz * 1e3 * bus_bits / 8 / 1e9;
  }

  std::array<char, 32> pci{};
  check(cudaDeviceGetPCIBusId(pci.data(), pci.size(), index), "asking for the PCI bus id");
  gpu.pci_bus_id = pci.data();
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's CUDA version");
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's CUDA version");
  gpu.cuda_driver = version(driver);
  gpu.cuda_runtime = version(runtime);

  std::string ignored;  // NVML is optional: without it, its values are null
  if (const auto device = find_nvml_device(gpu.pci_bus_id, &ignored)) {
    gpu.driver = device->driver_version();
    gpu.power_limit_w = device->power_limit_w();
  }
  return gpu;
}

void to_json(nlohmann::json& json, const Gpu& gpu) {
  json = {{"name", gpu.name},
          {"compute_capability", gpu.compute_capability},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"theoretical_bandwidth_gb_s", or_null(gpu.theoretical_bandwidth_gb_s)},
          {"unit", fmt::format("{:016x}", fnv1a(gpu.uuid))},
          {"driver", or_null(gpu.driver)},
          {"cuda_driver", gpu.cuda_driver},
          {"cuda_runtime", gpu.cuda_runtime},
          {"ecc", gpu.ecc},
          {"power_limit_w", or_null(gpu.power_limit_w)}};
}

nlohmann::json describe_host() {
  std::ifstream cpuinfo("/proc/cpuinfo"), meminfo("/proc/meminfo"), release("/etc/os-release");
  const std::string cpu = value_of(cpuinfo, "model name", ':');
  std::string os = value_of(release, "PRETTY_NAME", '=');
  std::erase(os, '"');
  return {{"cpu", cpu.empty() ? "unknown" : cpu},
          {"cores", usable_cores()},
          {"memory_bytes", bytes_of(meminfo, "MemTotal")},
          {"os", os.empty() ? "unknown" : os}};
}

nlohmann::json describe_build() {
  return {{"compiler", REPROLAB_COMPILER},
          {"nvcc", REPROLAB_NVCC},
          {"type", REPROLAB_BUILD_TYPE},
          {"architectures", REPROLAB_ARCHITECTURES}};
}

std::uint64_t memory_available_bytes(std::istream& proc_meminfo) {
  const std::uint64_t bytes = bytes_of(proc_meminfo, "MemAvailable");
  return bytes > 0 ? bytes : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t control_group_free_bytes(std::istream& max, std::istream& current,
                                       std::istream& stat) {
  std::uint64_t limit = 0, used = 0;
  if (!(max >> limit) || !(current >> used)) return std::numeric_limits<std::uint64_t>::max();
  const std::string files = value_of(stat, "inactive_file", ' ');
  used -= std::min<std::uint64_t>(used, std::strtoull(files.c_str(), nullptr, 10));
  return limit > used ? limit - used : 0;
}

}  // namespace reprolab::profiling
