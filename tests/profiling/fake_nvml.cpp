// A fake NVML that needs no driver. Each value comes from an environment variable with one number,
// or several separated by commas, which are used one after another. FAKE_NVML_FAIL names a function
// that returns FAKE_NVML_ERROR, or else "Not Supported". FAKE_NVML_SM_CLOCKS are the clocks that
// can be locked; FAKE_NVML_LOG names a file that records locks and resets, each when it begins and
// when it is done, FAKE_NVML_SLOW_MS later. With FAKE_NVML_ANY_GPU, it knows every GPU.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int success = 0, not_supported = 3, no_permission = 4, not_found = 6;

bool fails(const char* function) {
  const char* name = std::getenv("FAKE_NVML_FAIL");
  return name && std::string(name) == function;
}

int error_to_return() {
  const char* error = std::getenv("FAKE_NVML_ERROR");
  return error ? std::atoi(error) : not_supported;
}

std::vector<unsigned long long> numbers(const char* variable, const char* otherwise) {
  const char* text = std::getenv(variable);
  std::vector<unsigned long long> values;
  std::istringstream stream(text ? text : otherwise);
  for (std::string item; std::getline(stream, item, ',');) {
    values.push_back(std::strtoull(item.c_str(), nullptr, 0));
  }
  return values;
}

unsigned long long next(const char* variable) {
  static std::map<std::string, unsigned> used;
  const auto values = numbers(variable, "0");
  return values[used[variable]++ % values.size()];
}

/// Adds a line to the log: the process, and what it does.
void record(const std::string& what) {
  const char* file = std::getenv("FAKE_NVML_LOG");
  if (!file) return;
  const std::string line = std::to_string(getpid()) + " " + what + "\n";
  const int log = open(file, O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (write(log, line.data(), line.size()) < 0) std::abort();
  close(log);
}

int set_slowly(const char* function, const std::string& begins, const std::string& done) {
  if (fails(function)) return error_to_return();
  record(begins);
  usleep(1000 * static_cast<unsigned>(numbers("FAKE_NVML_SLOW_MS", "0")[0]));
  record(done);
  return success;
}

int give_list(const std::vector<unsigned long long>& values, unsigned* count, unsigned* out) {
  *count = static_cast<unsigned>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<unsigned>(values[i]);
  return success;
}

template <class Value>
int answer(const char* function, const char* variable, Value* value) {
  if (fails(function)) return error_to_return();
  *value = static_cast<Value>(next(variable));
  return success;
}

int the_gpu;

}  // namespace

extern "C" {

int nvmlInit_v2() { return fails("nvmlInit_v2") ? 9 : success; }
int nvmlShutdown() { return success; }

const char* nvmlErrorString(int error) {
  return error == not_supported   ? "Not Supported"
         : error == no_permission ? "Insufficient Permissions"
         : error == not_found     ? "Not Found"
                                  : "Uninitialized";
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.65.06", length);
  return success;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  if (!std::getenv("FAKE_NVML_ANY_GPU") && std::string(id) != "0000:17:00.0") return not_found;
  *handle = &the_gpu;
  return success;
}

int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  return answer("nvmlDeviceGetClockInfo", type == 1 ? "FAKE_NVML_SM_MHZ" : "FAKE_NVML_MEMORY_MHZ",
                mhz);
}

int nvmlDeviceGetPowerUsage(void*, unsigned* mw) {
  return answer("nvmlDeviceGetPowerUsage", "FAKE_NVML_POWER_MW", mw);
}

int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* mw) {
  return answer("nvmlDeviceGetEnforcedPowerLimit", "FAKE_NVML_LIMIT_MW", mw);
}

int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* mask) {
  return answer("nvmlDeviceGetCurrentClocksEventReasons", "FAKE_NVML_REASONS", mask);
}

int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  return answer("nvmlDeviceGetTemperature", "FAKE_NVML_TEMPERATURE_C", celsius);
}

int nvmlDeviceGetSupportedMemoryClocks(void*, unsigned* count, unsigned* mhz) {
  if (fails("nvmlDeviceGetSupportedMemoryClocks")) return error_to_return();
  return give_list({3201, 2619, 345}, count, mhz);
}

/// Another list for each memory clock: FAKE_NVML_SM_CLOCKS for the highest one.
int nvmlDeviceGetSupportedGraphicsClocks(void*, unsigned memory_mhz, unsigned* count,
                                         unsigned* mhz) {
  if (memory_mhz != 3201) return give_list({memory_mhz}, count, mhz);
  return give_list(numbers("FAKE_NVML_SM_CLOCKS", "1980,1410,1395,210"), count, mhz);
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned instances[2];
};

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo* infos) {
  const char* pids = std::getenv("FAKE_NVML_PIDS");
  *count = 0;
  if (pids == nullptr) return success;
  for (const auto pid : numbers("FAKE_NVML_PIDS", "")) {
    infos[(*count)++] = {static_cast<unsigned>(pid), 1, {0, 0}};
  }
  return success;
}

int nvmlDeviceSetGpuLockedClocks(void*, unsigned least, unsigned most) {
  return set_slowly("nvmlDeviceSetGpuLockedClocks",
                    "locking " + std::to_string(least) + "-" + std::to_string(most), "locked");
}

int nvmlDeviceResetGpuLockedClocks(void*) {
  return set_slowly("nvmlDeviceResetGpuLockedClocks", "resetting", "reset");
}

}  // extern "C"
