#include "profiling/nvml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "kernels/dynamic_library.hpp"

namespace reprolab::profiling {

/// nvmlProcessInfo_t, of driver 510 and later.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
};

// nvmlReturn_t and the enums of nvml.h are ints here, nvmlDevice_t a void*.
struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*handle_by_pci)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*power_mw)(void*, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*event_reasons)(void*, unsigned long long*) = nullptr;
  int (*power_limit_mw)(void*, unsigned*) = nullptr;
  int (*memory_clocks)(void*, unsigned*, unsigned*) = nullptr;
  int (*graphics_clocks)(void*, unsigned, unsigned*, unsigned*) = nullptr;
  int (*compute_processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  int (*lock_clocks)(void*, unsigned, unsigned) = nullptr;
  int (*reset_clocks)(void*) = nullptr;

  ~NvmlFunctions() {
    if (initialized) shutdown();
  }
  bool initialized = false;

  std::string describe(int error) const {
    return error_string ? error_string(error) : fmt::format("NVML error {}", error);
  }
};

namespace {

constexpr int success = 0, no_permission = 4;  // nvmlReturn_t
constexpr int clock_sm = 1, clock_memory = 2;  // nvmlClockType_t
constexpr int temperature_gpu = 0;             // nvmlTemperatureSensors_t
constexpr const char* lacks_locks = "this driver's NVML has no functions for it";

/// The value that `function` returns for `arguments`, times `factor`.
template <class Function, class... Arguments>
std::optional<double> ask(double factor, Function function, Arguments... arguments) {
  unsigned value = 0;
  if (!function || function(arguments..., &value) != success) return std::nullopt;
  return factor * value;
}

/// A list that `function` writes to an array, whose size is its input and output.
template <class Value, class Function, class... Arguments>
std::vector<Value> ask_for_all(Function function, Arguments... arguments) {
  unsigned count = 1000;  // more than any GPU has
  std::vector<Value> values(count);
  if (!function || function(arguments..., &count, values.data()) != success) return {};
  values.resize(count);
  return values;
}

/// Null if NVML cannot be used; `*why_not` then says why.
std::shared_ptr<const NvmlFunctions> load(std::string* why_not) {
  const char* own = std::getenv("REPROLAB_NVML");
  const auto library = DynamicLibrary::open({own ? own : "libnvidia-ml.so.1"}, why_not);
  if (!library) {
    *why_not =
        fmt::format("NVML, which comes with the NVIDIA driver, cannot be loaded ({})", *why_not);
    return nullptr;
  }
  auto nvml = std::make_shared<NvmlFunctions>();
  // Each of these is useful alone; if one is missing, only its query is empty.
  library->bind({{nvml->error_string, "nvmlErrorString"}});
  library->bind({{nvml->driver_version, "nvmlSystemGetDriverVersion"}});
  library->bind({{nvml->clock, "nvmlDeviceGetClockInfo"}});
  library->bind({{nvml->power_mw, "nvmlDeviceGetPowerUsage"}});
  library->bind({{nvml->temperature, "nvmlDeviceGetTemperature"}});
  library->bind({{nvml->power_limit_mw, "nvmlDeviceGetEnforcedPowerLimit"}});
  library->bind({{nvml->memory_clocks, "nvmlDeviceGetSupportedMemoryClocks"},
                 {nvml->graphics_clocks, "nvmlDeviceGetSupportedGraphicsClocks"}});
  library->bind({{nvml->compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3"}});
  library->bind({{nvml->lock_clocks, "nvmlDeviceSetGpuLockedClocks"},
                 {nvml->reset_clocks, "nvmlDeviceResetGpuLockedClocks"}});
  library->bind({{nvml->event_reasons, "nvmlDeviceGetCurrentClocksEventReasons"}});
  const std::string missing =
      library->bind({{nvml->init, "nvmlInit_v2"},
                     {nvml->shutdown, "nvmlShutdown"},
                     {nvml->handle_by_pci, "nvmlDeviceGetHandleByPciBusId_v2"}});
  if (!missing.empty()) {
    *why_not = fmt::format("NVML lacks {}: update the NVIDIA driver", missing);
    return nullptr;
  }
  if (const int error = nvml->init(); error != success) {
    *why_not = fmt::format("NVML does not start ({}): `nvidia-smi` should work first",
                           nvml->describe(error));
    return nullptr;
  }
  nvml->initialized = true;
  return nvml;
}

}  // namespace

std::optional<NvmlDevice> find_nvml_device(const std::string& pci_bus_id, std::string* why_not) {
  const auto nvml = load(why_not);
  if (!nvml) return std::nullopt;
  void* handle = nullptr;
  const int error = nvml->handle_by_pci(pci_bus_id.c_str(), &handle);
  if (error == success) return NvmlDevice(nvml, handle);
  *why_not = fmt::format("NVML does not know the GPU {}: {}", pci_bus_id, nvml->describe(error));
  return std::nullopt;
}

ClockSnapshot NvmlDevice::snapshot() const {
  ClockSnapshot now{.sm_mhz = ask(1, functions_->clock, handle_, clock_sm),
                    .memory_mhz = ask(1, functions_->clock, handle_, clock_memory),
                    .power_w = ask(1e-3, functions_->power_mw, handle_),
                    .temperature_c = ask(1, functions_->temperature, handle_, temperature_gpu),
                    .event_reasons = std::nullopt};
  unsigned long long mask = 0;
  if (functions_->event_reasons && functions_->event_reasons(handle_, &mask) == success) {
    now.event_reasons = mask;
  }
  return now;
}

std::optional<std::string> NvmlDevice::driver_version() const {
  std::array<char, 96> text{};
  if (!functions_->driver_version) return std::nullopt;
  if (functions_->driver_version(text.data(), text.size()) != success) return std::nullopt;
  return std::string(text.data());
}

std::optional<double> NvmlDevice::power_limit_w() const {
  return ask(1e-3, functions_->power_limit_mw, handle_);
}

std::vector<unsigned> NvmlDevice::sm_clocks_mhz() const {
  const auto memory = ask_for_all<unsigned>(functions_->memory_clocks, handle_);
  if (memory.empty()) return {};
  auto clocks =
      ask_for_all<unsigned>(functions_->graphics_clocks, handle_, std::ranges::max(memory));
  std::ranges::sort(clocks);
  return clocks;
}

std::vector<unsigned> NvmlDevice::compute_processes() const {
  std::vector<unsigned> pids;
  for (const auto& info : ask_for_all<ProcessInfo>(functions_->compute_processes, handle_)) {
    pids.push_back(info.pid);
  }
  return pids;
}

std::string NvmlDevice::lock_sm_clock(unsigned mhz) const {
  if (!functions_->lock_clocks) return lacks_locks;
  const int error = functions_->lock_clocks(handle_, mhz, mhz);
  if (error == success) return "";
  // As tested by the driver, for which root in a container may not be enough.
  const char* hint = error == no_permission ? "; it takes root with CAP_SYS_ADMIN" : "";
  return functions_->describe(error) + hint;
}

std::string NvmlDevice::reset_sm_clock() const {
  if (!functions_->reset_clocks) return lacks_locks;
  const int error = functions_->reset_clocks(handle_);
  return error == success ? "" : functions_->describe(error);
}

std::vector<std::string> decode_clock_event_reasons(std::uint64_t mask) {
  constexpr std::array names = {"gpu_idle",
                                "applications_clocks_setting",
                                "sw_power_cap",
                                "hw_slowdown",
                                "sync_boost",
                                "sw_thermal_slowdown",
                                "hw_thermal_slowdown",
                                "hw_power_brake_slowdown",
                                "display_clock_setting"};
  std::vector<std::string> reasons;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t value = std::uint64_t{1} << bit;
    if (!(mask & value)) continue;
    reasons.push_back(bit < names.size() ? names[bit] : fmt::format("unknown_{:#x}", value));
  }
  return reasons;
}

}  // namespace reprolab::profiling
