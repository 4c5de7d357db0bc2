// Shared by the tests of all families' kernels: suites of one kernel at a time.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "harness/workload.hpp"
#include "tests/on_gpu.hpp"

namespace reprolab {

/// Of each of a family's kernels; the test is named after the kernel, and needs a GPU.
class OnGpuEachKernel : public OnGpuTest, public testing::WithParamInterface<VariantInfo> {};

/// The suffix of a test's name.
inline std::string name_of(const testing::TestParamInfo<VariantInfo>& info) {
  return info.param.name;
}

}  // namespace reprolab
