#include "programs/verify/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace reprolab::verify {
namespace {

/// fmt::print would throw where stderr cannot be written to; that is reported when all is done.
void to_stderr(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

Progress::Progress(std::uint64_t total_bytes, bool enabled)
    : total_bytes_(total_bytes),
      enabled_(enabled && total_bytes > 0),
      terminal_(::isatty(STDERR_FILENO) != 0) {}

void Progress::advance(std::uint64_t bytes) {
  constexpr std::uint64_t width = 40;
  done_bytes_ += bytes;
  if (!enabled_) return;
  if (terminal_) {
    const std::uint64_t filled = width * done_bytes_ / total_bytes_;
    to_stderr(fmt::format("\r\x1b[K[{:=<{}}{: <{}}] {:3} % of {:.1f} GB", "", filled, "",
                          width - filled, 100 * done_bytes_ / total_bytes_, total_bytes_ * 1e-9));
    return;
  }
  const std::uint64_t tenth = 10 * done_bytes_ / total_bytes_;
  if (tenth > last_tenth_) to_stderr(fmt::format("verify: {} % done\n", 10 * tenth));
  last_tenth_ = tenth;
}

void Progress::clear() const {
  if (enabled_ && terminal_) to_stderr("\r\x1b[K");
}

}  // namespace reprolab::verify
