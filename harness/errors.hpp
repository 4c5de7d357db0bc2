// How a program ends: with its own status, or early, with one line on stderr.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/outcome.hpp"

namespace reprolab {

/// Wrong usage, bad input or an empty selection: one line that says what, where and what to do.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if a kernel has made the process, or the data that it shares with others, unusable.
struct KernelCrashed : std::runtime_error {
  KernelCrashed(std::string kernel, const std::string& reason)
      : std::runtime_error(reason), kernel(std::move(kernel)) {}
  std::string kernel;
};

/// Refuses to start without stdout and stderr: what is opened later would take their place. Throws
/// UsageError.
void require_streams();

/// Writes "PROGRAM: TEXT" to stderr as one line, if that is possible.
void complain(const char* program, const char* text) noexcept;

/// Flushes stdout and stderr and returns what went wrong with their output so far; empty if all of
/// it arrived.
std::string lost_output();

/// Runs a program's body: an exception becomes one line on stderr, and the exit status: 2 for a
/// UsageError, 1 for KernelCrashed, 3 for any other, as nothing is known of the kernels then.
/// Output that was lost makes a success exit 2.
template <class Body>
int run_program(const char* program, Body body) {
  int status = exit_verified;
  std::string wrong;
  try {
    require_streams();
    status = body();
  } catch (const UsageError& error) {
    complain(program, error.what());
    return exit_usage;
  } catch (const KernelCrashed& crashed) {
    status = exit_wrong_output;
    wrong = crashed.what();
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  // Looked at first, because fmt throws if it cannot print.
  const std::string lost = lost_output();
  if (!lost.empty()) {
    complain(program, lost.c_str());
    return status == exit_verified ? exit_usage : status;
  }
  if (wrong.empty()) return status;
  complain(program, wrong.c_str());
  return status == exit_verified ? exit_not_measured : status;
}

}  // namespace reprolab
