// The end of a program: with its own status, or early, with one line on stderr.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/outcome.hpp"

namespace reprolab {

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

/// Refuses to start without stdout and stderr: files opened later would take their descriptors.
/// Throws UsageError.
void require_streams();

/// Writes "PROGRAM: TEXT" to stderr as one line, if that is possible.
void complain(const char* program, const char* text) noexcept;

/// Flushes stdout and stderr and returns their first error; empty if all output was written.
std::string lost_output();

/// Runs a program's body. An exception becomes one line on stderr and an exit status: 2 for a
/// UsageError, 1 for KernelCrashed, 3 for any other, because nothing is then known about the
/// kernels. Lost output turns success into exit status 2.
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
  // Checked first, because fmt throws if it cannot print.
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
