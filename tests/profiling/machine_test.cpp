// The machine's free memory, NVML, the observer of clocks, and locks for every way in which the
// locking program may end, with a fake NVML (fake_nvml.cpp).
#include "profiling/clocks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "profiling/machine.hpp"
#include "tests/profiling/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::profiling {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

std::optional<NvmlDevice> fake_device(const char* library) {
  const ScopedVariable path("REPROLAB_NVML", library);
  std::string why_not;
  return find_nvml_device("0000:17:00.0", &why_not);
}

TEST(Nvml, ThatCannotBeUsedSaysWhy) {
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlInit_v2");
  for (const auto& [library, part] : std::map<std::string, std::string>{
           {"/nonexistent/libnvidia-ml.so.1", "/nonexistent/libnvidia-ml.so.1"},
           {FAKE_CUPTI, "nvmlInit_v2, nvmlShutdown, nvmlDeviceGetHandleByPciBusId_v2"},
           {FAKE_NVML, "Uninitialized"}}) {
    const ScopedVariable loaded("REPROLAB_NVML", library);
    std::string why_not;
    EXPECT_FALSE(find_nvml_device("0000:17:00.0", &why_not));
    EXPECT_TRUE(contains(why_not, part));
  }
}

TEST(Nvml, FindsTheGpuByItsBusId) {
  const ScopedVariable library("REPROLAB_NVML", FAKE_NVML), limit("FAKE_NVML_LIMIT_MW", "700000");
  std::string why_not;
  EXPECT_FALSE(find_nvml_device("0000:99:00.0", &why_not));
  EXPECT_TRUE(contains(why_not, "0000:99:00.0: Not Found"));
  const auto device = find_nvml_device("0000:17:00.0", &why_not);
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
  const json summary = summarize(observer.snapshots());
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
    const json summary = summarize(observer.snapshots());
    EXPECT_TRUE(summary.at("power_w").is_null());
    EXPECT_EQ(summary.at("sm_mhz").is_null(), !known);
    EXPECT_EQ(summary.at("throttle_reasons").is_null(), !known);
  }
}

using Lines = std::vector<std::string>;

const Lines whole_life = whole_lock(1410);

ClockPolicy at(unsigned mhz) { return {.kind = ClockPolicy::Kind::mhz, .mhz = mhz}; }

class ClockLocks : public testing::Test {
 protected:
  const std::string gpu_ = "0000:00:00.0";  // not a real one
  const LockLog log_;
  const ScopedVariable library_{"REPROLAB_NVML", FAKE_NVML}, any_gpu_{"FAKE_NVML_ANY_GPU", "1"};

  Lines log() const { return log_.lines(); }

  /// The process, in its own group, that holds a lock until it is ended, beside one that it forked.
  pid_t start() const {
    const pid_t program = fork();
    if (program == 0) {
      setpgid(0, 0);
      std::signal(SIGINT, SIG_DFL);  // ignored by what a shell has started in the background
      const ClockLock lock(gpu_, at(1410));
      fork();
      pause();
    }
    return program;
  }

  void expect_refusal(ClockPolicy wanted) const {
    EXPECT_THROW(ClockLock(gpu_, wanted), std::runtime_error);
  }
};

TEST(ClockPolicies, AreReadFromText) {
  EXPECT_FALSE(parse_clock_policy("observe").locks());
  EXPECT_EQ(parse_clock_policy("max").kind, ClockPolicy::Kind::max);
  EXPECT_TRUE(parse_clock_policy("max").locks());
  EXPECT_EQ(parse_clock_policy("1410").mhz, 1410u);
  for (const char* text : {"", "Max", "0", "-1", "1410MHz", " 1410", "1.4", "99999999999"}) {
    EXPECT_THROW(parse_clock_policy(text), std::invalid_argument) << text;
  }
}

TEST_F(ClockLocks, AreSetOnceAndGivenBackBeforeTheProgramGoesOn) {
  const ScopedVariable slow("FAKE_NVML_SLOW_MS", "50");
  {
    const ClockLock lock(gpu_, at(1410));
    EXPECT_EQ(lock.mhz(), 1410u);
    EXPECT_EQ(log(), (Lines{"locking 1410-1410", "locked"}));
    EXPECT_NE(log_.guardian(), getpid());
  }
  EXPECT_EQ(log(), whole_life);
  EXPECT_EQ(waitpid(-1, nullptr, 0), -1) << "the guardian has been waited for";
}

TEST_F(ClockLocks, MayBeAtTheHighestClock) {
  const ScopedVariable clocks("FAKE_NVML_SM_CLOCKS", "345,1755,990");
  const ClockLock lock(gpu_, parse_clock_policy("max"));
  EXPECT_EQ(lock.mhz(), 1755u);
  EXPECT_EQ(log().front(), "locking 1755-1755");
}

