// The process that uses the GPU, separate from the one that keeps the results. A kernel that
// faults, never ends or ends its process ends the worker and loses its own row, and nothing else: a
// new worker measures the other kernels again as if it had not been there.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/errors.hpp"
#include "harness/journal.hpp"

namespace reprolab {

/// Reports when a kernel starts and ends, to detect crashes and hangs.
class Watchdog {
 public:
  using Tell = std::function<void(const std::string& kernel)>;
  /// `tell` is called with the kernel's name when it starts, and with "" when it ends.
  Watchdog(Tell tell = [](const std::string&) {}) : tell_(std::move(tell)) {}

  /// Runs `body` as the turn of `kernel`, which may last as long as the limit allows; one that
  /// throws does not end it.
  template <class Body>
  auto turn(const std::string& kernel, Body body) const {
    tell_(kernel);
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      tell_("");
    } else {
      auto result = body();
      tell_("");
      return result;
    }
  }

 private:
  Tell tell_;
};

class Worker {
 public:
  using Json = nlohmann::ordered_json;
  /// Runs in the worker: handles a request and returns the answer.
  using Serve = std::function<Json(const Json& request, const Watchdog& watchdog)>;

  /// A kernel that has no row in the answer, why, and how its row ends: launch_failed if it did not
  /// survive its turn, not_measured if it is not the kernel's fault.
  struct Crash {
    std::string kernel, reason;
    Outcome outcome = Outcome::launch_failed;
  };
  struct Answer {
    Json json;  ///< Null if a worker failed in no kernel's turn; the kernels left are not_measured.
    std::vector<Crash> crashed{};
    std::string why_none{};  ///< Why there is no answer.
  };

  /// `limit`: how long a turn may take. The worker process is started by the first request, and
  /// sees the program as it is at that moment; no CUDA call may come before. Without a limit
  /// everything happens in this process, so that a profiler or debugger can watch it; a kernel that
  /// crashes then ends this process. `journal` gets the name of the kernel that runs; those that
  /// ran when an earlier run was killed are not run, and are not_measured.
  Worker(Serve serve, std::optional<std::chrono::milliseconds> limit,
         const Journal* journal = nullptr);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sends `request` with "kernels" added, and repeats it without the kernels that crashed until a
  /// worker answers. A kernel that exceeded the limit once is not run again; the "name" of
  /// `request` then says where that was. Throws UsageError if serving the request did.
  Answer ask(const Json& request, std::vector<std::string> kernels);

  /// Writes rows to the journal, if there is one.
  void keep(const Json& records) const;

  /// Ends the worker process, if there is one; the next request starts a new one.
  void stop();

 private:
  /// The result of one request to one worker.
  struct Attempt {
    Json json;
    std::optional<Crash> crash{};  ///< `kernel` is empty if it was no kernel's turn.
    bool over_limit = false;
  };
  Attempt ask_once(const Json& request);
  Json serve_here(Json request, const std::vector<std::string>& kernels) const;
  Json served(const Json& request, const Watchdog& watchdog) const;
  void start();
  void end_by(std::chrono::steady_clock::time_point deadline);
  std::string how_it_ended();
  [[noreturn]] void serve_forever(int socket) const;

  Serve serve_;
  std::optional<std::chrono::milliseconds> limit_;
  const Journal* journal_;
  std::map<std::string, Crash> given_up_;  ///< By kernel: why it is not run again.
  pid_t process_ = -1;                     ///< Also its process group.
  int socket_ = -1;
  /// In every message of the worker; what a kernel itself writes to the socket lacks it.
  std::string secret_;
  std::string unread_;  ///< Received after the last whole line.
};

}  // namespace reprolab
