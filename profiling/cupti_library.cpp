#include "profiling/cupti_library.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/dynamic_library.hpp"

namespace reprolab::profiling {
namespace {

constexpr std::string_view outside =
    "Run with --instrument=none under the profiler, or outside of it.";

/// Nsight Systems, Nsight Compute and other injected tools set these environment variables.
void require_no_profiler() {
  for (const char* variable : {"NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NSYS_PROFILING_SESSION_ID",
                               "CUDA_INJECTION64_PATH"}) {
    if (!std::getenv(variable)) continue;
    throw std::runtime_error(fmt::format(
        "activity recording: a profiler already holds this process ({} is set), and CUPTI serves "
        "one at a time. {}",
        variable, outside));
  }
}

std::vector<std::string> candidates() {
  if (const char* own = std::getenv("REPROLAB_CUPTI")) return {own};
  // A library of another major version than the runtime's would misread this process.
  return {fmt::format("libcupti.so.{}", CUDART_VERSION / 1000), "libcupti.so",
          REPROLAB_CUPTI_LIBRARY};
}

std::string_view hint(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "Another profiler holds the GPU or this process. Run with --instrument=none under the "
             "profiler, or outside of it.";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "This user may not profile: run as root, or have the administrator set "
             "NVreg_RestrictProfilingToAdminUsers=0; --instrument=none needs no permission.";
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_UNKNOWN:  // what CUPTI returns on a machine without a driver
      return "CUPTI needs a working NVIDIA driver: `nvidia-smi` should work first.";
    default:
      return "--instrument=none needs no CUPTI, but measures no times.";
  }
}

}  // namespace

void CuptiLibrary::check(CUptiResult result, std::string_view function) const {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  if (get_result_string(result, &text) != CUPTI_SUCCESS || !text) text = "unknown error";
  throw std::runtime_error(fmt::format("activity recording: {} failed: {} ({}). {}", function, text,
                                       static_cast<int>(result), hint(result)));
}

CuptiLibrary load_cupti() {
  require_no_profiler();
  std::string why_not;
  const auto library = DynamicLibrary::open(candidates(), &why_not);
  if (!library) {
    throw std::runtime_error(fmt::format(
        "activity recording: CUPTI cannot be loaded ({}). Install the toolkit's CUPTI package "
        "(cuda-cupti), or name the library in REPROLAB_CUPTI; --instrument=none needs no CUPTI, "
        "but measures no times.",
        why_not));
  }
  CuptiLibrary cupti{};
  const std::string missing =
      library->bind({{cupti.get_result_string, "cuptiGetResultString"},
                     {cupti.register_callbacks, "cuptiActivityRegisterCallbacks"},
                     {cupti.enable, "cuptiActivityEnable"},
                     {cupti.disable, "cuptiActivityDisable"},
                     {cupti.flush_all, "cuptiActivityFlushAll"},
                     {cupti.get_next_record, "cuptiActivityGetNextRecord"},
                     {cupti.get_num_dropped_records, "cuptiActivityGetNumDroppedRecords"},
                     {cupti.push_external_id, "cuptiActivityPushExternalCorrelationId"},
                     {cupti.pop_external_id, "cuptiActivityPopExternalCorrelationId"}});
  if (missing.empty()) return cupti;
  throw std::runtime_error(
      fmt::format("activity recording: the CUPTI library lacks {}. Use the CUPTI of CUDA 12.4 or "
                  "newer.",
                  missing));
}

}  // namespace reprolab::profiling
