// The loop that takes samples, with a scripted instrument and a scripted subject.
#include "harness/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace reprolab {
namespace {

class NoInstrument : public profiling::Instrument {
 public:
  profiling::InstrumentKind kind() const override { return profiling::InstrumentKind::none; }
  profiling::Sample measure(const profiling::Work&, cudaStream_t) override { return {}; }
};

/// Gives each row's n-th sample the value that the test sets, and records the order of calls.
class Script : public Subject {
 public:
  std::function<Verifier::Sampled(const std::string& kernel, int n)> sample_of =
      [](const std::string&, int n) { return timed(100.0 + n); };
  std::function<Verifier::Sampled(const std::string& kernel)> preparation_of =
      [](const std::string&) { return Verifier::Sampled{}; };
  double min_us = 0;
  std::vector<std::string> order;
  std::map<std::string, int> count, prepared;

  static Verifier::Sampled timed(double us) {
    return {{.readings = {{"kernel_time", "us", us}}}, {}};
  }

  std::string name() const override { return "a problem"; }
  Verifier::Sampled prepare(Row& row, profiling::Instrument&) override {
    ++prepared[row.kernel()];
    row.min_us = min_us;
    return preparation_of(row.kernel());
  }
  Verifier::Sampled sample(Row& row, profiling::Instrument&) override {
    order.push_back(row.kernel());
    return sample_of(row.kernel(), count[row.kernel()]++);
  }
  std::optional<double> sm_mhz() override { return 1980.0 + static_cast<double>(order.size()); }
};

Row row_of(const std::string& kernel, Outcome outcome = Outcome::bit_exact) {
  VariantInfo variant;
  variant.name = kernel;
  return start_row("a problem", variant, {outcome, "", {}});
}

class Sampling : public testing::Test {
 protected:
  /// The resulting records of rows of these kernels, by kernel.
  std::map<std::string, Record> sample(std::vector<Row> rows, const SamplingPlan& plan) {
    NoInstrument instrument;
    take_samples(rows, script_, instrument, plan, Watchdog());
    std::map<std::string, Record> records;
    for (Row& row : rows) records[row.kernel()] = row.record;
    return records;
  }

