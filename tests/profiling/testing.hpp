// Shared by the profiling tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::profiling {

/// An environment variable set for a scope, and restored after it.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Lines from a lock to its reset.
inline std::vector<std::string> whole_lock(unsigned mhz) {
  const std::string clock = std::to_string(mhz);
  return {"locking " + clock + "-" + clock, "locked", "resetting", "reset"};
}

/// The fake NVML's record of locks and resets.
class LockLog {
 public:
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream lines(content_of(file_));
    for (std::string process, what; lines >> process && std::getline(lines >> std::ws, what);) {
      all.push_back(what);
    }
    return all;
  }

  /// The process that set the lock.
  pid_t guardian() const { return std::atoi(content_of(file_).c_str()); }

  /// Waits until that line is there.
  void wait_for(const std::string& line) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (auto all = lines(); std::ranges::find(all, line) == all.end(); all = lines()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "never " << line;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void clear() const { std::filesystem::remove(file_); }

 private:
  const OwnFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "log";
  const ScopedVariable name_{"FAKE_NVML_LOG", file_};
};

}  // namespace reprolab::profiling
