// CUPTI's functions, all of which are needed, from a library loaded on demand.
#pragma once

#include <cupti.h>

#include <string_view>

namespace reprolab::profiling {

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

  /// Throws std::runtime_error with CUPTI's name for the error and what to do about it.
  void check(CUptiResult result, std::string_view function) const;
};

/// Loads CUPTI of this build's CUDA major version: the library that REPROLAB_CUPTI names, else the
/// one that the loader finds, else the toolkit's own. Throws std::runtime_error if a profiler
/// already holds this process or if no library is usable.
CuptiLibrary load_cupti();

}  // namespace reprolab::profiling
