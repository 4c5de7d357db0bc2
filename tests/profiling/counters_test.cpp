// The instrument of counters with a fake CUPTI (fake_counters.cpp): no GPU, no driver.
#include "profiling/counters.hpp"

#include <dlfcn.h>

#include <map>

#include "tests/profiling/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::profiling {
namespace {

using Names = std::vector<std::string>;

template <class Function>
Function counters_function(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_COUNTERS, RTLD_NOW), symbol));
}

class CountersFake : public testing::Test {
 protected:
  void SetUp() override { counters_function<void (*)()>("fake_counters_clear")(); }

  static void launch() { counters_function<void (*)()>("fake_counters_launch")(); }
  static int cupti_calls() { return counters_function<int (*)()>("fake_counters_calls")(); }
  static bool stays_open() { return counters_function<bool (*)()>("fake_counters_enabled")(); }

  static Counter counter(const std::string& id, const Names& names) {
    return {.id = id, .unit = "kernels", .meaning = "", .names = names};
  }

  /// An instrument that reads `counters` of this device and counts its waits.
  std::unique_ptr<Instrument> make(std::vector<Counter> counters = {
                                       counter("kernels", {"sm__kernels.sum"})}) {
    return make_counters(
        {std::move(counters), [this](const std::string& reason) { warnings_.push_back(reason); }},
        {[this] { return ordinal_; }, [] { return CUcontext{}; },
         [this](std::string_view) { ++waits_; }});
  }

  /// A call that launches `kernels` kernels.
  Work work(int kernels, const std::string& name = "a_kernel") {
    return {.name = name, .enqueue = [this, kernels](cudaStream_t, const Call& call) {
              ++calls_;
              call("kernel_time", [&] {
                for (int i = 0; i < kernels; ++i) launch();
              });
            }};
  }

  static std::map<std::string, double> values(const Sample& sample) {
    std::map<std::string, double> values;
    for (const Reading& reading : sample.readings) values[reading.name] = reading.value;
    return values;
  }
  static std::map<std::string, std::string> reasons(const Sample& sample) {
    std::map<std::string, std::string> reasons;
    for (const Missing& missing : sample.missing) reasons[missing.name] = missing.why;
    return reasons;
  }
  /// Checks that these counters are missing, each for a reason that contains a text.
  static void expect_reasons(const Sample& sample,
                             const std::map<std::string, std::string>& expected) {
    const auto all = reasons(sample);
    EXPECT_EQ(all.size(), expected.size());
    for (const auto& [counter, part] : expected) EXPECT_TRUE(contains(all.at(counter), part));
  }

  int ordinal_ = 0, calls_ = 0, waits_ = 0;
  std::vector<std::string> warnings_;

 private:
  ScopedVariable library_{"REPROLAB_CUPTI", FAKE_COUNTERS};
};

