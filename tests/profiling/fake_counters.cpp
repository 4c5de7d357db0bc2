// A CUPTI that knows every metric and refuses this user the permission to count. It counts its
// calls.
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

struct CUpti_Profiler_Host_Object {};

namespace {

int calls = 0;
CUpti_Profiler_Host_Object host;

CUptiResult called(CUptiResult result = CUPTI_SUCCESS) {
  ++calls;
  return result;
}

}  // namespace

extern "C" {

int fake_counters_calls() { return calls; }

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* params) {
  params->pHostObject = &host;
  return called();
}
CUptiResult cuptiProfilerHostGetMetricProperties(
    CUpti_Profiler_Host_GetMetricProperties_Params* params) {
  params->pDimUnit = "kernel";
  return called();
}
CUptiResult cuptiProfilerHostGetConfigImageSize(
    CUpti_Profiler_Host_GetConfigImageSize_Params* params) {
  params->configImageSize = 1;
  return called();
}
CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* params) {
  params->numOfPasses = 1;
  return called();
}
CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* params) {
  params->pChipName = "FAKE100";
  return called();
}
CUptiResult cuptiProfilerGetCounterAvailability(
    CUpti_Profiler_GetCounterAvailability_Params* params) {
  params->counterAvailabilityImageSize = 8;
  return called();
}
CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params*) {
  return called(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
}

#define WITHOUT_EFFECT(function, parameters) \
  CUptiResult function(parameters*) { return called(); }
WITHOUT_EFFECT(cuptiProfilerInitialize, CUpti_Profiler_Initialize_Params)
WITHOUT_EFFECT(cuptiProfilerHostDeinitialize, CUpti_Profiler_Host_Deinitialize_Params)
WITHOUT_EFFECT(cuptiProfilerHostConfigAddMetrics, CUpti_Profiler_Host_ConfigAddMetrics_Params)
WITHOUT_EFFECT(cuptiProfilerHostGetConfigImage, CUpti_Profiler_Host_GetConfigImage_Params)
WITHOUT_EFFECT(cuptiProfilerHostEvaluateToGpuValues, CUpti_Profiler_Host_EvaluateToGpuValues_Params)
WITHOUT_EFFECT(cuptiRangeProfilerDisable, CUpti_RangeProfiler_Disable_Params)
WITHOUT_EFFECT(cuptiRangeProfilerGetCounterDataSize, CUpti_RangeProfiler_GetCounterDataSize_Params)
WITHOUT_EFFECT(cuptiRangeProfilerCounterDataImageInitialize,
               CUpti_RangeProfiler_CounterDataImage_Initialize_Params)
WITHOUT_EFFECT(cuptiRangeProfilerSetConfig, CUpti_RangeProfiler_SetConfig_Params)
WITHOUT_EFFECT(cuptiRangeProfilerStart, CUpti_RangeProfiler_Start_Params)
WITHOUT_EFFECT(cuptiRangeProfilerPushRange, CUpti_RangeProfiler_PushRange_Params)
WITHOUT_EFFECT(cuptiRangeProfilerPopRange, CUpti_RangeProfiler_PopRange_Params)
WITHOUT_EFFECT(cuptiRangeProfilerStop, CUpti_RangeProfiler_Stop_Params)
WITHOUT_EFFECT(cuptiRangeProfilerDecodeData, CUpti_RangeProfiler_DecodeData_Params)
WITHOUT_EFFECT(cuptiRangeProfilerGetCounterDataInfo, CUpti_RangeProfiler_GetCounterDataInfo_Params)
#undef WITHOUT_EFFECT

}  // extern "C"
