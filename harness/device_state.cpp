#include "harness/device_state.hpp"

#include <cuda.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>

#include <cfenv>
#include <cmath>
#include <type_traits>

#include "kernels/dynamic_library.hpp"

namespace reprolab {
namespace {

using Value = std::optional<std::uint64_t>;

/// The value if CUDA could read it. Clears CUDA's error, which the next check would report.
template <class T>
Value if_read(cudaError_t error, T value) {
  if (error == cudaSuccess) {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<std::uintptr_t>(value);
    else
      return static_cast<std::uint64_t>(value);
  }
  cudaGetLastError();
  return std::nullopt;
}

/// Returns the value that a CUDA function writes to its first argument.
template <class T, class... More>
Value ask(cudaError_t (*function)(T*, More...), std::type_identity_t<More>... more) {
  T value{};
  const cudaError_t error = function(&value, more...);
  return if_read(error, value);
}

/// Excludes the stack size, which the driver raises for a kernel with large frames.
void add_limits(std::vector<DeviceSetting>& settings) {
  constexpr struct {
    const char* name;
    cudaLimit limit;
  } limits[] = {{"cudaLimitPersistingL2CacheSize", cudaLimitPersistingL2CacheSize},
                {"cudaLimitMaxL2FetchGranularity", cudaLimitMaxL2FetchGranularity},
                {"cudaLimitMallocHeapSize", cudaLimitMallocHeapSize},
                {"cudaLimitPrintfFifoSize", cudaLimitPrintfFifoSize},
                {"cudaLimitDevRuntimePendingLaunchCount", cudaLimitDevRuntimePendingLaunchCount}};
  for (const auto& [name, limit] : limits) {
    settings.push_back({name, [limit = limit] { return ask(cudaDeviceGetLimit, limit); }});
  }
}

void add_stream(std::vector<DeviceSetting>& settings, const std::string& whose,
                cudaStream_t stream) {
  using Attribute = cudaStreamAttrValue;
  const auto add = [&](const char* name, cudaStreamAttrID id, auto get) {
    settings.push_back({whose + name, [=] {
                          Attribute value{};
                          const cudaError_t error = cudaStreamGetAttribute(stream, id, &value);
                          return if_read(error, get(value));
                        }});
  };
  const auto window = cudaStreamAttributeAccessPolicyWindow;  // without bytes, it is none
  add("accessPolicyWindow.num_bytes", window,
      [](const Attribute& value) { return value.accessPolicyWindow.num_bytes; });
  add("accessPolicyWindow.hitRatio", window,
      [](const Attribute& value) { return std::lround(100 * value.accessPolicyWindow.hitRatio); });
  add("accessPolicyWindow.hitProp", window,
      [](const Attribute& value) { return value.accessPolicyWindow.hitProp; });
  add("accessPolicyWindow.missProp", window,
      [](const Attribute& value) { return value.accessPolicyWindow.missProp; });
  add("syncPolicy", cudaStreamAttributeSynchronizationPolicy,
      [](const Attribute& value) { return value.syncPolicy; });
  add("priority", cudaStreamAttributePriority,
      [](const Attribute& value) { return value.priority; });
}

/// The pool that cudaMallocAsync takes from, and how the device's own pool keeps memory.
void add_memory_pools(std::vector<DeviceSetting>& settings, int device) {
  settings.push_back(
      {"the device's memory pool", [device] { return ask(cudaDeviceGetMemPool, device); }});
  cudaMemPool_t own = nullptr;
  if (cudaDeviceGetDefaultMemPool(&own, device) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  settings.push_back({"cudaMemPoolAttrReleaseThreshold", [own] {
                        std::uint64_t value = 0;
                        const cudaError_t error =
                            cudaMemPoolGetAttribute(own, cudaMemPoolAttrReleaseThreshold, &value);
                        return if_read(error, value);
                      }});
}

/// Adds the settings of the calling thread that CUDA or the host's arithmetic depends on.
void add_thread(std::vector<DeviceSetting>& settings) {
  settings.push_back({"the current device", [] { return ask(cudaGetDevice); }});
  using GetCurrent = CUresult (*)(CUcontext*);
  GetCurrent get_current = nullptr;
  std::string why_not;
  const auto library = DynamicLibrary::open({"libcuda.so.1"}, &why_not);
  if (library && library->bind({{get_current, "cuCtxGetCurrent"}}).empty()) {
    settings.push_back({"the current context", [get_current]() -> Value {
                          CUcontext context = nullptr;
                          if (get_current(&context) != CUDA_SUCCESS) return std::nullopt;
                          return reinterpret_cast<std::uintptr_t>(context);
                        }});
  }
  settings.push_back({"the mode of captures", [] {
                        auto mode = cudaStreamCaptureModeRelaxed;
                        const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
                        const auto own_mode = mode;
                        if (error == cudaSuccess) cudaThreadExchangeStreamCaptureMode(&mode);
                        return if_read(error, own_mode);
                      }});
  settings.push_back({"the host's rounding mode",
                      []() -> Value { return static_cast<std::uint64_t>(std::fegetround()); }});
  settings.push_back({"the host thread's processors", []() -> Value {
                        cpu_set_t processors;
                        CPU_ZERO(&processors);
                        if (sched_getaffinity(0, sizeof processors, &processors) != 0) return {};
                        return static_cast<std::uint64_t>(CPU_COUNT(&processors));
                      }});
  settings.push_back({"child processes", []() -> Value {
                        siginfo_t ended{};
                        return waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
                      }});
}

}  // namespace

std::vector<DeviceSetting> device_settings(cudaStream_t stream) {
  std::vector<DeviceSetting> settings;
  if (cudaFree(nullptr) != cudaSuccess)
    cudaGetLastError();  // makes the context, where there is none
  add_thread(settings);
  int device = 0;
  cudaGetDevice(&device);
  add_limits(settings);
  add_stream(settings, "", stream);
  add_stream(settings, "default stream's ", nullptr);
  add_memory_pools(settings, device);
  settings.push_back({"how the device is waited for", [] {
                        // The driver itself sets other flags when a kernel needs local memory.
                        Value flags = ask(cudaGetDeviceFlags);
                        if (flags) *flags &= cudaDeviceScheduleMask;
                        return flags;
                      }});
  settings.push_back(
      {"the device's cache configuration", [] { return ask(cudaDeviceGetCacheConfig); }});
  return settings;
}

DeviceState::DeviceState(cudaStream_t stream) {
  for (const DeviceSetting& setting : device_settings(stream)) {
    if (const auto value = setting.read()) known_.push_back({setting, *value});
  }
}

std::string DeviceState::changes() const {
  std::string changes;
  for (const auto& [setting, before] : known_) {
    const Value now = setting.read();
    if (now == before) continue;
    changes += fmt::format("{}{} from {} to {}", changes.empty() ? "changed the device: " : ", ",
                           setting.name, before, now ? fmt::format("{}", *now) : "unknown");
  }
  return changes;
}

void DeviceState::reset_persisting_lines() const {
  if (cudaCtxResetPersistingL2Cache() != cudaSuccess) cudaGetLastError();
}

}  // namespace reprolab
