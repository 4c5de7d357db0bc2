#include "harness/worker.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <random>
#include <system_error>

#include "harness/result_file.hpp"
#include "profiling/basics.hpp"

namespace reprolab {
namespace {

using Clock = std::chrono::steady_clock;
using Json = Worker::Json;

/// Sends a message as one line of JSON. Returns false if the other end is closed.
bool send_line(int socket, const Json& message) {
  const std::string line = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t bytes = send(socket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    sent += static_cast<std::size_t>(bytes);
  }
  return true;
}

enum class Received { message, end, nothing_in_time };

constexpr Clock::time_point never = Clock::time_point::max();

/// Receives the next message; `unread` keeps the bytes after it.
Received receive(int socket, std::string& unread, Clock::time_point deadline, Json& message) {
  for (;;) {
    if (const auto end = unread.find('\n'); end != std::string::npos) {
      message = Json::parse(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(end),
                            nullptr, /*allow_exceptions=*/false);
      unread.erase(0, end + 1);
      return Received::message;
    }
    int wait_ms = -1;
    if (deadline != never) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      wait_ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }
    pollfd readable{socket, POLLIN, 0};
    const int ready = poll(&readable, 1, wait_ms);
    if (ready == 0) return Received::nothing_in_time;
    char chunk[65536];
    const ssize_t bytes = ready < 0 ? -1 : read(socket, chunk, sizeof chunk);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return Received::end;
    unread.append(chunk, static_cast<std::size_t>(bytes));
  }
}

// For the signal handler, which may use nothing else.
char file_to_remove[4096];
pid_t its_process = 0;

/// A worker inherits the handler, but not the file.
void remove_and_end(int signal) {
  if (getpid() == its_process) unlink(file_to_remove);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void remove_at_signals(const std::string& file) {
  if (file.size() >= sizeof file_to_remove) return;
  std::memcpy(file_to_remove, file.c_str(), file.size() + 1);
  its_process = getpid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (std::signal(signal, remove_and_end) == SIG_IGN) std::signal(signal, SIG_IGN);  // nohup
  }
}

}  // namespace

