// The instrument of counters where this user may not count: no GPU, no driver.
#include "profiling/counters.hpp"

#include "tests/profiling/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::profiling {
namespace {

/// The work is done, each counter is missing for a reason, and one line says so.
TEST(Counters, WithoutPermissionAreMissingAndTheWorkIsDone) {
  const ScopedVariable library("REPROLAB_CUPTI", FAKE_COUNTERS);
  std::vector<std::string> warnings;
  const auto counter = [](const char* id) {
    return Counter{.id = id, .unit = "kernels", .names = {"sm__kernels.sum"}};
  };
  const auto instrument =
      make_counters({{counter("first"), counter("second")},
                     [&](const std::string& reason) { warnings.push_back(reason); }},
                    {[] { return 0; }, [] { return CUcontext{}; }, [](std::string_view) {}});
  for (int run = 1; run <= 2; ++run) {
    int runs = 0;
    const Sample sample = instrument->measure(
        {.name = "a_kernel",
         .enqueue = [&](cudaStream_t, const Call& call) { call("kernel_time", [&] { ++runs; }); }},
        nullptr);
    EXPECT_EQ(runs, 1);
    EXPECT_TRUE(sample.readings.empty());
    ASSERT_EQ(sample.missing.size(), 2u);
    for (const Missing& missing : sample.missing) {
      EXPECT_TRUE(contains(missing.why, "ERR_NVGPUCTRPERM"));
    }
    EXPECT_EQ(warnings.size(), 1u);
  }
}

}  // namespace
}  // namespace reprolab::profiling
