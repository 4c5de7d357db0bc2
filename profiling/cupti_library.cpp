#include "profiling/cupti_library.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace reprolab::profiling {
namespace {

std::vector<std::string> candidates() {
  if (const char* own = std::getenv("REPROLAB_CUPTI")) return {own};
  // A library of another major version than the runtime's would misread this process.
  return {fmt::format("libcupti.so.{}", CUDA_VERSION / 1000), "libcupti.so",
          REPROLAB_CUPTI_LIBRARY};
}

/// Why CUPTI must not be used here; empty if it may be. Nsight Systems, Nsight Compute and other
/// injected tools set environment variables.
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

/// The remedy for an error; empty if it depends on the caller.
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

}  // namespace

DynamicLibrary CuptiCalls::open() const {
  if (const std::string profiler = attached_profiler(); !profiler.empty()) {
    throw std::runtime_error(fmt::format("{}: {}", what, profiler));
  }
  std::string why_not;
  if (const auto library = DynamicLibrary::open(candidates(), &why_not)) return *library;
  throw std::runtime_error(
      fmt::format("{}: CUPTI cannot be loaded ({}). Install the toolkit's CUPTI package "
                  "(cuda-cupti), or name the library in REPROLAB_CUPTI{}{}",
                  what, why_not, otherwise.empty() ? "." : "; ", otherwise));
}

void CuptiCalls::bind(const DynamicLibrary& library, std::string_view version,
                      std::initializer_list<DynamicLibrary::Symbol> group) const {
  const std::string missing = library.bind(group);
  if (missing.empty()) return;
  throw std::runtime_error(
      fmt::format("{}: the CUPTI library lacks {}. Use the CUPTI of CUDA {} or newer.", what,
                  missing, version));
}

void CuptiCalls::check(CUptiResult result, std::string_view function) const {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  if (get_result_string(result, &text) != CUPTI_SUCCESS || !text) text = "unknown error";
  const std::string_view known = remedy(result);
  const std::string_view advice = known.empty() ? otherwise : known;
  throw CuptiError(fmt::format("{}: {} failed: {} ({}).{}{}", what, function, text,
                               static_cast<int>(result), advice.empty() ? "" : " ", advice));
}

CuptiProfiling::CuptiProfiling(const DynamicLibrary& library)
    : CuptiCalls{.what = "counters"}, library_(library) {
  CUptiResult (*host)(void*) = nullptr;
  CUptiResult (*ranges)(void*) = nullptr;
  bind(library, first_version,
       {{get_result_string, "cuptiGetResultString"},
        {host, "cuptiProfilerHostInitialize"},
        {ranges, "cuptiRangeProfilerEnable"}});
}

}  // namespace reprolab::profiling
