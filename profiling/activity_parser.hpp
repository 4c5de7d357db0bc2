// From CUPTI's records to KernelActivity. Apart from their collection, so that it can be tested on
// records made by hand. The one public header that needs cupti.h.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiling/kernel_activity.hpp"

namespace reprolab::profiling {

/// The kind of external id that carries our tags.
inline constexpr CUpti_ExternalCorrelationKind tag_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

class ActivityParser {
 public:
  /// Takes what it needs from `record`; kinds other than kernels and tags are ignored.
  void add(const CUpti_Activity& record);

  /// The kernels added since the last call, with their tags, in the order of their starts.
  /// Throws std::runtime_error when a kernel has no times: it had not finished when the records
  /// were asked for, or CUPTI had no memory left for its times.
  std::vector<KernelActivity> take();

 private:
  std::string demangled(const char* name);

  std::vector<KernelActivity> kernels_;
  std::unordered_map<std::uint32_t, std::uint64_t> tags_;  ///< By correlation id.
  std::unordered_map<std::string, std::string> names_;     ///< Demangled, by mangled name.
};

}  // namespace reprolab::profiling
