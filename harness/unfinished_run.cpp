#include "harness/unfinished_run.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>

#include "harness/whole_file.hpp"

namespace reprolab {
namespace {

using Json = UnfinishedRun::Json;

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

Json read_partial(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file, nullptr, /*allow_exceptions=*/false);
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
  const Json left = read_partial(partial_file_);
  if (left.is_object() && left.contains("groups") && left["groups"].is_object()) {
    const bool is_same = left.value("origin", Json()) == partial_["origin"];
    if (is_same && resume) partial_ = left, resumed_from_ = left.value("started", Json());
    remark_ += fmt::format(
        "{}: {} of an earlier run, {}", partial_file_.string(), left["groups"].size(),
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

}  // namespace reprolab
