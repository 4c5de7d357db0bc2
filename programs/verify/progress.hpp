// Shows the progress of a long verification on stderr.
#pragma once

#include <cstdint>

namespace reprolab::verify {

/// A bar if stderr is a terminal, otherwise a line every 10 %; nothing for work that is too short
/// for it.
class Progress {
 public:
  Progress(std::uint64_t total_bytes, bool enabled);
  ~Progress() { clear(); }

  void advance(std::uint64_t bytes);

  /// Removes the bar, so that a line of output can take its place.
  void clear() const;

 private:
  std::uint64_t total_bytes_;
  std::uint64_t done_bytes_ = 0;
  bool enabled_;
  bool terminal_;
  std::uint64_t last_tenth_ = 0;
};

}  // namespace reprolab::verify
