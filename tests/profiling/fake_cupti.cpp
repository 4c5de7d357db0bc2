// A fake CUPTI that needs no driver: records are made by fake_cupti_launch and delivered at the
// flush. FAKE_CUPTI_FAIL="function=code" makes one function fail; FAKE_CUPTI_DROPPED is the number
// of records reported as dropped.
#include <cupti.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

struct Fake {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<int> enabled;
  std::vector<std::uint64_t> tags;
  std::vector<std::vector<std::uint8_t>> records;
  std::uint32_t correlation_id = 0;
};

Fake& fake() {
  static Fake instance;
  return instance;
}

CUptiResult result_of(const std::string& function) {
  const char* text = std::getenv("FAKE_CUPTI_FAIL");
  if (!text || std::strncmp(text, (function + "=").c_str(), function.size() + 1) != 0) {
    return CUPTI_SUCCESS;
  }
  return static_cast<CUptiResult>(std::atoi(text + function.size() + 1));
}

/// Every record takes as many bytes, whatever its kind.
constexpr std::size_t record_bytes = 512;

}  // namespace

extern "C" {

void fake_cupti_launch(const char* name, std::uint64_t start_ns, std::uint64_t end_ns) {
  Fake& state = fake();
  CUpti_ActivityKernel9 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  if (!state.enabled.count(kernel.kind)) return;
  kernel.name = name;
  kernel.start = start_ns;
  kernel.end = end_ns;
  kernel.correlationId = ++state.correlation_id;
  const auto* data = reinterpret_cast<const std::uint8_t*>(&kernel);
  state.records.emplace_back(data, data + sizeof kernel);
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : result == CUPTI_ERROR_HARDWARE_BUSY ? "CUPTI_ERROR_HARDWARE_BUSY"
                                                : "CUPTI_ERROR_OTHER";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  fake().request = request;
  fake().complete = complete;
  return result_of("cuptiActivityRegisterCallbacks");
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const CUptiResult result = result_of("cuptiActivityEnable");
  if (result == CUPTI_SUCCESS) fake().enabled.insert(kind);
  return result;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  fake().enabled.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  Fake& state = fake();
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, max_records = 0, used = 0;
  for (const auto& record : state.records) {
    if (buffer && used + record_bytes > size) {
      state.complete(nullptr, 0, buffer, size, used);
      buffer = nullptr;
    }
    if (!buffer) {
      state.request(&buffer, &size, &max_records);
      used = 0;
    }
    std::memcpy(buffer + used, record.data(), record.size());
    used += record_bytes;
  }
  if (buffer) state.complete(nullptr, 0, buffer, size, used);
  state.records.clear();
  return result_of("cuptiActivityFlushAll");
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                       CUpti_Activity** record) {
  auto* next = *record ? reinterpret_cast<std::uint8_t*>(*record) + record_bytes : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  const char* text = std::getenv("FAKE_CUPTI_DROPPED");
  *dropped = text ? std::strtoull(text, nullptr, 10) : 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                   std::uint64_t id) {
  fake().tags.push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                  std::uint64_t* last) {
  *last = fake().tags.back();
  fake().tags.pop_back();
  return CUPTI_SUCCESS;
}

}  // extern "C"
