// The process that uses the GPU, separate from the one that keeps the results. A kernel that
// faults, never ends or exits the process ends the worker and loses only its own row: a new worker
// measures the other kernels again without it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/errors.hpp"

namespace reprolab {

/// Files beside the output of a run that did not finish, for the next run to the same
/// output.
/// `<output>.running` names the kernel that runs now and its problem: a kernel can kill this
/// process. `<output>.partial` holds the rows of the finished problem groups, for RESUME=1.
class UnfinishedRun {
 public:
  using Json = nlohmann::ordered_json;

  UnfinishedRun() = default;  ///< Keeps nothing.

  /// Reads what an earlier run left. Its groups are reused only with `resume`, and only if they are
  /// of the same `origin`: arguments, sources, GPU and driver.
  UnfinishedRun(const std::filesystem::path& output, Json origin, bool resume);
  /// Removes `.running`, as does a signal such as Ctrl-C's: it stays only if the process is killed.
  ~UnfinishedRun();
  UnfinishedRun(const UnfinishedRun&) = delete;
  UnfinishedRun& operator=(const UnfinishedRun&) = delete;

  /// The kernels that were running when a run was killed, and their problem.
  const std::map<std::string, std::string>& suspects() const { return suspects_; }

  /// A line for the user about an earlier run; empty without one.
  const std::string& remark() const { return remark_; }

  /// When the run started whose groups are reused; null without one.
  const Json& resumed_from() const { return resumed_from_; }

  /// Names the running kernel, "" for none. The worker calls it, because the kernel may end the
  /// process.
  void running(const std::string& kernel, const std::string& problem) const;

  /// The answer to an earlier request; null if there is none.
  Json finished(const Json& request) const;
  void keep(const Json& request, const Json& answer);

  /// Called after the result file was written: the groups are now there.
  void done() const;

 private:
  std::filesystem::path running_file_, partial_file_;  // empty: keeps nothing
  Json partial_{}, resumed_from_{};
  std::map<std::string, std::string> suspects_;
  std::string remark_;
};

/// Reports when a kernel starts and ends, to detect crashes and hangs.
class Watchdog {
 public:
  using Report = std::function<void(const std::string& kernel)>;
  /// `report` is called with the kernel's name when it starts, and with "" when it ends.
  Watchdog(Report report = [](const std::string&) {}) : report_(std::move(report)) {}

  /// Runs `body` as the turn of `kernel`, within the time limit. If `body` throws, the turn does
  /// not end.
  template <class Body>
  auto turn(const std::string& kernel, Body body) const {
    report_(kernel);
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      report_("");
    } else {
      auto result = body();
      report_("");
      return result;
    }
  }

 private:
  Report report_;
};

class Worker {
 public:
  using Json = nlohmann::ordered_json;
  /// Runs in the worker: handles a request and returns the answer.
  using Serve = std::function<Json(const Json& request, const Watchdog& watchdog)>;

  /// A kernel without a row in the answer, the reason, and its outcome: launch_failed if the kernel
  /// crashed, not_measured if the kernel is not at fault.
  struct Crash {
    std::string kernel, reason;
    Outcome outcome = Outcome::launch_failed;
  };
  struct Answer {
    Json json;  ///< Null if a worker failed between kernels; the others are not_measured.
    std::vector<Crash> crashed{};
    std::string why_none{};  ///< The reason for having no answer.
  };

  /// `limit`: the time limit of a kernel's turn. The first request forks the worker process; no
  /// CUDA call may precede it. Without a limit everything runs in this process, for a profiler or
  /// debugger; a kernel that crashes then ends this process. `unfinished` gets the name of the
  /// running kernel; kernels that were running when an earlier run was killed are not run, and are
  /// not_measured.
  Worker(Serve serve, std::optional<std::chrono::milliseconds> limit,
         UnfinishedRun* unfinished = nullptr);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sends `request` with "kernels" added, and repeats it without the kernels that crashed until a
  /// worker answers. A kernel that has exceeded the limit is not run again; the reason contains the
  /// "name" of that request. Throws UsageError if serving the request did.
  Answer ask(const Json& request, std::vector<std::string> kernels);

  UnfinishedRun* unfinished() const { return unfinished_; }

  /// Ends the worker process, if there is one; the next request starts a new one.
  void stop();

 private:
  /// The result of a request to a worker.
  struct Attempt {
    Json json;
    std::optional<Crash> crash{};  ///< `kernel` is empty if no kernel was running.
    bool over_limit = false;
  };
  Attempt ask_once(const Json& request);
  Json serve_here(Json request, const std::vector<std::string>& kernels) const;
  Json served(const Json& request, const Watchdog& watchdog) const;
  void start();
  std::string how_it_ended();
  [[noreturn]] void serve_forever(int socket) const;

  Serve serve_;
  std::optional<std::chrono::milliseconds> limit_;
  UnfinishedRun* unfinished_;
  std::map<std::string, Crash> given_up_;  ///< By kernel: the reason for not running it again.
  pid_t process_ = -1;                     ///< Also its process group.
  int socket_ = -1;
  /// In every message of the worker; a message that a kernel writes to the socket lacks it.
  std::string secret_;
  std::string unread_;  ///< Received after the last whole line.
};

}  // namespace reprolab
