#include "profiling/cupti_library.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace reprolab::profiling {
namespace {

constexpr std::string_view what = "activity recording";
constexpr std::string_view measures_no_times =
    "--instrument=none needs no CUPTI, but measures no times.";

std::vector<std::string> candidates() {
  if (const char* own = std::getenv("REPROLAB_CUPTI")) return {own};
  // A library of another major version than the runtime's would misread this process.
  return {fmt::format("libcupti.so.{}", CUDA_VERSION / 1000), "libcupti.so",
          REPROLAB_CUPTI_LIBRARY};
}

std::string message(std::string_view what, std::string_view function, CUptiResult result,
                    decltype(&cuptiGetResultString) get_result_string, std::string_view otherwise) {
  const char* text = nullptr;
  if (get_result_string(result, &text) != CUPTI_SUCCESS || !text) text = "unknown error";
  const std::string_view known = remedy(result);
  const std::string_view advice = known.empty() ? otherwise : known;
  return fmt::format("{}: {} failed: {} ({}).{}{}", what, function, text, static_cast<int>(result),
                     advice.empty() ? "" : " ", advice);
}

}  // namespace

std::optional<DynamicLibrary> open_cupti(std::string* why_not) {
  auto library = DynamicLibrary::open(candidates(), why_not);
  if (!library) {
    *why_not = fmt::format(
        "CUPTI cannot be loaded ({}). Install the toolkit's CUPTI package (cuda-cupti), or name "
        "the library in REPROLAB_CUPTI",
        *why_not);
  }
  return library;
}

std::string attached_profiler() {
  for (const char* variable : {"NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NSYS_PROFILING_SESSION_ID",
                               "CUDA_INJECTION64_PATH"}) {
    if (!std::getenv(variable)) continue;
    return fmt::format(
        "a profiler already holds this process ({} is set), and CUPTI serves one at a time. Run "
        "with --instrument=none under the profiler, or outside of it.",
        variable);
  }
  return "";
}

std::string_view remedy(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "Another profiler holds the GPU or this process. Run with --instrument=none under the "
             "profiler, or outside of it.";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "This user may not profile (ERR_NVGPUCTRPERM): run as root, or have the administrator "
             "set NVreg_RestrictProfilingToAdminUsers=0; --instrument=none needs no permission.";
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_UNKNOWN:  // what CUPTI returns on a machine without a driver
      return "CUPTI needs a working NVIDIA driver: `nvidia-smi` should work first.";
    default:
      return "";
  }
}

CuptiError::CuptiError(std::string_view what, std::string_view function, CUptiResult result,
                       decltype(&cuptiGetResultString) get_result_string,
                       std::string_view otherwise)
    : NotMeasured(message(what, function, result, get_result_string, otherwise)), result(result) {}

void CuptiLibrary::check(CUptiResult result, std::string_view function) const {
  if (result == CUPTI_SUCCESS) return;
  throw CuptiError(what, function, result, get_result_string, measures_no_times);
}

CuptiLibrary load_cupti() {
  if (const std::string profiler = attached_profiler(); !profiler.empty()) {
    throw std::runtime_error(fmt::format("{}: {}", what, profiler));
  }
  std::string why_not;
  const auto library = open_cupti(&why_not);
  if (!library) {
    throw std::runtime_error(fmt::format("{}: {}; {}", what, why_not, measures_no_times));
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
  throw std::runtime_error(fmt::format(
      "{}: the CUPTI library lacks {}. Use the CUPTI of CUDA 12.4 or newer.", what, missing));
}

}  // namespace reprolab::profiling
