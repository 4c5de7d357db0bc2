// The outcome of a row, one enum for results, tables and exit statuses; and the end of a program,
// with its own status, or early, with one line on stderr.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/printable.hpp"

namespace reprolab {

enum class Outcome {
  bit_exact,              ///< Every bit of the output equals the reference.
  within_bound,           ///< Every element lies in the interval that the reference proves.
  deviation_as_declared,  ///< Differs from the reference exactly as its contract says.
  mismatch,               ///< Differs otherwise. The row gets no time.
  launch_failed,          ///< The launch or the kernel failed, or broke a rule for launches.
  unsupported,            ///< The kernel's supports() refused, with a reason.
  not_measured,           ///< The harness failed, not the kernel: nothing is known about the row.
  not_verified,           ///< Nothing to compare with (ceilings).
};

/// In the order of the enumerators.
inline constexpr std::array<std::string_view, 8> outcome_names = {
    "bit_exact",     "within_bound", "deviation_as_declared", "mismatch",
    "launch_failed", "unsupported",  "not_measured",          "not_verified"};

constexpr std::string_view name(Outcome outcome) {
  return outcome_names[static_cast<std::size_t>(outcome)];
}

/// Whether a kernel's row with this outcome gets a time.
constexpr bool may_be_timed(Outcome outcome) {
  return outcome == Outcome::bit_exact || outcome == Outcome::within_bound ||
         outcome == Outcome::deviation_as_declared;
}

constexpr bool is_failure(Outcome outcome) {
  return outcome == Outcome::mismatch || outcome == Outcome::launch_failed;
}

/// 0: all selected rows are bit-exact, within their bound, deviate as declared, or are unsupported
/// with a reason. 1: an output was wrong or a launch failed. 2: wrong usage, bad input, or nothing
/// selected. 3: no failure was seen, but the harness failed and a row was not measured, or verify
/// had nothing to compare with.
enum ExitStatus { exit_verified = 0, exit_wrong_output = 1, exit_usage = 2, exit_not_measured = 3 };

/// Wrong usage, bad input or an empty selection: one line with the fault, its place and its remedy.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if a kernel has made the process, or data shared with other kernels, unusable.
struct KernelCrashed : std::runtime_error {
  KernelCrashed(std::string kernel, const std::string& reason)
      : std::runtime_error(reason), kernel(std::move(kernel)) {}
  std::string kernel;
};

/// Writes "PROGRAM: TEXT" to stderr as one line, if that is possible.
inline void complain(const char* program, const char* text) {
  std::fflush(stdout);  // earlier output first
  // One write, so that no other process's line is interleaved; fmt would throw on an error.
  const std::string line = std::string(program) + ": " + printable(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

/// Runs a program's body. An exception becomes one line on stderr and an exit status: 2 for a
/// UsageError, 1 for KernelCrashed, 3 for any other, because nothing is then known about the
/// kernels.
template <class Body>
int run_program(const char* program, Body body) {
  const auto end = [&](ExitStatus status, const std::exception& error) {
    complain(program, error.what());
    return status;
  };
  try {
    return body();
  } catch (const UsageError& error) {
    return end(exit_usage, error);
  } catch (const KernelCrashed& crashed) {
    return end(exit_wrong_output, crashed);
  } catch (const std::exception& error) {
    return end(exit_not_measured, error);
  }
}

}  // namespace reprolab
