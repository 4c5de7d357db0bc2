// Locks and resets as a fake NVML records them, however the program that locks comes to its end.
#include "profiling/clock_lock.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "tests/profiling/testing.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::profiling {
namespace {

using std::chrono::steady_clock;
using Lines = std::vector<std::string>;

const Lines whole_life = {"locking 1410-1410", "locked", "resetting", "reset"};

void ignore(unsigned) {}

ClockPolicy at(unsigned mhz) { return {.kind = ClockPolicy::Kind::mhz, .mhz = mhz}; }

class ClockLocks : public testing::Test {
 protected:
  /// Of this test alone, because one GPU has one guardian, and tests run beside each other.
  const GpuAddress gpu_{"0000:17:00.0", "GPU-of-test-" + std::to_string(getpid())};
  const OwnFolder folder_;
  const std::filesystem::path log_ = folder_.path() / "log";
  const ScopedVariable library_{"REPROLAB_NVML", FAKE_NVML}, log_name_{"FAKE_NVML_LOG", log_};

  /// What was called; which process did is the same for all.
  Lines log() const {
    Lines found;
    std::istringstream lines(content_of(log_));
    for (std::string process, what; lines >> process && std::getline(lines >> std::ws, what);) {
      found.push_back(what);
    }
    return found;
  }

  pid_t guardian() const { return std::atoi(content_of(log_).c_str()); }

