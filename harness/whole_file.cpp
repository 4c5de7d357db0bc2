#include "harness/whole_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <random>
#include <string>
#include <system_error>

#include "harness/errors.hpp"

namespace reprolab {
namespace {

namespace fs = std::filesystem;

/// Blocks signals that would end this process, so that no temporary file is left.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&ending, signal);
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Why a file cannot be written.
struct CannotWrite {
  std::string why;
};

[[noreturn]] void fail(std::error_code error) { throw CannotWrite{error.message()}; }
[[noreturn]] void fail(std::errc error) { fail(std::make_error_code(error)); }
[[noreturn]] void fail_with_errno() { fail(std::error_code(errno, std::generic_category())); }

/// Whether a standard stream was redirected to this file: its lines would be lost.
bool is_stream(const fs::path& path) {
  struct stat status {};
  struct stat own {};
  if (stat(path.c_str(), &status) != 0) return false;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_open = fstat(stream, &own) == 0;
    if (is_open && own.st_dev == status.st_dev && own.st_ino == status.st_ino) return true;
  }
  return false;
}

/// The file that a path leads to after following links, which are kept: a regular file or a missing
/// one.
fs::path target_of(fs::path path) {
  constexpr int max_links = 40;  // as the kernel stores it
  std::error_code error;
  for (const auto& name : path) {
    if (name.native().size() > NAME_MAX) fail(std::errc::filename_too_long);
  }
  const auto status = fs::status(path, error);
  if (fs::is_directory(status)) fail(std::errc::is_a_directory);
  if (fs::exists(status) && !fs::is_regular_file(status)) throw CannotWrite{"Not a regular file"};
  if (is_stream(path)) throw CannotWrite{"A standard stream of this program"};
  for (int links = 0; fs::is_symlink(fs::symlink_status(path, error)); ++links) {
    if (links == max_links) fail(std::errc::too_many_symbolic_link_levels);
    path = path.parent_path() / fs::read_symlink(path, error);
    if (error) fail(error);
  }
  if (path.filename().empty()) fail(std::errc::is_a_directory);
  return path;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

constexpr std::string_view temporary_prefix = ".reprolab-tmp-";  // as reprolab/output.py has it

/// A temporary file next to the target. Its writer holds a lock on it, so that the next writer in
/// the folder can tell whether it is still being written.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& folder) {
    std::random_device random;
    for (;;) {
      path_ = folder / fmt::format("{}{:08x}{:08x}", temporary_prefix, random(), random());
      file_ = open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
      if (file_ < 0) fail_with_errno();
      flock(file_, LOCK_EX | LOCK_NB);  // on a file system without locks, no file is removed
      struct stat status {};
      if (fstat(file_, &status) == 0 && status.st_nlink > 0) return;
      close(file_);  // removed by another process before it was locked
    }
  }
  ~TemporaryFile() {
    if (!is_in_place_) unlink(path_.c_str());
    close(file_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t bytes = ::write(file_, text.data(), text.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0) fail_with_errno();
      text.remove_prefix(static_cast<std::size_t>(bytes));
    }
  }

  void put_in_place(const fs::path& place) {
    if (fsync(file_) != 0 && errno != EINVAL) fail_with_errno();  // such as a quota's of NFS
    std::error_code error;
    fs::rename(path_, place, error);
    if (error) fail(error);
    is_in_place_ = true;
  }

 private:
  fs::path path_;
  int file_ = -1;
  bool is_in_place_ = false;
};

/// Removes our temporary files of killed writers from the folder.
void remove_left_files(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().native().starts_with(temporary_prefix)) continue;
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    struct stat status {};
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        flock(file, LOCK_EX | LOCK_NB) == 0) {
      unlink(entry.path().c_str());
    }
    close(file);
  }
}

/// Turns an error in `body` into a line for the user.
template <class Body>
void write_or_refuse(const fs::path& path, std::string_view option, Body body) {
  const SignalsWait until_done;
  try {
    body();
  } catch (const CannotWrite& error) {
    throw UsageError(fmt::format("{}: cannot be written ({}); choose another {}", path.string(),
                                 error.why, option));
  }
}

}  // namespace

void require_writable(const fs::path& path) {
  write_or_refuse(path, "--output", [&] {
    std::error_code error;
    auto folder = folder_of(target_of(path));
    const auto is_there = [&] { return fs::exists(fs::symlink_status(folder, error)); };
    while (!folder.empty() && !is_there()) folder = folder.parent_path();
    if (folder.empty()) folder = ".";
    if (!fs::is_directory(folder, error)) {
      fail(error ? error : std::make_error_code(std::errc::not_a_directory));
    }
    const TemporaryFile probe(folder);
  });
}

void write_whole(const fs::path& path, std::initializer_list<std::string_view> parts,
                 std::string_view option) {
  write_or_refuse(path, option, [&] {
    const auto place = target_of(path);
    const auto folder = folder_of(place);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail(error);
    {
      TemporaryFile temporary(folder);
      for (const auto part : parts) temporary.write(part);
      temporary.put_in_place(place);
    }
    remove_left_files(folder);
  });
}

}  // namespace reprolab
