#include "profiling/clocks.hpp"

#include <nlohmann/json.hpp>

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

std::optional<NvmlDevice> fake_device(const char* library) {
  const ScopedVariable path("REPROLAB_NVML", library);
  std::string why_not;
  const auto nvml = Nvml::load(&why_not);
  if (!nvml) return std::nullopt;
  return nvml->device("0000:17:00.0", "", &why_not);
}

/// Waits until the observer has taken `count` snapshots, at most a second.
void wait_for_snapshots(const ClockObserver& observer, std::size_t count) {
  for (int i = 0; i < 1000 && observer.summary().snapshots < count; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(ClockSummary, MinMedianMaxAndReasons) {
  const auto summary = summarize({{1980, 3201, 300, 40, 0x1},
                                  {1200, 3201, 700, 60, 0x4},
                                  {1970, 3201, 650, 55, 0x24},
                                  {1960, 3201, 640, 50, 0}});
  EXPECT_EQ(json(summary), json::parse(R"({
    "sm_mhz": {"min": 1200.0, "median": 1965.0, "max": 1980.0},
    "memory_mhz": {"min": 3201.0, "median": 3201.0, "max": 3201.0},
    "power_w": {"min": 300.0, "median": 645.0, "max": 700.0},
    "temperature_c": {"min": 40.0, "median": 52.5, "max": 60.0},
    "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"]})"));
}

TEST(ClockSummary, LeavesOutWhatIsMissingAndSaysNullWhereNothingIsKnown) {
  EXPECT_EQ(json(ClockSummary{}), json::parse(R"({"sm_mhz": null, "memory_mhz": null,
    "power_w": null, "temperature_c": null, "throttle_reasons": null})"));
  ClockSnapshot idle, with, without;
  idle.event_reasons = clock_event_gpu_idle;
  EXPECT_EQ(json(summarize({idle}))["throttle_reasons"], json::array()) << "none seen";
  with.power_w = 500;
  const auto summary = summarize({without, with, without});
  EXPECT_EQ(summary.snapshots, 3u);
  EXPECT_EQ(summary.power_w->median, 500);
  EXPECT_FALSE(summary.sm_mhz);
}

TEST(ClockObserver, SeesEveryValueOverThePass) {
  const ScopedVariable sm("FAKE_NVML_SM_MHZ", "1980,1200"), memory("FAKE_NVML_MEMORY_MHZ", "3201"),
      power("FAKE_NVML_POWER_MW", "412500"), temperature("FAKE_NVML_TEMPERATURE_C", "45"),
      reasons("FAKE_NVML_REASONS", "0x4,0x80");
  ClockObserver observer(fake_device(FAKE_NVML), milliseconds(1));
  observer.start();
  wait_for_snapshots(observer, 8);
  observer.stop();

  const auto summary = observer.summary();
  EXPECT_GE(summary.snapshots, 8u);
  EXPECT_EQ(summary.sm_mhz->min, 1200);
  EXPECT_EQ(summary.sm_mhz->max, 1980);
  EXPECT_EQ(summary.memory_mhz->median, 3201);
  EXPECT_DOUBLE_EQ(summary.power_w->median, 412.5);
  EXPECT_EQ(summary.temperature_c->median, 45);
  EXPECT_EQ(summary.throttle_reasons,
            (std::vector<std::string>{"sw_power_cap", "hw_power_brake_slowdown"}));
}

TEST(ClockObserver, AShortPassStillHasItsTwoEnds) {
  const ScopedVariable sm("FAKE_NVML_SM_MHZ", "1980");
  ClockObserver observer(fake_device(FAKE_NVML), std::chrono::seconds(60));
  observer.start();
  observer.stop();
  EXPECT_EQ(observer.summary().snapshots, 2u);
  observer.start();  // discards the first pass
  observer.stop();
  EXPECT_EQ(observer.summary().snapshots, 2u);
}

TEST(ClockObserver, AnOldDriverLacksOneValueAndNamesAnotherDifferently) {
  const ScopedVariable sm("FAKE_NVML_SM_MHZ", "1980"), reasons("FAKE_NVML_REASONS", "0x8");
  const ClockObserver observer(fake_device(FAKE_NVML_OF_OLD_DRIVER));
  EXPECT_FALSE(observer.snapshot().temperature_c);
  EXPECT_EQ(observer.snapshot().sm_mhz, 1980);
  EXPECT_EQ(observer.snapshot().event_reasons, 0x8u);
}

TEST(ClockObserver, AFunctionThatFailsOrNoDeviceGivesNull) {
  const ScopedVariable sm("FAKE_NVML_SM_MHZ", "1980"),
      fail("FAKE_NVML_FAIL", "nvmlDeviceGetPowerUsage");
  for (const bool known : {true, false}) {
    ClockObserver observer(known ? fake_device(FAKE_NVML) : std::nullopt);
    observer.start();
    observer.stop();
    const auto summary = observer.summary();
    EXPECT_FALSE(summary.power_w);
    EXPECT_EQ(summary.sm_mhz.has_value(), known);
    EXPECT_EQ(summary.snapshots, known ? 2u : 0u);
    EXPECT_EQ(summary.throttle_reasons.has_value(), known);
  }
}

}  // namespace
}  // namespace reprolab::profiling
