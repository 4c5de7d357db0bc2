// Shows the progress of a long verification on stderr.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace reprolab::verify {

/// A bar if stderr is a terminal, otherwise a line every 10 %; nothing for work that is too short
/// for it.
class Progress {
 public:
  Progress(std::uint64_t total_bytes, bool enabled);
  ~Progress();

  void advance(std::uint64_t bytes);

  /// Removes the bar, so that a line of output can take its place.
  void clear() const;

 private:
  void draw() const;

  std::uint64_t total_bytes_;
  std::uint64_t done_bytes_ = 0;
  bool enabled_;
  bool terminal_;
  int last_tenth_ = 0;
};

/// Prints a line on stderr if it lives longer than `delay`: for work without steps to count.
class LateNotice {
 public:
  LateNotice(std::chrono::milliseconds delay, std::string line);

 private:
  void wait(const std::stop_token& over);

  std::chrono::milliseconds delay_;
  std::string line_;
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;  ///< The last member: its destructor ends the wait.
};

}  // namespace reprolab::verify
