// CUPTI, loaded on demand: the library, what to do about its errors, and the functions that record
// activity, all of which are needed.
#pragma once

#include <cupti.h>

#include <optional>
#include <string>
#include <string_view>

#include "common/dynamic_library.hpp"
#include "common/not_measured.hpp"

namespace reprolab::profiling {

/// CUPTI of this build's CUDA major version: the library that REPROLAB_CUPTI names, else the one
/// that the loader finds, else the toolkit's own. If none can be loaded, returns nullopt, and
/// `*why_not` says what to do.
std::optional<DynamicLibrary> open_cupti(std::string* why_not);

/// Why CUPTI must not be used here; empty if nothing speaks against it. Nsight Systems, Nsight
/// Compute and other injected tools announce themselves in the environment.
std::string attached_profiler();

/// What to do about an error; empty if that depends on the caller.
std::string_view remedy(CUptiResult result);

/// A call that CUPTI refused.
struct CuptiError : NotMeasured {
  /// `what` begins the message; `otherwise` ends it if there is no remedy.
  CuptiError(std::string_view what, std::string_view function, CUptiResult result,
             decltype(&cuptiGetResultString) get_result_string, std::string_view otherwise = "");
  CUptiResult result;
};

struct CuptiLibrary {
  decltype(&cuptiGetResultString) get_result_string;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) get_next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) get_num_dropped_records;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_id;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_id;

  /// Throws CuptiError.
  void check(CUptiResult result, std::string_view function) const;
};

/// Loads the functions that record activity. Throws std::runtime_error if a profiler already holds
/// this process or if no library is usable.
CuptiLibrary load_cupti();

}  // namespace reprolab::profiling