  Script script_;
};

using Doubles = std::vector<double>;

TEST_F(Sampling, KeepsEverySampleInTheOrderTakenAndNoneOfTheWarmUp) {
  const auto records = sample({row_of("a"), row_of("b")}, {.warmups = 2, .samples = 3});
  for (const char* kernel : {"a", "b"}) {
    const Record& record = records.at(kernel);
    EXPECT_EQ(record.metric(kernel_time)->samples, (Doubles{102, 103, 104})) << kernel;
    EXPECT_EQ(record.metric(kernel_time)->unit, "us");
    EXPECT_EQ(record.key, std::string("a problem/") + kernel);
    EXPECT_EQ(script_.prepared[kernel], 1);
  }
}

TEST_F(Sampling, EveryRoundHoldsEachRowOnceInAnOrderOfItsOwn) {
  const std::vector<Row> rows{row_of("a"), row_of("b"), row_of("c"), row_of("d"), row_of("e")};
  sample(rows, {.samples = 20, .seed = 7});
  std::set<std::vector<std::string>> rounds;
  for (std::size_t round = 0; round < 20; ++round) {
    std::vector<std::string> one(
        script_.order.begin() + 5 * static_cast<std::ptrdiff_t>(round),
        script_.order.begin() + 5 * static_cast<std::ptrdiff_t>(round + 1));
    rounds.insert(one);
    std::ranges::sort(one);
    EXPECT_EQ(one, (std::vector<std::string>{"a", "b", "c", "d", "e"})) << round;
  }
  EXPECT_GT(rounds.size(), 10u);
  const auto first = script_.order;
  script_.order.clear();
  sample(rows, {.samples = 20, .seed = 7});
  EXPECT_EQ(script_.order, first) << "the same seed";
  script_.order.clear();
  sample(rows, {.samples = 20, .seed = 8});
  EXPECT_NE(script_.order, first) << "another seed";
}

TEST_F(Sampling, ARowThatFailedBeforeIsNotSampled) {
  const auto records =
      sample({row_of("a"), row_of("wrong", Outcome::mismatch), row_of("no", Outcome::unsupported)},
             {.samples = 2});
  EXPECT_EQ(script_.count.size(), 1u);
  EXPECT_TRUE(records.at("wrong").metrics.empty());
  EXPECT_EQ(records.at("a").metric(kernel_time)->samples.size(), 2u);
}

/// If an output goes wrong only later, the time is withdrawn.
TEST_F(Sampling, AWrongOutputInAnySampleWithdrawsAllOfThem) {
  for (int bad = 0; bad < 4; ++bad) {
    script_ = {};
    script_.sample_of = [&](const std::string& kernel, int n) {
      auto sampled = Script::timed(100);
      sampled.sample.launched = {{{.name = "kernel"}}};
      sampled.written.outcome = Outcome::bit_exact;
      if (kernel == "stateful" && n == bad) {
        sampled.written = {Outcome::mismatch, "copy 1: 5 of 9 weights differ", {5, 0}};
      }
      return sampled;
    };
    const auto records = sample({row_of("stateful"), row_of("b")}, {.warmups = 1, .samples = 3});
    const Record& record = records.at("stateful");
    EXPECT_EQ(record.outcome, Outcome::mismatch);
    EXPECT_EQ(record.reason,
              (bad == 0 ? std::string("in the warm-up") : "in sample " + std::to_string(bad)) +
                  ": copy 1: 5 of 9 weights differ");
    EXPECT_EQ(record.mismatches, 5);
    EXPECT_TRUE(record.metrics.empty());
    EXPECT_FALSE(record.launch);
    EXPECT_EQ(script_.count["stateful"], bad + 1) << "and it takes no further part";
    EXPECT_EQ(records.at("b").metric(kernel_time)->samples.size(), 3u);
    EXPECT_TRUE(records.at("b").launch);
  }
}

TEST_F(Sampling, AnotherOutcomeThanBeforeIsAFailureAndNoneIsNot) {
  script_.sample_of = [](const std::string& kernel, int) {
    auto sampled = Script::timed(100);
    if (kernel == "was_right") sampled.written = {Outcome::deviation_as_declared, "differs", {}};
    if (kernel == "fails") sampled.written = {Outcome::launch_failed, "launch: no", {}};
    return sampled;
  };
  const auto records = sample({row_of("was_right"), row_of("fails"), row_of("silent"),
                               row_of("deviates", Outcome::deviation_as_declared)},
                              {.samples = 2});
  EXPECT_EQ(records.at("was_right").outcome, Outcome::mismatch);
  EXPECT_EQ(records.at("was_right").reason,
            "in sample 1: its output is deviation_as_declared, and was bit_exact when it was "
            "verified");
  EXPECT_TRUE(records.at("was_right").metrics.empty());
  EXPECT_EQ(records.at("fails").outcome, Outcome::launch_failed);
  EXPECT_EQ(records.at("fails").reason, "in sample 1: launch: no");
  EXPECT_EQ(records.at("silent").outcome, Outcome::bit_exact);
  EXPECT_EQ(records.at("deviates").metrics.size(), 1u);
}

/// A fault of the harness costs that row its time, and nothing else: no other row sees a
/// difference.
TEST_F(Sampling, WhatTheHarnessLostInOneRowIsNotMeasuredThereAlone) {
  const auto sample_all = [&](bool loses) {
    script_ = {};
    script_.sample_of = [loses](const std::string& kernel, int n) {
      auto sampled = Script::timed(100.0 + n);
      if (loses && kernel == "unlucky" && n == 2) {
        sampled = {{.lost = "CUPTI dropped 3 records"},
                   {Outcome::not_measured, "CUPTI dropped 3 records", {}}};
      }
      return sampled;
    };
    return sample({row_of("a"), row_of("unlucky"), row_of("b")}, {.warmups = 1, .samples = 4});
  };
  const auto whole = sample_all(false), found = sample_all(true);
  EXPECT_EQ(name(found.at("unlucky").outcome), "not_measured");
  EXPECT_EQ(found.at("unlucky").reason, "in sample 2: CUPTI dropped 3 records");
  EXPECT_TRUE(found.at("unlucky").metrics.empty());
  EXPECT_EQ(script_.count["unlucky"], 3);
  for (const char* kernel : {"a", "b"}) {
    EXPECT_EQ(name(found.at(kernel).outcome), "bit_exact");
    EXPECT_EQ(found.at(kernel).metric(kernel_time)->samples,
              whole.at(kernel).metric(kernel_time)->samples);
  }
}

TEST_F(Sampling, ATimeBelowWhatMemoryAllowsIsAFailedRow) {
  script_.min_us = 50;
  script_.sample_of = [](const std::string& kernel, int n) {
    return Script::timed(kernel.starts_with("too_fast") && n == 2 ? 49.9 : 50.1);
  };
  Row too_fast = row_of("too_fast");
  too_fast.record.bytes_read = 30'000'000;
  too_fast.record.bytes_written = 100'000'000;
  Row ceiling = too_fast;
  ceiling.record.variant.name = "too_fast_ceiling";
  ceiling.record.variant.origin.kind = Origin::Kind::ceiling;
  ceiling.record.outcome = Outcome::not_verified;
  const auto records = sample({too_fast, ceiling, row_of("fine")}, {.samples = 5});
  EXPECT_EQ(records.at("too_fast").outcome, Outcome::launch_failed);
  EXPECT_EQ(records.at("too_fast").reason,
            "in sample 3: took 49.9 us, but on cold data this GPU's memory needs at least 50 us "
            "for its 130 MB: its work cannot all be done in that time");
  for (const char* kernel : {"too_fast", "too_fast_ceiling"}) {
    EXPECT_EQ(records.at(kernel).outcome, Outcome::launch_failed) << kernel;
    EXPECT_TRUE(records.at(kernel).metrics.empty()) << kernel;
    EXPECT_FALSE(records.at(kernel).clocks.sm_mhz_during) << kernel;
    EXPECT_EQ(script_.count[kernel], 3) << kernel;
  }
  EXPECT_EQ(records.at("fine").outcome, Outcome::bit_exact);
}

TEST_F(Sampling, ATimeOfNothingIsAFailedRowWhateverTheMemoryAndACountMayBeZero) {
  for (const double us : {0.0, -1.0, 1.0}) {
    script_ = {};
    script_.sample_of = [&](const std::string&, int) {
      return Verifier::Sampled{{.readings = {{"kernel_time", "us", us}, {"branches", "", 0.0}}},
                               {}};
    };
    const Record record = sample({row_of("a")}, {.samples = 2}).at("a");
    EXPECT_EQ(record.outcome, us > 0 ? Outcome::bit_exact : Outcome::launch_failed) << us;
    if (us > 0) {
      EXPECT_EQ(record.metric("branches")->samples, (Doubles{0, 0}));
    } else {
      EXPECT_EQ(record.reason,
                "in sample 1: took no time: the instrument recorded none of its work");
    }
  }
}

TEST_F(Sampling, AMetricThatIsMissingFromOneSampleIsMissingFromTheRow) {
  script_.sample_of = [](const std::string&, int n) {
    Verifier::Sampled sampled{{.readings = {{"branches", "branches", 7.0}}}, {}};
    sampled.sample.missing = {{"l2_hit_rate", "%", "the chip has none"}};
    if (n == 1) {
      sampled.sample.readings.push_back({"warps", "warps", 1.0});
    } else {
      sampled.sample.missing.push_back({"warps", "warps", "sample " + std::to_string(n)});
    }
    return sampled;
  };
  const Record late = sample({row_of("a")}, {.warmups = 1, .samples = 3}).at("a");
  EXPECT_EQ(late.metric("branches")->samples, (Doubles{7, 7, 7}));
  EXPECT_EQ(late.metric("l2_hit_rate")->missing, "the chip has none");
  EXPECT_EQ(late.metric("l2_hit_rate")->unit, "%");
  EXPECT_EQ(late.metric("warps")->missing, "sample 2")
      << "the first reason of a sample that counts";
  EXPECT_TRUE(late.metric("warps")->samples.empty());
  EXPECT_EQ(late.metrics.size(), 3u);
  const Record early = sample({row_of("b")}, {.samples = 3}).at("b");
  EXPECT_EQ(early.metric("warps")->missing, "sample 0");
  EXPECT_TRUE(early.metric("warps")->samples.empty());
}

TEST_F(Sampling, LaunchFactsNameEachDistinctKernelOnceAndTheMostOfACall) {
  script_.sample_of = [](const std::string&, int) {
    auto sampled = Script::timed(100);
    const profiling::KernelActivity small{.name = "k", .grid = {1, 1, 1}, .block = {64, 1, 1}};
    profiling::KernelActivity large = small;
    large.grid = {9, 1, 1};
    large.registers_per_thread = 48;
    sampled.sample.launched = {{small}, {small, large}, {large}};
    return sampled;
  };
  const auto launch = sample({row_of("a")}, {.samples = 2}).at("a").launch;
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->kernels_per_call, 2);
  ASSERT_EQ(launch->kernels.size(), 2u);
  EXPECT_EQ(launch->kernels[0].grid[0], 1);
  EXPECT_EQ(launch->kernels[1].grid[0], 9);
  EXPECT_EQ(launch->kernels[1].registers, 48u);
}