UnfinishedRun::UnfinishedRun(const std::filesystem::path& output, Json origin, bool resume)
    : running_file_(output.string() + ".running"),
      partial_file_(output.string() + ".partial"),
      partial_{{"origin", std::move(origin)},
               {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
               {"groups", Json::object()}} {
  std::ifstream lines(running_file_);
  for (std::string kernel, problem;
       std::getline(lines, kernel, '\t') && std::getline(lines, problem);) {
    suspects_[kernel] = problem;
    remark_ +=
        fmt::format("skipping {}: an earlier run was killed while it ran on {}. ", kernel, problem);
  }
  std::ifstream groups(partial_file_);
  const Json left = Json::parse(groups, nullptr, /*allow_exceptions=*/false);
  if (left.is_object() && left.contains("groups") && left["groups"].is_object()) {
    const bool is_same = left.value("origin", Json()) == partial_["origin"];
    if (is_same && resume) partial_ = left, resumed_from_ = left.value("started", Json());
    remark_ += fmt::format(
        "{}: {} problem groups of an earlier run, {}", partial_file_.string(),
        left["groups"].size(),
        is_same ? (resume ? "which are not measured again" : "which RESUME=1 would have kept")
                : "of other arguments, sources, GPU or driver: measured again");
  }
  remove_at_signals(running_file_.string());
}

UnfinishedRun::~UnfinishedRun() {
  if (running_file_.empty()) return;
  unlink(running_file_.c_str());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

void UnfinishedRun::running(const std::string& kernel, const std::string& problem) const {
  if (running_file_.empty()) return;
  std::ofstream file(running_file_);
  for (const auto& [suspect, on] : suspects_) file << suspect << '\t' << on << '\n';
  if (!kernel.empty()) file << kernel << '\t' << problem << '\n';
}

Json UnfinishedRun::finished(const Json& request) const {
  if (partial_file_.empty()) return nullptr;
  return partial_["groups"].value(request.dump(), Json());
}

void UnfinishedRun::keep(const Json& request, const Json& answer) {
  if (partial_file_.empty()) return;
  partial_["groups"][request.dump()] = answer;
  write_whole(partial_file_, partial_.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void UnfinishedRun::done() const { unlink(partial_file_.c_str()); }

Worker::Worker(Serve serve, std::optional<std::chrono::milliseconds> limit,
               UnfinishedRun* unfinished)
    : serve_(std::move(serve)), limit_(limit), unfinished_(unfinished) {
  if (unfinished_ == nullptr) return;
  for (const auto& [kernel, problem] : unfinished_->suspects()) {
    given_up_[kernel] = {
        kernel, fmt::format("not run: an earlier run was killed while it ran on {}", problem),
        Outcome::not_measured};
  }
}

Worker::~Worker() { stop(); }

void Worker::start() {
  if (process_ > 0) return;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  std::random_device random;
  secret_ = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  std::fflush(nullptr);  // otherwise both processes would write the buffers' contents
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // A process that a kernel has started stays a child of this process, which checks for it, and
    // in its process group, which stop() ends.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0);
    close(ends[0]);
    serve_forever(ends[1]);
  }
  setpgid(process_, process_);  // whichever of the two comes first
  close(ends[1]);
  socket_ = ends[0];
  unread_.clear();
}

/// The answer or the error. An exception is attributed to the running kernel, unless its type says
/// otherwise.
Json Worker::served(const Json& request, const Watchdog& watchdog) const {
  try {
    return {{"answer", serve_(request, watchdog)}};
  } catch (const KernelCrashed& crashed) {
    return {{"crashed", crashed.kernel}, {"reason", crashed.what()}};
  } catch (const UsageError& error) {
    return {{"usage", error.what()}};
  } catch (const NotMeasured& fault) {
    return {{"not_measured", true}, {"reason", fault.what()}};
  } catch (const std::bad_alloc&) {
    return {{"not_measured", true}, {"reason", "host memory ran out"}};
  } catch (const std::exception& error) {
    return {{"reason", error.what()}};
  }
}

void Worker::serve_forever(int socket) const {
  std::string unread;
  Json request;
  const Watchdog watchdog([&](const std::string& kernel) {
    if (unfinished_ != nullptr) unfinished_->running(kernel, request.value("name", ""));
    send_line(socket, {{"turn", kernel}, {"secret", secret_}});
  });
  while (receive(socket, unread, never, request) == Received::message) {
    Json answer = served(request, watchdog);
    std::fflush(stdout);
    answer["secret"] = secret_;
    if (!send_line(socket, answer) || answer.contains("crashed")) break;
  }
  _exit(0);  // without libraries' exit handlers, which belong to the parent
}

void Worker::stop() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  how_it_ended();
}

/// Waits for a worker that is ending, and returns how it ended.
std::string Worker::how_it_ended() {
  close(socket_);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  kill(-process_, SIGKILL);  // processes that its kernels have started
  process_ = -1;
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

Worker::Attempt Worker::ask_once(const Json& request) {
  start();
  send_line(socket_, request);
  std::string kernel;
  Clock::time_point deadline = never;
  for (;;) {
    Json message;
    switch (receive(socket_, unread_, deadline, message)) {
      case Received::end:
        kill(process_, SIGKILL);  // it has ended, unless a kernel has closed the socket
        return {nullptr, Crash{kernel, "ended the process: " + how_it_ended()}};
      case Received::nothing_in_time:
        stop();
        return {nullptr,
                Crash{kernel, fmt::format("did not end within {:g} s",
                                          1e-3 * static_cast<double>(limit_->count()))},
                true};
      case Received::message:
        break;
    }
    if (!message.is_object() || !message.contains("secret") || message["secret"] != secret_) {
      stop();
      return {nullptr, Crash{kernel, "wrote to the socket that the worker answers on"}};
    }
    if (message.contains("turn")) {
      kernel = message.at("turn");
      deadline = kernel.empty() ? never : Clock::now() + *limit_;
    } else if (message.contains("answer")) {
      return {message.at("answer")};
    } else if (message.contains("usage")) {
      throw UsageError(message.at("usage").get<std::string>());
    } else {
      stop();
      return {nullptr, Crash{message.value("crashed", kernel), message.at("reason"),
                             message.contains("not_measured") ? Outcome::not_measured
                                                              : Outcome::launch_failed}};
    }
  }
}

Json Worker::serve_here(Json request, const std::vector<std::string>& kernels) const {
  request["kernels"] = kernels;
  std::string kernel;
  const Json message = served(request, Watchdog([&](const auto& turn) { kernel = turn; }));
  if (message.contains("answer")) return message.at("answer");
  if (message.contains("usage")) throw UsageError(message.at("usage").get<std::string>());
  const auto reason = message.at("reason").get<std::string>();
  kernel = message.value("crashed", kernel);
  if (kernel.empty() || message.contains("not_measured")) throw NotMeasured(reason);
  throw KernelCrashed(kernel,
                      fmt::format("{}: {}; the GPU is unusable in this process from now on; leave "
                                  "the kernel out with --kernel",
                                  kernel, reason));
}

Worker::Answer Worker::ask(const Json& request, std::vector<std::string> kernels) {
  Answer answer;
  if (!limit_) return {serve_here(request, kernels)};
  std::erase_if(kernels, [&](const std::string& kernel) {
    const auto entry = given_up_.find(kernel);
    if (entry == given_up_.end()) return false;
    answer.crashed.push_back(entry->second);
    return true;
  });
  for (;;) {
    Json remaining = request;
    remaining["kernels"] = kernels;
    Attempt attempt = ask_once(remaining);
    if (!attempt.crash) {
      answer.json = std::move(attempt.json);
      return answer;
    }
    const Crash& crash = *attempt.crash;
    if (std::erase(kernels, crash.kernel) == 0) {
      answer.why_none = crash.reason;
      for (const auto& kernel : kernels) {
        answer.crashed.push_back({kernel, crash.reason, Outcome::not_measured});
      }
      return answer;
    }
    answer.crashed.push_back(crash);
    if (attempt.over_limit) {
      const auto problem = request.value("name", "another problem");
      given_up_[crash.kernel] = {crash.kernel,
                                 fmt::format("not run: on {} it {}", problem, crash.reason)};
    }
  }
}

}  // namespace reprolab
