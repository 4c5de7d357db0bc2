// The words for how a row ended. One enum everywhere: results, tables, exit statuses.
#pragma once

#include <string_view>

namespace reprolab {

enum class Outcome {
  bit_exact,              ///< Every bit of the output equals the reference.
  deviation_as_declared,  ///< Differs from the reference exactly as its contract says.
  mismatch,               ///< Differs otherwise. Gets no time.
  launch_failed,          ///< The launch or the kernel returned a CUDA error.
  unsupported,            ///< The kernel's supports() said no, with a reason.
  not_verified,           ///< Nothing to compare with (ceilings).
};

constexpr std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::bit_exact:
      return "bit_exact";
    case Outcome::deviation_as_declared:
      return "deviation_as_declared";
    case Outcome::mismatch:
      return "mismatch";
    case Outcome::launch_failed:
      return "launch_failed";
    case Outcome::unsupported:
      return "unsupported";
    case Outcome::not_verified:
      return "not_verified";
  }
  return "?";
}

/// Only these rows of kernels get a time.
constexpr bool may_be_timed(Outcome outcome) {
  return outcome == Outcome::bit_exact || outcome == Outcome::deviation_as_declared;
}

/// 0: all that was selected is bit-exact or deviates as declared (or is unsupported, with its
/// reason). 1: an output was wrong or a launch failed. 2: wrong usage, bad input, nothing selected.
enum ExitStatus { exit_verified = 0, exit_wrong_output = 1, exit_usage = 2 };

constexpr bool is_failure(Outcome outcome) {
  return outcome == Outcome::mismatch || outcome == Outcome::launch_failed;
}

}  // namespace reprolab
