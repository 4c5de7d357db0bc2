// A CUPTI that refuses this user the permission to count.
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>

constexpr auto refused = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;

extern "C" {

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params*) { return refused; }
CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params*) { return refused; }
CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params*) { return refused; }

}  // extern "C"