TEST_F(Sampling, ClocksAreThoseBeforeBesideAndBehindARowsOwnSamples) {
  const Record record = sample({row_of("a")}, {.warmups = 1, .samples = 3}).at("a");
  EXPECT_EQ(record.clocks.sm_mhz_before, 1980) << "before the warm-up";
  EXPECT_EQ(record.clocks.sm_mhz_during, 1983) << "the median of 1982, 1983, 1984";
  EXPECT_EQ(record.clocks.sm_mhz_after, 1984);
}

TEST_F(Sampling, WhatPreparationRanIsVerifiedLikeAWarmUp) {
  script_.preparation_of = [](const std::string& kernel) {
    auto sampled = Script::timed(100);
    if (kernel == "wrong") sampled.written = {Outcome::mismatch, "copy 0: 1 differs", {1, 0}};
    return sampled;
  };
  const auto records = sample({row_of("wrong"), row_of("right")}, {.samples = 2});
  EXPECT_EQ(records.at("wrong").outcome, Outcome::mismatch);
  EXPECT_EQ(records.at("wrong").reason, "in the warm-up: copy 0: 1 differs");
  EXPECT_EQ(script_.count["wrong"], 0);
  EXPECT_EQ(records.at("right").metric(kernel_time)->samples.size(), 2u) << "it leaves no sample";
}