  /// Waits until the log has that line.
  void wait_for(const std::string& line) const {
    const auto deadline = steady_clock::now() + std::chrono::seconds(30);
    for (Lines found = log(); std::ranges::find(found, line) == found.end(); found = log()) {
      ASSERT_LT(steady_clock::now(), deadline) << "never " << line;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::string refusal(ClockPolicy wanted) const {
    return message_of<std::runtime_error>([&] { ClockLock lock(gpu_, wanted, ignore); });
  }
};

/// A program that holds a lock, in a process group of its own.
class Program {
 public:
  explicit Program(const Lines& command) {
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC) + pipe2(out, O_CLOEXEC) + pipe2(err, O_CLOEXEC) != 0) std::abort();
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      std::vector<char*> words;
      for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      execvp(words[0], words.data());
      _exit(127);
    }
    setpgid(process_, process_);
    for (const int end : {in[0], out[1], err[1]}) close(end);
    in_ = in[1], out_ = out[0], err_ = err[0];
  }
  ~Program() {
    kill(-process_, SIGKILL);
    for (const int end : {in_, out_, err_}) close(end);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Asks the program to end by itself.
  void release() { close(std::exchange(in_, -1)); }
  void send(int signal) const { kill(process_, signal); }
  void send_to_group(int signal) const { kill(-process_, signal); }
  std::string first_line() const {
    std::string line;
    for (char c = 0; read(out_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  /// Waits until it has ended, and returns how.
  int wait() const {
    int status = 0;
    waitpid(process_, &status, 0);
    return status;
  }
  /// Waits until the program and its guardian have ended, and returns what they wrote to stderr.
  std::string errors() const {
    std::string text;
    std::array<char, 4096> chunk;
    for (;;) {
      pollfd readable{err_, POLLIN, 0};
      if (poll(&readable, 1, 30'000) != 1) return text + " and something runs on";
      const ssize_t bytes = read(err_, chunk.data(), chunk.size());
      if (bytes <= 0) return text;
      text.append(chunk.data(), static_cast<std::size_t>(bytes));
    }
  }

 private:
  pid_t process_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
};

TEST(ClockPolicies, AreReadFromText) {
  EXPECT_FALSE(parse_clock_policy("observe").locks());
  EXPECT_EQ(parse_clock_policy("max").kind, ClockPolicy::Kind::max);
  EXPECT_TRUE(parse_clock_policy("max").locks());
  EXPECT_EQ(parse_clock_policy("1410").mhz, 1410u);
  for (const char* text : {"", "Max", "0", "-1", "1410MHz", " 1410", "1.4", "99999999999"}) {
    EXPECT_EQ(message_of<std::invalid_argument>([&] { parse_clock_policy(text); }),
              "give observe, max, or the SM clock in MHz, such as 1410")
        << text;
  }
}

TEST_F(ClockLocks, AreSetAndResetOnce) {
  unsigned announced = 0;
  {
    const ClockLock lock(gpu_, at(1410), [&](unsigned mhz) {
      announced = mhz;
      EXPECT_EQ(log(), Lines{});  // it is said before
    });
    EXPECT_EQ(lock.mhz(), 1410u);
    EXPECT_EQ(log(), (Lines{"locking 1410-1410", "locked"}));
    EXPECT_NE(guardian(), getpid());
  }
  EXPECT_EQ(announced, 1410u);
  EXPECT_EQ(log(), whole_life);
}

TEST_F(ClockLocks, AreGivenBackWhenTheProgramGoesOn) {
  const ScopedVariable slow("FAKE_NVML_SLOW_MS", "100");
  { const ClockLock lock(gpu_, at(1410), ignore); }
  EXPECT_EQ(log(), whole_life);  // it has waited
  EXPECT_EQ(waitpid(-1, nullptr, 0), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ClockLocks, AtTheHighestClock) {
  const ScopedVariable clocks("FAKE_NVML_SM_CLOCKS", "345,1755,990");
  const ClockLock lock(gpu_, parse_clock_policy("max"), ignore);
  EXPECT_EQ(lock.mhz(), 1755u);
  EXPECT_EQ(log().front(), "locking 1755-1755");
}

TEST_F(ClockLocks, OfALongListOfClocks) {
  std::string all = "210";
  for (int mhz = 211; mhz < 1210; ++mhz) all += "," + std::to_string(mhz);
  const ScopedVariable clocks("FAKE_NVML_SM_CLOCKS", all);
  EXPECT_EQ(ClockLock(gpu_, parse_clock_policy("max"), ignore).mhz(), 1209u);
}

TEST_F(ClockLocks, OfAClockThatTheGpuLacksNameTheNearest) {
  EXPECT_EQ(refusal(at(1400)),
            "this GPU has no SM clock of 1400 MHz; the nearest is 1395 (210 to 1980 MHz)");
  EXPECT_EQ(refusal(at(1405)),
            "this GPU has no SM clock of 1405 MHz; the nearest is 1410 (210 to 1980 MHz)");
  EXPECT_EQ(refusal(at(5000)),
            "this GPU has no SM clock of 5000 MHz; the nearest is 1980 (210 to 1980 MHz)");
  EXPECT_EQ(refusal(at(1)),
            "this GPU has no SM clock of 1 MHz; the nearest is 210 (210 to 1980 MHz)");
  EXPECT_EQ(log(), Lines{});
}

TEST_F(ClockLocks, NeedPermission) {
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks"),
      error("FAKE_NVML_ERROR", "4");
  EXPECT_EQ(refusal(at(1410)),
            "NVML does not lock the SM clock: Insufficient Permissions; it takes root with "
            "CAP_SYS_ADMIN");
  EXPECT_EQ(log(), Lines{});  // nor reset: that would end a lock of somebody else's
}

TEST_F(ClockLocks, NeedAGpuThatCan) {
  {
    const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlDeviceSetGpuLockedClocks");
    EXPECT_EQ(refusal(at(1410)), "NVML does not lock the SM clock: Not Supported");
  }
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlDeviceGetSupportedMemoryClocks");
  EXPECT_EQ(refusal(at(1410)), "NVML names no SM clocks that this GPU offers");
  EXPECT_EQ(log(), Lines{});
}

TEST_F(ClockLocks, NeedADriver) {
  {
    const ScopedVariable old("REPROLAB_NVML", FAKE_NVML_OF_OLD_DRIVER);
    EXPECT_EQ(refusal(at(1410)), "NVML names no SM clocks that this GPU offers");
  }
  const ScopedVariable none("REPROLAB_NVML", "/nonexistent.so");
  EXPECT_EQ(refusal(at(1410)),
            "NVML, which comes with the NVIDIA driver, cannot be loaded (/nonexistent.so: cannot "
            "open shared object file: No such file or directory)");
}

TEST_F(ClockLocks, NeedTheirAnnouncement) {
  const auto fails = [](unsigned) { throw std::runtime_error("stdout is gone"); };
  EXPECT_EQ(message_of<std::runtime_error>([&] { ClockLock lock(gpu_, at(1410), fails); }),
            "stdout is gone");
  EXPECT_EQ(log(), Lines{});
}

TEST_F(ClockLocks, ArePlannedWithoutLocking) {
  EXPECT_EQ(clock_to_lock(gpu_, parse_clock_policy("max")), 1980u);
  EXPECT_EQ(message_of<std::runtime_error>([&] { clock_to_lock(gpu_, at(1)); }), refusal(at(1)));
  EXPECT_EQ(log(), Lines{});
}

TEST_F(ClockLocks, AreOfOneProgramAtATime) {
  Program first({HOLD_CLOCK_LOCK, gpu_.uuid, "1410"});
  wait_for("locked");
  EXPECT_EQ(refusal(at(1395)), "another run has locked this GPU's clocks: wait until it ends");
  { const ClockLock other_gpu({gpu_.pci_bus_id, gpu_.uuid + "-other"}, at(1395), ignore); }
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
  EXPECT_EQ(refusal(at(1410)), "another run has locked this GPU's clocks: wait until it ends");
  EXPECT_EQ(log(), (Lines{"locking 1410-1410", "locked"}));
  lock.reset();
  EXPECT_EQ(log(), whole_life);
}

/// Where the program is when the signal comes.
enum class Moment { starting, locking, holding, resetting };

struct End {
  int signal;
  bool whole_group;  ///< As by Ctrl-C.
  Moment moment;
};

class EveryEnd : public ClockLocks, public testing::WithParamInterface<End> {};

TEST_P(EveryEnd, ReleasesTheClocks) {
  const auto& [signal, whole_group, moment] = GetParam();
  const ScopedVariable slow("FAKE_NVML_SLOW_MS", "200");
  Program program({HOLD_CLOCK_LOCK, gpu_.uuid, "1410"});
  if (moment != Moment::starting) wait_for("locking 1410-1410");
  if (moment > Moment::locking) wait_for("locked");
  if (moment == Moment::resetting) {
    program.release();
    wait_for("resetting");
  }
  whole_group ? program.send_to_group(signal) : program.send(signal);
  const int status = program.wait();
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(program.errors(), "");
  if (moment != Moment::starting || !log().empty()) EXPECT_EQ(log(), whole_life);
}

std::vector<End> every_end() {
  std::vector<End> ends;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGKILL}) {
    for (const bool whole_group : {false, true}) {
      for (const auto moment :
           {Moment::starting, Moment::locking, Moment::holding, Moment::resetting}) {
        ends.push_back({signal, whole_group, moment});
      }
    }
  }
  return ends;
}

std::string name_of(const testing::TestParamInfo<End>& info) {
  const std::array moments = {"Starting", "Locking", "Holding", "Resetting"};
  return std::string("SIG") + sigabbrev_np(info.param.signal) +
         (info.param.whole_group ? "OfTheGroupWhile" : "While") +
         moments[static_cast<std::size_t>(info.param.moment)];
}

INSTANTIATE_TEST_SUITE_P(BySignal, EveryEnd, testing::ValuesIn(every_end()), name_of);

TEST_F(ClockLocks, OfAKilledProgramAreReleasedWhileItsForkedProcessLingers) {
  Program program({HOLD_CLOCK_LOCK, gpu_.uuid, "1410", "linger"});
  wait_for("locked");
  const pid_t forked = std::stoi(program.first_line());
  program.send(SIGKILL);
  EXPECT_EQ(program.errors(), "");
  EXPECT_EQ(log(), whole_life);
  EXPECT_EQ(kill(forked, SIGKILL), 0);  // it was still there
}

TEST_F(ClockLocks, AreReleasedByAProgramWhoseForkedProcessLingers) {
  Program program({HOLD_CLOCK_LOCK, gpu_.uuid, "1410", "linger"});
  const pid_t forked = std::stoi(program.first_line());
  program.release();
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(log(), whole_life);
  EXPECT_EQ(kill(forked, SIGKILL), 0);
}

/// As scripts/given runs programs.
TEST_F(ClockLocks, AreReleasedWhenTheScriptEndsThatRunsTheProgram) {
  const std::string line = "setpriv --pdeathsig TERM -- \"$0\" \"$1\" 1410; true";
  Program script({"sh", "-c", line, HOLD_CLOCK_LOCK, gpu_.uuid});
  wait_for("locked");
  script.send(SIGKILL);
  EXPECT_EQ(script.errors(), "");
  EXPECT_EQ(log(), whole_life);
}

TEST_F(ClockLocks, SurviveSignalsToTheGuardian) {
  Program program({HOLD_CLOCK_LOCK, gpu_.uuid, "1410"});
  wait_for("locked");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) kill(guardian(), signal);
  EXPECT_EQ(refusal(at(1410)), "another run has locked this GPU's clocks: wait until it ends");
  program.release();
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(program.errors(), "");
  EXPECT_EQ(log(), whole_life);
}

TEST_F(ClockLocks, ThatCannotBeResetSayWhatDoesIt) {
  const ScopedVariable fail("FAKE_NVML_FAIL", "nvmlDeviceResetGpuLockedClocks");
  const std::string line =
      "clocks: the SM clock may still be locked at 1410 MHz: NVML does not reset it: Not "
      "Supported; this resets it: nvidia-smi -i 0000:17:00.0 -rgc\n";
  for (const bool killed : {false, true}) {
    std::filesystem::remove(log_);
    Program program({HOLD_CLOCK_LOCK, gpu_.uuid, "1410"});
    wait_for("locked");
    killed ? program.send(SIGKILL) : program.release();
    EXPECT_EQ(program.errors(), line);
  }
}

TEST_F(ClockLocks, WhoseGuardianIsKilledSayWhatResetsThem) {
  Program program({HOLD_CLOCK_LOCK, gpu_.uuid, "1410"});
  wait_for("locked");
  kill(guardian(), SIGKILL);
  program.release();
  EXPECT_EQ(program.errors(),
            "clocks: the SM clock may still be locked at 1410 MHz: its guardian was ended by a "
            "signal (Killed); this resets it: nvidia-smi -i 0000:17:00.0 -rgc\n");
}

}  // namespace
}  // namespace reprolab::profiling
