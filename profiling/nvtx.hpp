// Names for Nsight's timelines and filters: one NVTX domain, one range for each (experiment,
// kernel, problem). Costs nothing outside a profiler and needs no driver.
//   ncu --nvtx --nvtx-include "reprolab@table2:shared_lut:28672x8192_fp16_b64/" ...
// docs/profiling.md lists the names.
// Uses NVTX's C interface, because CUDA 12.4's package has no C++ one (nvtx3.hpp).
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>
#include <string_view>

namespace reprolab::profiling {

/// A range of this thread, from construction to the end of the scope: named
/// "<experiment>:<kernel>:<problem>", with '_' for each character that has a meaning in ncu's
/// filters, '/' above all.
class NvtxRange {
 public:
  NvtxRange(std::string_view experiment, std::string_view kernel, std::string_view problem) {
    std::string name;
    for (const std::string_view part : {experiment, kernel, problem}) {
      if (!name.empty()) name += ':';
      name += part;
    }
    for (char& c : name) {
      if (std::string_view("/@[]*+, \\").find(c) != std::string_view::npos) c = '_';
    }
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name.c_str();
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
};

}  // namespace reprolab::profiling