TEST_F(ClockLocks, OfAClockThatTheGpuLacksNameTheNearest) {
  for (const auto& [wanted, nearest] :
       {std::pair{1400u, "1395"}, {1405u, "1410"}, {5000u, "1980"}, {1u, "210"}}) {
    const auto why = message_of<std::runtime_error>([&] { ClockLock(gpu_, at(wanted)); });
    EXPECT_NE(why.find(std::string("the nearest is ") + nearest), std::string::npos) << why;
    expect_refusal(at(wanted));
  }
  EXPECT_EQ(log(), Lines{});
}

/// They are then not reset either, which would end another program's lock.
TEST_F(ClockLocks, NeedPermissionAGpuThatCanAndADriver) {
  struct Lacking {
    const char *fails, *error, *library;
  };
  for (const auto& [fails, error, library] :
       {Lacking{"nvmlDeviceSetGpuLockedClocks", "4", FAKE_NVML},
        {"nvmlDeviceSetGpuLockedClocks", "3", FAKE_NVML},
        {"nvmlDeviceGetSupportedMemoryClocks", "3", FAKE_NVML},
        {"", "", "/nonexistent.so"}}) {
    const ScopedVariable failing("FAKE_NVML_FAIL", fails), with("FAKE_NVML_ERROR", error),
        nvml("REPROLAB_NVML", library);
    expect_refusal(at(1410));
  }
  EXPECT_EQ(log(), Lines{});
}

TEST_F(ClockLocks, AreNotEndedByAForkedProcess) {
  std::optional<ClockLock> lock;
  lock.emplace(gpu_, at(1410));
  const pid_t forked = fork();
  if (forked == 0) {
    lock.reset();
    _exit(0);
  }
  waitpid(forked, nullptr, 0);
  EXPECT_EQ(log(), (Lines{"locking 1410-1410", "locked"}));
  lock.reset();
  EXPECT_EQ(log(), whole_life);
}

TEST_F(ClockLocks, AreReleasedHoweverTheProgramEnds) {
  const ScopedVariable slow("FAKE_NVML_SLOW_MS", "100");
  for (const char* moment : {"locking 1410-1410", "locked"}) {
    for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
      for (const bool whole_group : {false, true}) {  // as by Ctrl-C
        SCOPED_TRACE(testing::Message() << moment << ", SIG" << sigabbrev_np(signal));
        log_.clear();
        const pid_t program = start();
        log_.wait_for(moment);
        kill(whole_group ? -program : program, signal);
        int status = 0;
        waitpid(program, &status, 0);
        EXPECT_TRUE(WIFSIGNALED(status)) << status;
        log_.wait_for("reset");
        kill(-program, SIGKILL);
        EXPECT_EQ(log(), whole_life);
      }
    }
  }
}

TEST_F(ClockLocks, ThatCannotBeResetNameTheCommand) {
  for (const bool guardian_is_killed : {false, true}) {
    log_.clear();
    const ScopedVariable fail("FAKE_NVML_FAIL",
                              guardian_is_killed ? "" : "nvmlDeviceResetGpuLockedClocks");
    testing::internal::CaptureStderr();
    {
      const ClockLock lock(gpu_, at(1410));
      for (const int signal : {SIGTERM, SIGINT, SIGHUP}) kill(log_.guardian(), signal);
      if (guardian_is_killed) kill(log_.guardian(), SIGKILL);
    }
    EXPECT_TRUE(
        contains(testing::internal::GetCapturedStderr(), "nvidia-smi -i " + gpu_ + " -rgc"));
  }
}

constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();

TEST(Machine, ReadsTheAvailableMemory) {
  const auto available = [](const char* text) {
    std::istringstream file(text);
    return memory_available_bytes(file);
  };
  EXPECT_EQ(available("MemTotal:  131891232 kB\nMemFree:  12 kB\nMemAvailable:   98304001 kB\n"),
            98304001ull * 1024);
  EXPECT_EQ(available("MemTotal: 7 kB\nMemFree: 5 kB\n"), unbounded);
}

TEST(Machine, AControlGroupLeavesItsLimitMinusItsUse) {
  const auto left = [](const char* limit, const char* used, const char* of_it = "") {
    std::istringstream max(limit), current(used), stat(of_it);
    return control_group_free_bytes(max, current, stat);
  };
  EXPECT_EQ(left("137438953472\n", "7438953472\n"), 130000000000u);
  EXPECT_EQ(left("1000\n", "1000\n"), 0u);
  EXPECT_EQ(left("1000\n", "900\n", "anon 500\nfile 400\ninactive_file 300\nshmem 0\n"), 400u);
  EXPECT_EQ(left("1000\n", "100\n", "inactive_file 300\n"), 1000u);
  EXPECT_EQ(left("1000\n", "1001\n"), 0u) << "as after the limit was lowered";
  EXPECT_EQ(left("max\n", "7438953472\n"), unbounded);
  EXPECT_EQ(left("1000\n", ""), unbounded);
}

}  // namespace
}  // namespace reprolab::profiling
