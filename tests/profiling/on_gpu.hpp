// The fixture of tests that need a GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "profiling/machine.hpp"

namespace reprolab::profiling {

/// Skips the test, with a message, on a machine without a GPU.
class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    gpu = find_gpu(&why_not);
    if (!gpu) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }
  std::optional<Gpu> gpu;
};

}  // namespace reprolab::profiling
