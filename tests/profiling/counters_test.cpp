// The instrument of counters where this user may not count, under another profiler and without
// CUPTI: no GPU, no driver.
#include "profiling/counters.hpp"

#include <dlfcn.h>

#include "tests/profiling/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::profiling {
namespace {

int cupti_calls() {
  void* library = dlopen(FAKE_COUNTERS, RTLD_NOW);
  return reinterpret_cast<int (*)()>(dlsym(library, "fake_counters_calls"))();
}

class CountersRefused : public testing::Test {
 protected:
  /// The work is done, each counter is missing for a reason with that text, and one line says so.
  void expect_missing(Instrument& instrument, const std::string& part) {
    const Sample sample = instrument.measure(
        {.name = "a_kernel",
         .enqueue = [this](cudaStream_t,
                           const Call& call) { call("kernel_time", [this] { ++runs_; }); }},
        nullptr);
    EXPECT_TRUE(sample.readings.empty());
    ASSERT_EQ(sample.missing.size(), 2u);
    for (const Missing& missing : sample.missing) EXPECT_TRUE(contains(missing.why, part));
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_TRUE(contains(warnings_[0], part));
  }

  std::unique_ptr<Instrument> make() {
    const auto counter = [](const char* id) {
      return Counter{.id = id, .unit = "kernels", .meaning = "", .names = {"sm__kernels.sum"}};
    };
    return make_counters({{counter("first"), counter("second")},
                          [this](const std::string& reason) { warnings_.push_back(reason); }},
                         {[] { return 0; }, [] { return CUcontext{}; }, [](std::string_view) {}});
  }

  int runs_ = 0;
  std::vector<std::string> warnings_;
  const ScopedVariable library_{"REPROLAB_CUPTI", FAKE_COUNTERS};
};

TEST_F(CountersRefused, WithoutPermissionTheWorkIsDoneAndCuptiIsLeftAlone) {
  const auto instrument = make();
  expect_missing(*instrument, "ERR_NVGPUCTRPERM");
  const int calls = cupti_calls();
  expect_missing(*instrument, "ERR_NVGPUCTRPERM");
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(cupti_calls(), calls) << "called again";
}

TEST_F(CountersRefused, UnderAProfilerOrWithoutCuptiTheWorkIsDone) {
  for (const auto& [variable, value] : {std::pair{"NSYS_PROFILING_SESSION_ID", "1"},
                                        {"REPROLAB_CUPTI", "/nonexistent/libcupti.so"}}) {
    const ScopedVariable changed(variable, value);
    warnings_.clear(), runs_ = 0;
    expect_missing(*make(), variable);
    EXPECT_EQ(runs_, 1);
  }
}

}  // namespace
}  // namespace reprolab::profiling
