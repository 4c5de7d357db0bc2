// The two ways a program ends early: the user must fix something, or a run went wrong.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "experiments/harness/outcome.hpp"

namespace reprolab {

/// Wrong usage, bad input or an empty selection: one line that says what, where and what to do.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs a program's body: UsageError becomes one line on stderr and exit 2, any other exception
/// one line and exit 1.
template <class Body>
int run_program(const char* program, Body body) {
  try {
    return body();
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return exit_usage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return exit_wrong_output;
  }
}

}  // namespace reprolab
