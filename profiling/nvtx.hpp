// Names for Nsight's timelines and filters: one NVTX domain, one range for each (experiment,
// kernel, problem). Costs nothing outside a profiler and needs no driver.
//   ncu --nvtx --nvtx-include "reprolab@table2:shared_lut:28672x8192_fp16_b64/" ...
// docs/profiling.md lists the names.
// Uses NVTX's C interface, because CUDA 12.4's package has no C++ one (nvtx3.hpp).
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace reprolab::profiling {

/// "<experiment>:<kernel>:<problem>", with '_' for each character that has a meaning in ncu's
/// filters, '/' above all.
inline std::string nvtx_range_name(std::string_view experiment, std::string_view kernel,
                                   std::string_view problem) {
  std::string name;
  for (const std::string_view part : {experiment, kernel, problem}) {
    if (!name.empty()) name += ':';
    name += part;
  }
  for (char& c : name) {
    if (std::string_view("/@[]*+, \\").find(c) != std::string_view::npos) c = '_';
  }
  return name;
}

/// A range of this thread, from construction to the end of the scope.
class NvtxRange {
 public:
  NvtxRange(std::string_view experiment, std::string_view kernel, std::string_view problem) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = registered(nvtx_range_name(experiment, kernel, problem));
    nvtxDomainRangePushEx(domain(), &attributes);
  }
  ~NvtxRange() { nvtxDomainRangePop(domain()); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t handle = nvtxDomainCreateA("reprolab");
    return handle;
  }

  /// A name is registered once: NVTX keeps it for as long as the process lives.
  static nvtxStringHandle_t registered(const std::string& name) {
    static std::mutex mutex;
    static std::unordered_map<std::string, nvtxStringHandle_t> names;
    const std::lock_guard lock(mutex);
    const auto [known, is_new] = names.try_emplace(name, nullptr);
    if (is_new) known->second = nvtxDomainRegisterStringA(domain(), name.c_str());
    return known->second;
  }
};

}  // namespace reprolab::profiling
