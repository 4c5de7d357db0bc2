// A fake of CUPTI's host and range profiling functions that needs no driver. Its chips FAKE100 and
// FAKE200 have the metrics `known` below, each of which counts the kernels that
// fake_counters_launch() "launches" in a range; FAKE100 is the chip of the device. It counts its
// calls. FAKE_CUPTI_FAIL="function=code" makes one function fail.
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct CUpti_Profiler_Host_Object {
  std::vector<std::string> added;
};

namespace {

constexpr std::size_t max_ranges = 16;

/// device__: cannot be collected with any other. ratio__: of nothing, where no kernel is named so.
const std::vector<std::string> known = {"sm__kernels.sum", "sm__twice.sum", "ratio__nothing.pct",
                                        "device__link.sum"};

/// The content of a counter image. CUPTI adds to it.
struct Image {
  std::uint64_t initialized = 0, ranges = 0, kernels[max_ranges] = {};
};

struct Fake {
  int calls = 0;
  bool enabled = false, started = false, in_range = false;
  CUpti_RangeProfiler_SetConfig_Params config{};
  std::size_t pass = 0;
  std::vector<std::uint64_t> kernels;  ///< By range, of the pass that runs.
};

Fake& fake() {
  static Fake instance;
  return instance;
}

CUptiResult called(const std::string& function) {
  ++fake().calls;
  const char* text = std::getenv("FAKE_CUPTI_FAIL");
  if (!text || std::strncmp(text, (function + "=").c_str(), function.size() + 1) != 0) {
    return CUPTI_SUCCESS;
  }
  return static_cast<CUptiResult>(std::atoi(text + function.size() + 1));
}

/// A configuration has one byte for each metric.
std::size_t passes(std::size_t config_size) { return config_size == 1 ? 1 : 3; }

bool is_known(const std::string& name) {
  return std::find(known.begin(), known.end(), name) != known.end();
}

}  // namespace

extern "C" {

void fake_counters_launch() {
  Fake& state = fake();
  if (!state.started) return;
  if (state.config.range == CUPTI_AutoRange) {
    state.kernels.push_back(1);
  } else if (state.in_range) {
    ++state.kernels.back();
  }
}

int fake_counters_calls() { return fake().calls; }
bool fake_counters_enabled() { return fake().enabled; }
void fake_counters_clear() { fake() = {}; }

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                                                        : "CUPTI_ERROR_OTHER";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* params) {
  if (std::strncmp(params->pChipName, "FAKE", 4) != 0) return CUPTI_ERROR_INVALID_CHIP_NAME;
  params->pHostObject = new CUpti_Profiler_Host_Object;
  return called("HostInitialize");
}

CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params* params) {
  delete params->pHostObject;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetSubMetrics(CUpti_Profiler_Host_GetSubMetrics_Params* params) {
  static const char* endings[] = {".avg", ".sum"};
  params->numOfSubmetrics = 2;
  params->ppSubMetrics = endings;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetMetricProperties(
    CUpti_Profiler_Host_GetMetricProperties_Params* params) {
  const std::string name = params->pMetricName;
  if (!is_known(name) && !is_known(name + ".sum")) return CUPTI_ERROR_INVALID_METRIC_NAME;
  params->pDimUnit = "kernel";
  params->metricType = CUPTI_METRIC_TYPE_COUNTER;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* params) {
  auto& added = params->pHostObject->added;
  for (std::size_t i = 0; i < params->numMetrics; ++i) {
    added.emplace_back(params->ppMetricNames[i]);
    if (!is_known(added.back())) return CUPTI_ERROR_INVALID_PARAMETER;
    const bool mixed =
        added.front().starts_with("device__") != added.back().starts_with("device__");
    if (mixed) return CUPTI_ERROR_NOT_SUPPORTED;
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetConfigImageSize(
    CUpti_Profiler_Host_GetConfigImageSize_Params* params) {
  params->configImageSize = params->pHostObject->added.size();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params*) {
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* params) {
  params->numOfPasses = passes(params->configImageSize);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostEvaluateToGpuValues(
    CUpti_Profiler_Host_EvaluateToGpuValues_Params* params) {
  Image image;
  std::memcpy(&image, params->pCounterDataImage, sizeof image);
  const auto kernels = static_cast<double>(image.kernels[params->rangeIndex]);
  for (std::size_t i = 0; i < params->numMetrics; ++i) {
    const std::string name = params->ppMetricNames[i];
    params->pMetricValues[i] = name == "ratio__nothing.pct" ? std::nan("")
                               : name == "sm__twice.sum"    ? 2 * kernels
                                                            : kernels;
  }
  return called("Evaluate");
}

CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params*) {
  return called("Initialize");
}

CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* params) {
  params->pChipName = params->deviceIndex == 0 ? "FAKE100" : "FAKE200";
  return called("GetChipName");
}

CUptiResult cuptiProfilerGetCounterAvailability(
    CUpti_Profiler_GetCounterAvailability_Params* params) {
  params->counterAvailabilityImageSize = 8;
  return called("GetCounterAvailability");
}

CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params* params) {
  const CUptiResult result = called("Enable");
  if (result != CUPTI_SUCCESS) return result;
  if (fake().enabled) return CUPTI_ERROR_INVALID_OPERATION;
  fake().enabled = true;
  params->pRangeProfilerObject = reinterpret_cast<CUpti_RangeProfiler_Object*>(&fake());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params*) {
  fake().enabled = false;
  return called("Disable");
}

CUptiResult cuptiRangeProfilerGetCounterDataSize(
    CUpti_RangeProfiler_GetCounterDataSize_Params* params) {
  params->counterDataSize = sizeof(Image);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params* params) {
  const Image empty{.initialized = 1};
  std::memcpy(params->pCounterData, &empty, sizeof empty);
  return called("CounterDataImageInitialize");
}

CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params* params) {
  Fake& state = fake();
  state.config = *params;
  state.pass = 0;
  const bool automatic = params->range == CUPTI_AutoRange;
  if (automatic != (params->replayMode == CUPTI_KernelReplay) || params->configSize == 0 ||
      params->numNestingLevels != 1 || params->minNestingLevel != 1) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return called(automatic ? "SetConfig kernel" : "SetConfig user");
}

CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params*) {
  Fake& state = fake();
  const CUptiResult result = called("Start");
  if (result != CUPTI_SUCCESS) return result;
  if (!state.enabled || state.started) return CUPTI_ERROR_INVALID_OPERATION;
  state.started = true;
  state.kernels.clear();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params*) {
  const CUptiResult result = called("PushRange");
  if (result != CUPTI_SUCCESS) return result;
  fake().in_range = true;
  fake().kernels.push_back(0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params*) {
  fake().in_range = false;
  return called("PopRange");
}

CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params* params) {
  Fake& state = fake();
  if (!state.started || state.in_range) return CUPTI_ERROR_INVALID_OPERATION;
  state.started = false;
  ++state.pass;
  const bool never = std::getenv("FAKE_COUNTERS_NEVER_DONE") != nullptr;
  const bool kernel_replay = state.config.replayMode == CUPTI_KernelReplay;
  params->isAllPassSubmitted =
      !never && (kernel_replay || state.pass == passes(state.config.configSize));
  return called("Stop");
}

CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params* params) {
  Fake& state = fake();
  const CUptiResult result = called("DecodeData");
  if (result != CUPTI_SUCCESS) return result;
  Image image;
  std::memcpy(&image, state.config.pCounterDataImage, sizeof image);
  if (image.initialized == 0) return CUPTI_ERROR_INVALID_PARAMETER;
  for (std::size_t i = 0; i < state.kernels.size(); ++i) {
    if (i >= state.config.maxRangesPerPass) {
      ++params->numOfRangeDropped;
    } else {
      image.kernels[i] += state.kernels[i];
      image.ranges = i + 1;
    }
  }
  std::memcpy(state.config.pCounterDataImage, &image, sizeof image);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerGetCounterDataInfo(
    CUpti_RangeProfiler_GetCounterDataInfo_Params* params) {
  Image image;
  std::memcpy(&image, params->pCounterDataImage, sizeof image);
  params->numTotalRanges = image.ranges;
  return CUPTI_SUCCESS;
}

}  // extern "C"
