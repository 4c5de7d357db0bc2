// How far a long verification has come, on stderr.
#pragma once

#include <cstdint>

namespace reprolab::verify {

/// A bar where stderr is a terminal, a line each 10 % where it is not; nothing at all for work
/// that ends before anyone would look.
class Progress {
 public:
  Progress(std::uint64_t total_bytes, bool enabled);
  ~Progress();

  void advance(std::uint64_t bytes);

  /// Takes the bar away, so that a line of output can stand in its place.
  void clear() const;

 private:
  void draw() const;

  std::uint64_t total_bytes_;
  std::uint64_t done_bytes_ = 0;
  bool enabled_;
  bool terminal_;
  int last_tenth_ = 0;
};

}  // namespace reprolab::verify
