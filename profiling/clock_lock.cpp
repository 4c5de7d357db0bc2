#include "profiling/clock_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "profiling/nvml.hpp"

namespace reprolab::profiling {
namespace {

// The guardian writes the clock that it is about to lock, then "locked"; otherwise "cannot" and the
// reason. The program writes a single byte, the request to lock it.
constexpr std::string_view cannot = "cannot ", locked = "locked";

constexpr int parent_ended = SIGUSR1;  // sent by the kernel, as PR_SET_PDEATHSIG asks

/// One write, independent of the program's own buffers.
void say_still_locked(const GpuAddress& gpu, unsigned mhz, const std::string& why) {
  const std::string line = fmt::format(
      "clocks: the SM clock may still be locked at {} MHz: {}; this resets it: nvidia-smi -i {} "
      "-rgc\n",
      mhz, why, gpu.pci_bus_id);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

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

void send_text(int socket, std::string_view text) {
  send(socket, text.data(), text.size(),
       MSG_NOSIGNAL);  // if the other end is closed, poll() reports it
}

/// Waits for the program's byte; false if the program has ended or no longer needs the lock: it has
/// shut its socket down, or the system's signal says so while a process that it forked still holds
/// the socket.
bool program_speaks(int socket, pid_t program) {
  sigset_t blocked;
  sigfillset(&blocked);
  sigdelset(&blocked, parent_ended);
  pollfd event{socket, POLLIN, 0};
  while (getppid() == program) {
    char byte = 0;
    if (ppoll(&event, 1, nullptr, &blocked) > 0) return recv(socket, &byte, 1, 0) > 0;
  }
  return false;
}

/// Locks the clock on request, and resets it when the program has ended. Returns an exit status:
/// not 0 if the clock may still be locked, which is reported on stderr. Throws only before anything
/// is locked.
int guard(int socket, pid_t program, const GpuAddress& gpu, const ClockPolicy& wanted) {
  prctl(PR_SET_NAME, "clock_guardian");   // so that killing the program by name does not kill it
  setsid();                               // out of reach of the terminal's Ctrl-C and hang-up
  std::signal(parent_ended, [](int) {});  // ends a wait
  prctl(PR_SET_PDEATHSIG, parent_ended);
  std::string why_not;
  const auto device = find_nvml_device(gpu.pci_bus_id, gpu.uuid, &why_not);
  if (!device) throw std::runtime_error(why_not);
  const unsigned mhz = clock_to_lock(*device, wanted);
  send_text(socket, std::to_string(mhz));
  if (!program_speaks(socket, program)) return 0;
  if (why_not = device->lock_sm_clock(mhz); !why_not.empty()) {
    throw std::runtime_error(fmt::format("NVML does not lock the SM clock: {}", why_not));
  }
  send_text(socket, locked);
  program_speaks(socket, program);  // no further requests: it ends
  if (why_not = device->reset_sm_clock(); why_not.empty()) return 0;
  say_still_locked(gpu, mhz, "NVML does not reset it: " + why_not);
  return 1;
}

/// Closes all descriptors of the program except stderr: a reader of the program's output waits
/// until they are closed. Returns the socket's new descriptor.
int keep_only(int socket) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  const int kept = STDERR_FILENO + 1;
  if (socket != kept) dup3(socket, kept, O_CLOEXEC);
  close_range(kept + 1, ~0u, 0);
  return kept;
}

[[noreturn]] void be_guardian(int socket, pid_t program, const GpuAddress& gpu,
                              const ClockPolicy& wanted) {
  int status = 0;
  socket = keep_only(socket);
  try {
    status = guard(socket, program, gpu, wanted);
  } catch (const std::exception& error) {
    send_text(socket, std::string(cannot) + error.what());
  }
  _exit(status);  // without the exit handlers of the program
}

}  // namespace

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

unsigned clock_to_lock(const GpuAddress& gpu, const ClockPolicy& wanted) {
  std::string why_not;
  const auto device = find_nvml_device(gpu.pci_bus_id, gpu.uuid, &why_not);
  if (!device) throw std::runtime_error(why_not);
  return clock_to_lock(*device, wanted);
}

ClockLock::ClockLock(const GpuAddress& gpu, const ClockPolicy& wanted,
                     const std::function<void(unsigned mhz)>& announce)
    : gpu_(gpu), owner_(getpid()) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  // The guardian blocks all signals from its start.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  guardian_ = fork();
  if (guardian_ == 0) {
    close(ends[0]);
    be_guardian(ends[1], owner_, gpu, wanted);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
  socket_ = ends[0];
  try {
    mhz_ = static_cast<unsigned>(std::stoul(answer()));
    announce(mhz_);
    send_text(socket_, "!");
    answer();
  } catch (...) {
    end();
    throw;
  }
}

ClockLock::~ClockLock() { end(); }

/// The guardian's next word; throws std::runtime_error if the guardian reports "cannot" or has
/// ended.
std::string ClockLock::answer() const {
  std::array<char, 4096> text;
  ssize_t bytes = 0;
  do {
    bytes = recv(socket_, text.data(), text.size(), 0);
  } while (bytes < 0 && errno == EINTR);
  const std::string_view word(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, bytes)));
  if (word.empty()) throw std::runtime_error("the process that would guard the clocks has ended");
  if (word.starts_with(cannot)) throw std::runtime_error(std::string(word.substr(cannot.size())));
  return std::string(word);
}

void ClockLock::end() {
  if (getpid() != owner_) return;  // a forked process that unwinds must not release the lock
  // Shut down before closing: a forked process may also hold the socket.
  shutdown(socket_, SHUT_WR);
  int status = 0;
  while (waitpid(guardian_, &status, 0) < 0 && errno == EINTR) {
  }
  close(socket_);
  if (mhz_ != 0 && WIFSIGNALED(status)) {
    say_still_locked(
        gpu_, mhz_,
        fmt::format("its guardian was ended by a signal ({})", strsignal(WTERMSIG(status))));
  }
}

}  // namespace reprolab::profiling
