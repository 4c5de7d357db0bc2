// A fake NVML that needs no driver. Each value comes from an environment variable with one number,
// or several separated by commas, which are used in turn. FAKE_NVML_FAIL names a function that
// returns "Not Supported". If compiled with FAKE_NVML_SMALL, it lacks the temperature and has the
// clock event reasons only under their older name, like an old driver.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int success = 0, not_supported = 3, not_found = 6;

bool fails(const char* function) {
  const char* name = std::getenv("FAKE_NVML_FAIL");
  return name && std::string(name) == function;
}

unsigned long long next(const char* variable, std::atomic<unsigned>& turn) {
  const char* text = std::getenv(variable);
  std::vector<unsigned long long> values;
  std::istringstream stream(text ? text : "0");
  for (std::string item; std::getline(stream, item, ',');) {
    values.push_back(std::strtoull(item.c_str(), nullptr, 0));
  }
  return values[turn++ % values.size()];
}

template <class Value>
int answer(const char* function, const char* variable, std::atomic<unsigned>& turn, Value* value) {
  if (fails(function)) return not_supported;
  *value = static_cast<Value>(next(variable, turn));
  return success;
}

std::atomic<unsigned> sm_turn, memory_turn, power_turn, limit_turn, reasons_turn;
int the_gpu;

}  // namespace

extern "C" {

int nvmlInit_v2() { return fails("nvmlInit_v2") ? 9 : success; }
int nvmlShutdown() { return success; }

const char* nvmlErrorString(int error) {
  return error == not_supported ? "Not Supported"
         : error == not_found   ? "Not Found"
                                : "Uninitialized";
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.65.06", length);
  return success;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  if (std::string(id) != "0000:17:00.0") return not_found;
  *handle = &the_gpu;
  return success;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  if (std::string(uuid) != "GPU-fake") return not_found;
  *handle = &the_gpu;
  return success;
}

int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  return type == 1 ? answer("nvmlDeviceGetClockInfo", "FAKE_NVML_SM_MHZ", sm_turn, mhz)
                   : answer("nvmlDeviceGetClockInfo", "FAKE_NVML_MEMORY_MHZ", memory_turn, mhz);
}

int nvmlDeviceGetPowerUsage(void*, unsigned* mw) {
  return answer("nvmlDeviceGetPowerUsage", "FAKE_NVML_POWER_MW", power_turn, mw);
}

int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* mw) {
  return answer("nvmlDeviceGetEnforcedPowerLimit", "FAKE_NVML_LIMIT_MW", limit_turn, mw);
}

#ifdef FAKE_NVML_SMALL
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* mask) {
  return answer("nvmlDeviceGetCurrentClocksThrottleReasons", "FAKE_NVML_REASONS", reasons_turn,
                mask);
}
#else
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* mask) {
  return answer("nvmlDeviceGetCurrentClocksEventReasons", "FAKE_NVML_REASONS", reasons_turn, mask);
}

int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  static std::atomic<unsigned> turn;
  return answer("nvmlDeviceGetTemperature", "FAKE_NVML_TEMPERATURE_C", turn, celsius);
}
#endif

}  // extern "C"
