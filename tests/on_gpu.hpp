// Suites that need a GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "profiling/machine.hpp"

namespace reprolab {

/// `Base`, skipped with a message on a machine without a GPU.
template <class Base>
class NeedsGpu : public Base {
 protected:
  void SetUp() override {
    std::string why_not;
    gpu = profiling::find_gpu(&why_not);
    if (!gpu) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }

  std::optional<profiling::Gpu> gpu;
};

using OnGpuTest = NeedsGpu<testing::Test>;

}  // namespace reprolab
