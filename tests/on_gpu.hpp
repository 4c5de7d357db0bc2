// Suites that need a GPU, and tests that need so much of its memory.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "profiling/cuda_check.hpp"
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

/// Why a test that needs so much device memory is not run, or "".
inline std::string lacks_memory(std::uint64_t needed_bytes) {
  std::size_t free_bytes = 0, total_bytes = 0;
  profiling::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  if (free_bytes >= needed_bytes) return "";
  return "NOT TESTED, not enough device memory: needs " + std::to_string(needed_bytes >> 30) +
         " GiB, " + std::to_string(free_bytes >> 30) + " GiB are free";
}

}  // namespace reprolab