/// Each time in a separate image, because CUPTI adds to the values in an image.
TEST_F(CountersFake, ACallOfOneKernelIsCountedAroundThatKernel) {
  const auto instrument = make();
  EXPECT_EQ(cupti_calls(), 0) << "called without a context";
  for (int i = 1; i <= 3; ++i) {
    const Sample sample = instrument->measure(work(1), nullptr);
    EXPECT_EQ(values(sample), (std::map<std::string, double>{{"kernels", 1}}));
    EXPECT_EQ(sample.readings.at(0).unit, "kernels");
    EXPECT_TRUE(sample.missing.empty());
    EXPECT_FALSE(sample.held);
    EXPECT_FALSE(stays_open());
    EXPECT_EQ(calls_, i) << "replayed by CUPTI";
    EXPECT_EQ(waits_, i);
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CountersFake, ACallOfSeveralKernelsIsCountedAsAWholeOncePerPass) {
  const auto instrument =
      make({counter("kernels", {"sm__kernels.sum"}), counter("twice", {"sm__twice.sum"})});
  const Sample sample = instrument->measure(work(2), nullptr);
  EXPECT_EQ(values(sample), (std::map<std::string, double>{{"kernels", 2}, {"twice", 4}}));
  EXPECT_EQ(calls_, 1 + 3) << "3 passes";
  EXPECT_EQ(values(instrument->measure(work(2), nullptr)).at("twice"), 4);
  EXPECT_EQ(calls_, 4 + 3) << "3 passes";
  instrument->measure(work(1, "another"), nullptr);
  EXPECT_EQ(calls_, 7 + 1);
  EXPECT_EQ(values(instrument->measure(work(100, "many"), nullptr)).at("kernels"), 100);
}

TEST_F(CountersFake, ACounterThatTheChipLacksIsMissingAndTheOthersAreRead) {
  ordinal_ = 1;  // of the current device, whose chip it is
  const auto instrument =
      make({counter("old_or_new", {"sm__old.sum", "sm__kernels.sum"}),
            counter("unknown", {"sm__no.sum"}),
            counter("unknowns", {"sm__a.sum", "sm__b.sum"}),
            counter("incomplete", {"sm__kernels"}),
            counter("nothing", {"ratio__nothing.pct"}),
            counter("link", {"device__link.sum"}),
            {.id = "unnamed", .unit = "", .meaning = "", .names = {"sm__twice.sum"}}});
  const Sample sample = instrument->measure(work(1), nullptr);
  EXPECT_EQ(values(sample), (std::map<std::string, double>{{"old_or_new", 1}, {"unnamed", 2}}));
  EXPECT_EQ(sample.readings.at(1).unit, "kernel") << "CUPTI's unit";
  expect_reasons(sample, {{"unknown", "sm__no.sum"},
                          {"unknowns", "sm__a.sum or sm__b.sum"},
                          {"incomplete", "read with an ending"},
                          {"link", "device__link.sum"},
                          {"nothing", "ratio"}});
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CountersFake, WithoutPermissionTheWorkIsDoneAndCuptiIsLeftAlone) {
  const std::string reason = "ERR_NVGPUCTRPERM";
  const ScopedVariable fail("FAKE_CUPTI_FAIL", "Enable=35");
  const auto instrument =
      make({counter("kernels", {"sm__kernels.sum"}), counter("twice", {"sm__twice.sum"})});
  int calls = 0;
  for (int i = 1; i <= 2; ++i) {
    const Sample sample = instrument->measure(work(1), nullptr);
    EXPECT_TRUE(sample.readings.empty());
    expect_reasons(sample, {{"kernels", reason}, {"twice", reason}});
    EXPECT_EQ(calls_, i);
    EXPECT_EQ(waits_, i);
    if (i == 1) calls = cupti_calls();
    EXPECT_EQ(cupti_calls(), calls) << "called again";
  }
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(contains(warnings_[0], reason));
}

TEST_F(CountersFake, EveryCallOfCuptiMayFailAndNothingStaysOpen) {
  for (const auto& [function, lasts] : {std::pair{"Initialize", true},
                                        {"GetChipName", true},
                                        {"GetCounterAvailability", true},
                                        {"HostInitialize", true},
                                        {"Enable", false},
                                        {"CounterDataImageInitialize", false},
                                        {"SetConfig kernel", false},
                                        {"SetConfig user", false},
                                        {"Start", false},
                                        {"PushRange", false},
                                        {"PopRange", false},
                                        {"Stop", false},
                                        {"DecodeData", false},
                                        {"Evaluate", false}}) {
    SetUp();
    const auto instrument = make();
    const Names before = warnings_;
    {
      const ScopedVariable fail("FAKE_CUPTI_FAIL", std::string(function) + "=1");
      const Sample sample = instrument->measure(work(2), nullptr);
      EXPECT_TRUE(sample.readings.empty()) << function;
      EXPECT_TRUE(reasons(sample).at("kernels").ends_with("CUPTI_ERROR_OTHER (1).")) << function;
      EXPECT_EQ(warnings_.size(), before.size() + 1) << function;
    }
    EXPECT_FALSE(stays_open()) << function;
    // A failure around one call does not affect the next; a failure before any does.
    EXPECT_EQ(instrument->measure(work(2), nullptr).readings.size(), lasts ? 0u : 1u) << function;
  }
}

TEST_F(CountersFake, UnderAProfilerOrWithoutCuptiTheWorkIsDone) {
  for (const auto& [variable, value] : {std::pair{"NSYS_PROFILING_SESSION_ID", "1"},
                                        {"REPROLAB_CUPTI", "/nonexistent/libcupti.so"}}) {
    const ScopedVariable changed(variable, value);
    warnings_.clear(), calls_ = 0;
    const auto instrument = make();
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_TRUE(contains(warnings_[0], variable));
    EXPECT_EQ(reasons(instrument->measure(work(1), nullptr)).at("kernels"), warnings_[0]);
    EXPECT_EQ(cupti_calls(), 0);
    EXPECT_EQ(calls_, 1);
  }
}

}  // namespace
}  // namespace reprolab::profiling
