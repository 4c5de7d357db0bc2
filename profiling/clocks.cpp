#include "profiling/clocks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "profiling/basics.hpp"

namespace reprolab::profiling {
namespace {

nlohmann::json range_of(const std::vector<ClockSnapshot>& snapshots,
                        std::optional<double> ClockSnapshot::*member) {
  std::vector<double> values;
  for (const ClockSnapshot& snapshot : snapshots) {
    if (snapshot.*member) values.push_back(*(snapshot.*member));
  }
  if (values.empty()) return nullptr;
  const auto [least, greatest] = std::ranges::minmax(values);
  return {{"min", least}, {"median", median(values)}, {"max", greatest}};
}

// ---- The lock ----

constexpr int parent_ended = SIGUSR1;  // sent by the kernel, as PR_SET_PDEATHSIG asks, or by end()

void say_still_locked(const std::string& pci_bus_id, unsigned mhz, const std::string& why) {
  dprintf(
      STDERR_FILENO,
      "clocks: the SM clock may still be locked at %u MHz: %s; this resets it: nvidia-smi -i %s "
      "-rgc\n",
      mhz, why.c_str(), pci_bus_id.c_str());
}

/// The clock in MHz that `wanted` means on this GPU. For an unavailable clock it names the nearest.
unsigned clock_to_lock(const NvmlDevice& device, const ClockPolicy& wanted) {
  const auto clocks = device.sm_clocks_mhz();
  if (clocks.empty()) throw std::runtime_error("NVML names no SM clocks that this GPU offers");
  if (wanted.kind == ClockPolicy::Kind::max) return clocks.back();
  const auto distance = [&](unsigned mhz) {
    return mhz > wanted.mhz ? mhz - wanted.mhz : wanted.mhz - mhz;
  };
  const unsigned nearest = *std::ranges::min_element(clocks, {}, distance);
  if (nearest == wanted.mhz) return nearest;
  throw std::runtime_error(
      fmt::format("this GPU has no SM clock of {} MHz; the nearest is {} ({} to {} MHz)",
                  wanted.mhz, nearest, clocks.front(), clocks.back()));
}

/// The child process: locks the clock, writes it in MHz, or why it is not locked, to the pipe, and
/// resets the clock when the program has ended. NVML is used here alone: the program forks again.
[[noreturn]] void guard(int pipe, pid_t program, const std::string& pci_bus_id,
                        const ClockPolicy& wanted) {
  prctl(PR_SET_NAME, "clock_guardian");  // so that killing the program by name does not kill it
  setsid();                              // out of reach of the terminal's Ctrl-C and hang-up
  prctl(PR_SET_PDEATHSIG, parent_ended);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);  // a reader of the program's output waits until all have closed it
  dup2(null, STDOUT_FILENO);
  dup2(pipe, STDERR_FILENO + 1);
  pipe = STDERR_FILENO + 1;
  close_range(pipe + 1, ~0u, 0);
  try {
    std::string no_device;
    const auto device = find_nvml_device(pci_bus_id, &no_device);
    if (!device) throw std::runtime_error(no_device);
    const unsigned mhz = clock_to_lock(*device, wanted);
    if (const auto why_not = device->lock_sm_clock(mhz); !why_not.empty()) {
      throw std::runtime_error("NVML does not lock the SM clock: " + why_not);
    }
    dprintf(pipe, "%u", mhz);
    close(pipe);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, parent_ended);
    if (int signal = 0; getppid() == program) sigwait(&ends, &signal);
    if (const auto why_not = device->reset_sm_clock(); !why_not.empty()) {
      say_still_locked(pci_bus_id, mhz, "NVML does not reset it: " + why_not);
    }
  } catch (const std::exception& error) {
    dprintf(pipe, "%s", error.what());
  }
  _exit(0);  // without the exit handlers of the program
}

}  // namespace

nlohmann::json summarize(const std::vector<ClockSnapshot>& snapshots) {
  nlohmann::json summary = {{"sm_mhz", range_of(snapshots, &ClockSnapshot::sm_mhz)},
                            {"memory_mhz", range_of(snapshots, &ClockSnapshot::memory_mhz)},
                            {"power_w", range_of(snapshots, &ClockSnapshot::power_w)},
                            {"temperature_c", range_of(snapshots, &ClockSnapshot::temperature_c)},
                            {"throttle_reasons", nullptr}};
  std::optional<std::uint64_t> reasons;
  for (const ClockSnapshot& snapshot : snapshots) {
    if (snapshot.event_reasons) reasons = reasons.value_or(0) | *snapshot.event_reasons;
  }
  if (reasons) {
    summary["throttle_reasons"] = decode_clock_event_reasons(*reasons & ~clock_event_gpu_idle);
  }
  return summary;
}

ClockObserver::ClockObserver(std::optional<NvmlDevice> device, std::chrono::milliseconds period)
    : device_(std::move(device)), period_(period) {
  if (!device_) return;
  keep_snapshot();
  thread_ = std::jthread([this](const std::stop_token& stopping) { observe(stopping); });
}

ClockObserver::~ClockObserver() { stop(); }

void ClockObserver::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  keep_snapshot();
}

std::vector<ClockSnapshot> ClockObserver::snapshots() const {
  const std::lock_guard lock(mutex_);
  return snapshots_;
}

void ClockObserver::keep_snapshot() {
  const ClockSnapshot now = device_->snapshot();  // outside the lock: NVML may take a millisecond
  const std::lock_guard lock(mutex_);
  snapshots_.push_back(now);
}

void ClockObserver::observe(const std::stop_token& stopping) {
  std::unique_lock lock(mutex_);
  const auto never = [] { return false; };
  while (wake_.wait_for(lock, stopping, period_, never), !stopping.stop_requested()) {
    lock.unlock();
    keep_snapshot();
    lock.lock();
  }
}

ClockPolicy parse_clock_policy(std::string_view text) {
  if (text == "observe") return {};
  if (text == "max") return {.kind = ClockPolicy::Kind::max};
  ClockPolicy policy{.kind = ClockPolicy::Kind::mhz};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), policy.mhz);
  if (error != std::errc() || end != text.data() + text.size() || policy.mhz == 0) {
    throw std::invalid_argument("give observe, max, or the SM clock in MHz, such as 1410");
  }
  return policy;
}

ClockLock::ClockLock(const std::string& pci_bus_id, const ClockPolicy& wanted)
    : pci_bus_id_(pci_bus_id), owner_(getpid()) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  // The guardian blocks all signals from its start.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  guardian_ = fork();
  if (guardian_ == 0) guard(ends[1], owner_, pci_bus_id_, wanted);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
  std::string answer;
  std::array<char, 4096> text;
  for (ssize_t bytes = 1; bytes > 0 || (bytes < 0 && errno == EINTR);) {
    bytes = read(ends[0], text.data(), text.size());
    if (bytes > 0) answer.append(text.data(), static_cast<std::size_t>(bytes));
  }
  close(ends[0]);
  const auto* const end = answer.data() + answer.size();
  if (const auto read = std::from_chars(answer.data(), end, mhz_);
      answer.empty() || read.ptr != end) {
    mhz_ = 0;
    waitpid(guardian_, nullptr, 0);
    throw std::runtime_error(answer.empty() ? "the process that would guard the clocks has ended"
                                            : answer);
  }
}

ClockLock::~ClockLock() {
  if (getpid() != owner_) return;  // a forked process that unwinds must not release the lock
  kill(guardian_, parent_ended);
  int status = 0;
  while (waitpid(guardian_, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) say_still_locked(pci_bus_id_, mhz_, "its guardian was killed");
}

}  // namespace reprolab::profiling