TEST(WithRecords, WrongOutputsAndForeignWorkOutrankWhatWasLost) {
  profiling::Sample lossy{.lost = "CUPTI dropped 3 records"}, foreign = lossy;
  foreign.foreign = 2;
  const Verification right{Outcome::bit_exact}, wrong{Outcome::mismatch, "1 differs", {1, 0}};
  EXPECT_EQ(name(with_records(right, {}).outcome), "bit_exact");
  EXPECT_EQ(name(with_records({}, {}).outcome), "not_verified");
  EXPECT_EQ(name(with_records(right, lossy).outcome), "not_measured");
  EXPECT_EQ(with_records({}, lossy).reason, "CUPTI dropped 3 records");
  EXPECT_EQ(name(with_records(right, foreign).outcome), "launch_failed");
  EXPECT_EQ(with_records(wrong, foreign).reason, "1 differs");
}

/// What repeat_if_late makes of samples with a right output.
Verifier::Sampled taken(const std::function<profiling::BatchTime()>& held) {
  return repeat_if_late([&] {
    Verifier::Sampled one = Script::timed(100);
    one.sample.held = held();
    one.written.outcome = Outcome::bit_exact;
    return one;
  });
}

/// The host may not be scheduled for a while; a kernel that waits does so every time.
TEST(RepeatIfLate, TakesAnotherSampleTwiceAtMost) {
  for (int late = 0; late < 5; ++late) {
    for (const bool host_ahead : {true, false}) {
      int count = 0;
      const auto sampled = taken([&]() -> profiling::BatchTime {
        const bool is_late = count++ < late;
        return {.us = 1000,
                .host_ahead = host_ahead || !is_late,
                .lingering_us = is_late ? 201.0 : 199.0};
      });
      EXPECT_EQ(count, std::min(late + 1, 3));
      EXPECT_EQ(sampled.written.outcome, late < 3 ? Outcome::bit_exact : Outcome::launch_failed);
    }
  }
}

/// The events of a batch say so much, the host's clock so much.
TEST(RepeatIfLate, RefusesATimeThatTheHostsClockBelies) {
  const auto verdict = [](double us, double host_us) {
    return taken([&]() -> profiling::BatchTime {
             return {.us = us, .host_ahead = true, .host_us = host_us};
           })
        .written;
  };
  EXPECT_EQ(verdict(1000, 1020).outcome, Outcome::bit_exact);
  EXPECT_EQ(verdict(1000, 1340).outcome, Outcome::bit_exact) << "the host has other work";
  EXPECT_EQ(verdict(100'000, 104'000).outcome, Outcome::bit_exact);
  EXPECT_EQ(verdict(100, 1020).outcome, Outcome::launch_failed);
  EXPECT_EQ(verdict(100, 1020).reason,
            "took 100 us between the events, and 1020 us on the host's clock");
}

TEST(RepeatIfLate, LeavesAWrongOutputAndAStreamThatWasNotHeldAlone) {
  for (const bool held : {true, false}) {
    int taken = 0;
    const auto sampled = repeat_if_late([&] {
      ++taken;
      Verifier::Sampled one = Script::timed(100);
      if (held) one.sample.held = profiling::BatchTime{.us = 100, .lingering_us = 1e6};
      one.written.outcome = held ? Outcome::mismatch : Outcome::bit_exact;
      return one;
    });
    EXPECT_EQ(taken, 1);
    EXPECT_EQ(sampled.written.outcome, held ? Outcome::mismatch : Outcome::bit_exact);
  }
}

}  // namespace
}  // namespace reprolab
