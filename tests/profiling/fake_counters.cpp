// A CUPTI that refuses this user the permission to count. It counts its calls.
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>

namespace {

int calls = 0;

CUptiResult refused() {
  ++calls;
  return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
}

}  // namespace

extern "C" {

int fake_counters_calls() { return calls; }

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params*) { return refused(); }
CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params*) {
  return refused();
}
CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params*) { return refused(); }

}  // extern "C"
