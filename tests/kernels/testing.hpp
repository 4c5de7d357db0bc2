// Shared by the tests of all families' kernels: suites that need a GPU, one kernel at a time.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "harness/workload.hpp"
#include "profiling/machine.hpp"

namespace reprolab {

/// Skips the test, with a message, on a machine without a GPU.
class OnGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::find_gpu(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }
};

/// The same for each of a family's kernels; the test is named after the kernel.
class OnGpuEachKernel : public OnGpuTest, public testing::WithParamInterface<VariantInfo> {};

/// The suffix of a test's name.
inline std::string name_of(const testing::TestParamInfo<VariantInfo>& info) {
  return info.param.name;
}

}  // namespace reprolab
