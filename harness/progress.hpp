// Shows the progress of long work on stderr.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace reprolab {

/// A bar if stderr is a terminal, otherwise a line every 10 %; nothing unless `enabled`.
class Progress {
 public:
  /// `whole` is the work in words, such as "63.0 GB".
  Progress(std::string program, std::uint64_t total, std::string whole, bool enabled)
      : program_(std::move(program)),
        whole_(std::move(whole)),
        total_(total),
        enabled_(enabled && total > 0) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  static bool on_terminal() { return ::isatty(STDERR_FILENO) != 0; }

  void advance(std::uint64_t by) {
    constexpr std::uint64_t width = 40;
    done_ += by;
    if (!enabled_) return;
    if (terminal_) {
      const std::uint64_t filled = width * done_ / total_;
      write(fmt::format("\r\x1b[K[{:=<{}}{: <{}}] {:3} % of {}", "", filled, "", width - filled,
                        100 * done_ / total_, whole_));
      return;
    }
    const std::uint64_t tenth = 10 * done_ / total_;
    if (tenth > last_tenth_) write(fmt::format("{}: {} % done\n", program_, 10 * tenth));
    last_tenth_ = tenth;
  }

  /// Removes the bar, so that a line of output can take its place.
  void clear() const {
    if (enabled_ && terminal_) write("\r\x1b[K");
  }

 private:
  /// fmt::print would throw if stderr cannot be written to.
  static void write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

  std::string program_, whole_;
  std::uint64_t total_, done_ = 0, last_tenth_ = 0;
  bool enabled_, terminal_ = on_terminal();
};

}  // namespace reprolab
