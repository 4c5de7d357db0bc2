// Shared by the profiling tests.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/message_of.hpp"

namespace reprolab::profiling {

/// An environment variable set for a scope; unset after it.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

}  // namespace reprolab::profiling
