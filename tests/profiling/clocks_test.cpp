// NVML, and the observer of clocks, with a fake NVML (fake_nvml.cpp).
#include "profiling/clocks.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "tests/profiling/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::profiling {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

std::optional<NvmlDevice> fake_device(const char* library) {
  const ScopedVariable path("REPROLAB_NVML", library);
  std::string why_not;
  return find_nvml_device("0000:17:00.0", "", &why_not);
}

TEST(Nvml, ThatCannotBeUsedSaysWhy) {
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlInit_v2");
  for (const auto& [library, part] : std::map<std::string, std::string>{
           {"/nonexistent/libnvidia-ml.so.1", "/nonexistent/libnvidia-ml.so.1"},
           {FAKE_CUPTI, "nvmlInit_v2, nvmlShutdown, nvmlDeviceGetHandleByPciBusId_v2"},
           {FAKE_NVML, "Uninitialized"}}) {
    const ScopedVariable loaded("REPROLAB_NVML", library);
    std::string why_not;
    EXPECT_FALSE(find_nvml_device("0000:17:00.0", "", &why_not));
    EXPECT_TRUE(contains(why_not, part));
  }
}

TEST(Nvml, FindsTheGpuByBusIdOrUuid) {
  const ScopedVariable library("REPROLAB_NVML", FAKE_NVML), limit("FAKE_NVML_LIMIT_MW", "700000");
  std::string why_not;
  EXPECT_TRUE(find_nvml_device("0000:17:00.0", "GPU-other", &why_not));
  EXPECT_FALSE(find_nvml_device("0000:99:00.0", "GPU-other", &why_not));
  EXPECT_TRUE(contains(why_not, "0000:99:00.0 (GPU-other): Not Found"));
  const auto device = find_nvml_device("0000:99:00.0", "GPU-fake", &why_not);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->driver_version(), "580.65.06");
  EXPECT_DOUBLE_EQ(device->power_limit_w().value(), 700.0);
}

TEST(ClockSummary, HasMinimumMedianAndMaximumOfWhatIsThere) {
  const auto summary = summarize({{1980, 3201, 300, {}, 0x1},
                                  {1200, 3201, 700, {}, 0x4},
                                  {1970, 3201, {}, {}, 0x24},
                                  {1960, 3201, 640, {}, 0}});
  EXPECT_EQ(summary, json::parse(R"({
    "sm_mhz": {"min": 1200.0, "median": 1965.0, "max": 1980.0},
    "memory_mhz": {"min": 3201.0, "median": 3201.0, "max": 3201.0},
    "power_w": {"min": 300.0, "median": 640.0, "max": 700.0},
    "temperature_c": null,
    "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"]})"));
  EXPECT_EQ(summarize({{{}, {}, {}, {}, clock_event_gpu_idle}}).at("throttle_reasons"),
            json::array())
      << "none seen";
}

TEST(ClockObserver, SeesEveryValueOverThePass) {
  const ScopedVariable sm("FAKE_NVML_SM_MHZ", "1980,1200"), memory("FAKE_NVML_MEMORY_MHZ", "3201"),
      power("FAKE_NVML_POWER_MW", "412500"), temperature("FAKE_NVML_TEMPERATURE_C", "45"),
      reasons("FAKE_NVML_REASONS", "0x4,0x80");
  ClockObserver observer(fake_device(FAKE_NVML), milliseconds(1));
  for (int i = 0; i < 1000 && observer.snapshots().size() < 8; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  observer.stop();
  EXPECT_GE(observer.snapshots().size(), 8u);
  const json summary = observer.summary();
  EXPECT_EQ(summary.at("sm_mhz").at("min"), 1200);
  EXPECT_EQ(summary.at("sm_mhz").at("max"), 1980);
  EXPECT_EQ(summary.at("memory_mhz").at("median"), 3201);
  EXPECT_EQ(summary.at("power_w").at("median"), 412.5);
  EXPECT_EQ(summary.at("temperature_c").at("median"), 45);
  EXPECT_EQ(summary.at("throttle_reasons"), (json{"sw_power_cap", "hw_power_brake_slowdown"}));
}

TEST(ClockObserver, GivesNullForAFunctionThatFailsAndWithoutADevice) {
  const ScopedVariable sm("FAKE_NVML_SM_MHZ", "1980"),
      fail("FAKE_NVML_FAIL", "nvmlDeviceGetPowerUsage");
  for (const bool known : {true, false}) {
    ClockObserver observer(known ? fake_device(FAKE_NVML) : std::nullopt);
    observer.stop();
    const json summary = observer.summary();
    EXPECT_TRUE(summary.at("power_w").is_null());
    EXPECT_EQ(summary.at("sm_mhz").is_null(), !known);
    EXPECT_EQ(summary.at("throttle_reasons").is_null(), !known);
  }
}

}  // namespace
}  // namespace reprolab::profiling
