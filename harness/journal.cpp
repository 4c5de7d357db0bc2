#include "harness/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

namespace reprolab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t head_bytes = 4096;  // length of the first line, which is overwritten

// For the signal handler, which may use nothing else. Empty: no file to remove.
char file_to_remove[4096];
pid_t its_process = 0;

/// A worker inherits the handler, but not the file.
void remove_and_end(int signal) {
  if (getpid() == its_process) unlink(file_to_remove);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void remove_at_signals(const std::filesystem::path& file) {
  const auto& name = file.native();
  if (name.size() >= sizeof file_to_remove) return;
  std::memcpy(file_to_remove, name.c_str(), name.size() + 1);
  its_process = getpid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (std::signal(signal, remove_and_end) == SIG_IGN) std::signal(signal, SIG_IGN);  // nohup
  }
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Opens a regular file that no other process has locked; -1 and the reason if that fails.
int open_locked(const std::filesystem::path& file, int more_flags, std::string& why) {
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int descriptor = open(file.c_str(), flags | more_flags, 0666);
  struct stat status {};
  struct flock own {};  // of this process, not of its workers
  own.l_type = F_WRLCK;
  if (descriptor < 0) {
    why = std::strerror(errno);
  } else if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    why = "Not a regular file";
  } else if (fcntl(descriptor, F_SETLK, &own) != 0 && (errno == EAGAIN || errno == EACCES)) {
    why = "another run writes it";
  } else {
    return descriptor;
  }
  if (descriptor >= 0) close(descriptor);
  return -1;
}

/// The first line, which has always the same length.
std::string head_of(const std::string& kernel, const std::string& problem,
                    const std::map<std::string, std::string>& suspects) {
  Json head = {{"running", kernel}, {"problem", problem}, {"suspects", suspects}};
  for (const char* name : {"suspects", "problem", "running"}) {  // the last is the most important
    if (line_of(head).size() > head_bytes) head.erase(name);
  }
  std::string line = line_of(head);
  if (line.size() < head_bytes) line.insert(line.size() - 1, head_bytes - line.size(), ' ');
  return line;
}

}  // namespace

Journal::Journal(const std::filesystem::path& output) : file_(output) {
  file_ += ".part";
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::absolute(file_).parent_path(), error);
  std::string why;
  if (std::filesystem::exists(std::filesystem::symlink_status(file_, error))) {
    const int left = open_locked(file_, 0, why);
    if (left >= 0) take_up_left();
    if (left >= 0) close(left);
  }
  if (why.empty()) descriptor_ = open_locked(file_, O_CREAT | O_EXCL, why);
  if (descriptor_ < 0) {
    remark_ = fmt::format("{}: {}; rows are not kept before the end", file_.string(), why);
    return;
  }
  remove_at_signals(file_);
  running("", "");
  lseek(descriptor_, head_bytes, SEEK_SET);
}

/// Reads the file that a killed run left. Only names are read from it: of kernels to show and to
/// skip.
void Journal::take_up_left() {
  std::ifstream lines(file_);
  std::string last_kernel, last_problem;
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    if (const auto records = json.find("records"); records != json.end()) {
      rows += records->size();
    }
    const auto text = [&](const char* name) {
      const auto value = json.find(name);
      return value != json.end() && value->is_string() ? value->get<std::string>() : "";
    };
    if (last_kernel.empty()) last_kernel = text("running"), last_problem = text("problem");
    if (const auto suspects = json.find("suspects");
        suspects != json.end() && suspects->is_object()) {
      for (const auto& [kernel, problem] : suspects->items()) {
        if (problem.is_string()) suspects_[kernel] = problem;
      }
    }
  }
  if (!last_kernel.empty()) suspects_[last_kernel] = last_problem;
  std::error_code error;
  std::filesystem::rename(file_, old(), error);
  std::vector<std::string> running;
  for (const auto& [kernel, problem] : suspects_) {
    running.push_back(fmt::format("{} on {}", kernel, problem));
  }
  const auto ran = running.empty() ? ""
                                   : fmt::format(" while it ran {}, which is not run now",
                                                 fmt::join(running, ", "));
  remark_ = fmt::format("an earlier run was killed{}; {} measured row{} left in {}", ran, rows,
                        rows == 1 ? " is" : "s are", old().string());
}

void Journal::running(const std::string& kernel, const std::string& problem) const {
  if (descriptor_ < 0) return;
  const std::string head = head_of(kernel, problem, suspects_);
  // Written in place: pwrite does not move the position at which rows are appended.
  [[maybe_unused]] const auto bytes = pwrite(descriptor_, head.data(), head.size(), 0);
}

void Journal::keep(const Json& records) const {
  if (descriptor_ < 0) return;
  const std::string line = line_of({{"records", records}});
  // If the disk is full, the rows are still in memory.
  [[maybe_unused]] const auto bytes = write(descriptor_, line.data(), line.size());
}

void Journal::leave() {
  if (descriptor_ < 0) return;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  its_process = 0;
  close(descriptor_);
  descriptor_ = -1;
}

std::filesystem::path Journal::old() const {
  auto file = file_;
  return file += ".old";
}

void Journal::remove_old() const {
  if (descriptor_ >= 0 && remark_.empty()) unlink(old().c_str());
}

Journal::~Journal() {
  if (descriptor_ < 0) return;
  unlink(file_.c_str());
  leave();
}

}  // namespace reprolab
