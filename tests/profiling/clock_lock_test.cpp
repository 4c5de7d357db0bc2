// Locks and resets, recorded by a fake NVML, for every way in which the locking program may end.
#include "profiling/clock_lock.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "tests/profiling/lock_log.hpp"
#include "tests/profiling/testing.hpp"
#include "tests/started_program.hpp"

namespace reprolab::profiling {
namespace {

using Lines = std::vector<std::string>;

const Lines whole_life = whole_lock(1410);

void ignore(unsigned) {}

ClockPolicy at(unsigned mhz) { return {.kind = ClockPolicy::Kind::mhz, .mhz = mhz}; }

class ClockLocks : public testing::Test {
 protected:
  /// A GPU of this test only, because one GPU has one guardian and tests run in parallel; not a
  /// real one.
  const GpuAddress gpu_{"test-" + std::to_string(getpid()), ""};
  const LockLog log_;
  const ScopedVariable library_{"REPROLAB_NVML", FAKE_NVML}, any_gpu_{"FAKE_NVML_ANY_GPU", "1"};

  Lines log() const { return log_.lines(); }

  void expect_refusal(ClockPolicy wanted) const {
    expect_refused<std::runtime_error>([&] { ClockLock lock(gpu_, wanted, ignore); }, "clock");
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
  unsigned announced = 0;
  {
    const ClockLock lock(gpu_, at(1410), [&](unsigned mhz) {
      announced = mhz;
      EXPECT_EQ(log(), Lines{});  // it is said before
    });
    EXPECT_EQ(lock.mhz(), 1410u);
    EXPECT_EQ(log(), (Lines{"locking 1410-1410", "locked"}));
    EXPECT_NE(log_.guardian(), getpid());
  }
  EXPECT_EQ(announced, 1410u);
  EXPECT_EQ(log(), whole_life);
  EXPECT_EQ(waitpid(-1, nullptr, 0), -1) << "the guardian has been waited for";
}

TEST_F(ClockLocks, MayBeAtTheHighestClockHoweverLongTheList) {
  std::string all = "345,1755,990";
  for (int mhz = 210; mhz < 1210; ++mhz) all += "," + std::to_string(mhz);
  const ScopedVariable clocks("FAKE_NVML_SM_CLOCKS", all);
  const ClockLock lock(gpu_, parse_clock_policy("max"), ignore);
  EXPECT_EQ(lock.mhz(), 1755u);
  EXPECT_EQ(log().front(), "locking 1755-1755");
}

TEST_F(ClockLocks, OfAClockThatTheGpuLacksNameTheNearest) {
  for (const unsigned wanted : {1400u, 1405u, 5000u, 1u}) expect_refusal(at(wanted));
  expect_refused<std::runtime_error>([&] { clock_to_lock(gpu_, at(1)); }, "nearest");
  EXPECT_EQ(clock_to_lock(gpu_, parse_clock_policy("max")), 1980u);
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
        {"", "", FAKE_NVML_OF_OLD_DRIVER},
        {"", "", "/nonexistent.so"}}) {
    const ScopedVariable failing("FAKE_NVML_FAIL", fails), with("FAKE_NVML_ERROR", error),
        nvml("REPROLAB_NVML", library);
    expect_refusal(at(1410));
  }
  EXPECT_EQ(log(), Lines{});
}

TEST_F(ClockLocks, NeedTheirAnnouncement) {
  const auto fails = [](unsigned) { throw std::runtime_error("stdout is gone"); };
  EXPECT_EQ(message_of<std::runtime_error>([&] { ClockLock lock(gpu_, at(1410), fails); }),
            "stdout is gone");
  EXPECT_EQ(log(), Lines{});
}

TEST_F(ClockLocks, AreOfOneProgramAtATime) {
  StartedProgram first({HOLD_CLOCK_LOCK, gpu_.pci_bus_id, "1410"});
  log_.wait_for("locked");
  expect_refusal(at(1395));
  { const ClockLock other_gpu({gpu_.pci_bus_id + "-other", ""}, at(1395), ignore); }
  first.release();
  EXPECT_EQ(first.errors(), "");
  EXPECT_EQ(ClockLock(gpu_, at(1395), ignore).mhz(), 1395u);
}

TEST_F(ClockLocks, AreNotEndedByAForkedProcess) {
  std::optional<ClockLock> lock;
  lock.emplace(gpu_, at(1410), ignore);
  const pid_t forked = fork();
  if (forked == 0) {
    lock.reset();
    _exit(0);
  }
  waitpid(forked, nullptr, 0);
  expect_refusal(at(1410));
  EXPECT_EQ(log(), (Lines{"locking 1410-1410", "locked"}));
  lock.reset();
  EXPECT_EQ(log(), whole_life);
}

/// The state of the program when the signal arrives.
enum class Moment { starting, locking, holding, resetting };

TEST_F(ClockLocks, AreReleasedHoweverTheProgramEnds) {
  struct End {
    int signal;
    Moment moment;
    bool whole_group = false;  ///< As by Ctrl-C.
  };
  const ScopedVariable slow("FAKE_NVML_SLOW_MS", "100");
  for (const auto& [signal, moment, whole_group] : {End{SIGTERM, Moment::starting},
                                                    {SIGTERM, Moment::locking},
                                                    {SIGTERM, Moment::holding},
                                                    {SIGTERM, Moment::resetting},
                                                    {SIGKILL, Moment::starting},
                                                    {SIGKILL, Moment::locking},
                                                    {SIGKILL, Moment::holding},
                                                    {SIGKILL, Moment::resetting},
                                                    {SIGKILL, Moment::holding, true},
                                                    {SIGINT, Moment::locking, true},
                                                    {SIGINT, Moment::holding, true},
                                                    {SIGHUP, Moment::holding, true}}) {
    SCOPED_TRACE(testing::Message()
                 << "SIG" << sigabbrev_np(signal) << " at moment " << static_cast<int>(moment));
    log_.clear();
    StartedProgram program({HOLD_CLOCK_LOCK, gpu_.pci_bus_id, "1410"});
    if (moment != Moment::starting) log_.wait_for("locking 1410-1410");
    if (moment > Moment::locking) log_.wait_for("locked");
    if (moment == Moment::resetting) {
      program.release();
      log_.wait_for("resetting");
    }
    whole_group ? program.send_to_group(signal) : program.send(signal);
    const int status = program.wait();
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(program.errors(), "");
    if (moment != Moment::starting || !log().empty()) {
      EXPECT_EQ(log(), whole_life);
    }
  }
}

TEST_F(ClockLocks, AreReleasedWhileAForkedProcessLingers) {
  for (const bool killed : {true, false}) {
    log_.clear();
    StartedProgram program({HOLD_CLOCK_LOCK, gpu_.pci_bus_id, "1410", "linger"});
    log_.wait_for("locked");
    const pid_t forked = std::stoi(program.first_line());
    killed ? program.send(SIGKILL) : program.release();
    EXPECT_EQ(program.errors(), "");
    EXPECT_EQ(log(), whole_life);
    EXPECT_EQ(kill(forked, SIGKILL), 0) << "it was still there";
  }
}

/// As experiments/__main__.py runs programs.
TEST_F(ClockLocks, AreReleasedWhenTheScriptEndsThatRunsTheProgram) {
  const std::string line = "setpriv --pdeathsig TERM -- \"$0\" \"$1\" 1410; true";
  StartedProgram script({"sh", "-c", line, HOLD_CLOCK_LOCK, gpu_.pci_bus_id});
  log_.wait_for("locked");
  script.send(SIGKILL);
  EXPECT_EQ(script.errors(), "");
  EXPECT_EQ(log(), whole_life);
}

TEST_F(ClockLocks, SurviveSignalsToTheGuardian) {
  StartedProgram program({HOLD_CLOCK_LOCK, gpu_.pci_bus_id, "1410"});
  log_.wait_for("locked");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) kill(log_.guardian(), signal);
  expect_refusal(at(1410));
  program.release();
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(program.errors(), "");
  EXPECT_EQ(log(), whole_life);
}

TEST_F(ClockLocks, ThatCannotBeResetNameTheCommand) {
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlDeviceResetGpuLockedClocks");
  for (const bool killed : {false, true}) {
    log_.clear();
    StartedProgram program({HOLD_CLOCK_LOCK, gpu_.pci_bus_id, "1410"});
    log_.wait_for("locked");
    killed ? program.send(SIGKILL) : program.release();
    EXPECT_TRUE(contains(program.errors(), gpu_.pci_bus_id));
  }
}

TEST_F(ClockLocks, WhoseGuardianIsKilledNameTheCommand) {
  StartedProgram program({HOLD_CLOCK_LOCK, gpu_.pci_bus_id, "1410"});
  log_.wait_for("locked");
  kill(log_.guardian(), SIGKILL);
  program.release();
  EXPECT_TRUE(contains(program.errors(), gpu_.pci_bus_id));
}

}  // namespace
}  // namespace reprolab::profiling
