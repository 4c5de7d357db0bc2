// Converts CUPTI's records to KernelActivity. Separate from their collection, so that it can be
// tested on records made by hand.
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
  /// Stores what it needs of `record`; kinds other than kernels, copies, fills and tags are
  /// ignored.
  void add(const CUpti_Activity& record);

  /// The kernels, copies and fills added since the last call, with their tags, in the order of
  /// their starts. Throws NotMeasured if a kernel has no times: either it had not finished
  /// when the records were flushed, or CUPTI had no memory left for its times.
  std::vector<KernelActivity> take();

  /// Forgets what was added since the last call of take().
  void clear();

 private:
  std::string demangled(const char* name);

  std::vector<KernelActivity> kernels_;
  std::unordered_map<std::uint32_t, std::uint64_t> tags_;  ///< Tag by correlation id.
  std::unordered_map<std::string, std::string> names_;     ///< Demangled name by mangled name.
};

}  // namespace reprolab::profiling
