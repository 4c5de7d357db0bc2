#include "profiling/nvml.hpp"

#include <map>

#include "profiling/machine.hpp"
#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

TEST(Nvml, ThatCannotBeUsedSaysWhy) {
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlInit_v2");
  for (const auto& [library, line] : std::map<std::string, std::string>{
           {"/nonexistent/libnvidia-ml.so.1",
            "NVML, which comes with the NVIDIA driver, cannot be loaded "
            "(/nonexistent/libnvidia-ml.so.1: cannot open shared object file: No such file or "
            "directory)"},
           {FAKE_CUPTI,
            "NVML lacks nvmlInit_v2, nvmlShutdown, nvmlDeviceGetHandleByPciBusId_v2: update the "
            "NVIDIA driver"},
           {FAKE_NVML, "NVML does not start (Uninitialized): `nvidia-smi` should work first"}}) {
    const ScopedVariable loaded("REPROLAB_NVML", library);
    std::string why_not;
    EXPECT_FALSE(Nvml::load(&why_not));
    EXPECT_EQ(why_not, line);
  }
}

TEST(Nvml, FindsTheGpuByBusIdOrUuid) {
  const ScopedVariable library("REPROLAB_NVML", FAKE_NVML), limit("FAKE_NVML_LIMIT_MW", "700000");
  std::string why_not;
  const auto nvml = Nvml::load(&why_not);
  ASSERT_TRUE(nvml) << why_not;
  EXPECT_EQ(nvml->driver_version(), "580.65.06");
  EXPECT_TRUE(nvml->device("0000:17:00.0", "GPU-other", &why_not));
  EXPECT_TRUE(nvml->device("0000:99:00.0", "GPU-fake", &why_not));
  EXPECT_FALSE(nvml->device("0000:99:00.0", "GPU-other", &why_not));
  EXPECT_EQ(why_not, "NVML does not know the GPU 0000:99:00.0 (GPU-other): Not Found");
  const auto device = find_nvml_device("0000:17:00.0", "", &why_not);
  ASSERT_TRUE(device) << why_not;
  EXPECT_DOUBLE_EQ(device->power_limit_w().value(), 700.0);
}

TEST(Nvml, EveryClockEventReasonHasItsName) {
  const std::vector<std::string> names = {"gpu_idle",
                                          "applications_clocks_setting",
                                          "sw_power_cap",
                                          "hw_slowdown",
                                          "sync_boost",
                                          "sw_thermal_slowdown",
                                          "hw_thermal_slowdown",
                                          "hw_power_brake_slowdown",
                                          "display_clock_setting"};
  for (std::size_t bit = 0; bit < names.size(); ++bit) {
    EXPECT_EQ(decode_clock_event_reasons(1ull << bit), std::vector{names[bit]});
  }
  EXPECT_EQ(decode_clock_event_reasons(0x1ff), names);
  EXPECT_TRUE(decode_clock_event_reasons(0).empty());
  EXPECT_EQ(decode_clock_event_reasons(0x200 | 0x4),
            (std::vector<std::string>{"sw_power_cap", "unknown_0x200"}));
}

}  // namespace
}  // namespace reprolab::profiling
