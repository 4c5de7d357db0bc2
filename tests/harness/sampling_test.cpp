// The loop that takes samples, with a scripted subject.
#include "harness/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/provenance.hpp"
#include "profiling/basics.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using Doubles = std::vector<double>;
using Kernels = std::vector<std::string>;

Sampled timed(double us) { return {{.readings = {{"kernel_time", "us", us}}}, {}}; }

Row row_of(const std::string& kernel, Outcome outcome = Outcome::bit_exact) {
  VariantInfo variant;
  variant.name = kernel;
  return start_row({.name = "a problem"}, variant, {outcome});
}

/// Gives each row's n-th sample the value that the test sets, and records the order of samples.
class Sampling : public testing::Test {
 protected:
  using SampleOf = std::function<Sampled(const std::string& kernel, int n)>;

  /// The resulting records, by kernel.
  std::map<std::string, Record> sample(
      std::vector<Row> rows, const SamplingPlan& plan,
      const SampleOf& sample_of = [](const std::string&, int n) { return timed(100.0 + n); }) {
    order_.clear();
    count_.clear();
    const auto sm_mhz = [&] { return 1980.0 + static_cast<double>(order_.size()); };
    take_samples(rows,
                 {.name = "a problem",
                  .sample =
                      [&](Row& row) {
                        order_.push_back(row.kernel());
                        return sample_of(row.kernel(), count_[row.kernel()]++);
                      },
                  .sm_mhz = sm_mhz,
                  .prepare =
                      [&](Row& row) {
                        row.min_us = min_us_;
                        return prepared_;
                      }},
                 plan, Watchdog());
    std::map<std::string, Record> records;
    for (Row& row : rows) records[row.kernel()] = row.record;
    return records;
  }

  double min_us_ = 0;
  Sampled prepared_;  ///< Returned by the preparation of every row.
  Kernels order_;
  std::map<std::string, int> count_;
};

TEST_F(Sampling, KeepsAllSamplesInOrderWithoutTheWarmUpAndItsClocks) {
  const auto records = sample({row_of("a")}, {.warmups = 1, .samples = 3});
  const Record& record = records.at("a");
  EXPECT_EQ(record.metric(kernel_time)->samples, (Doubles{101, 102, 103}));
  EXPECT_EQ(record.metric(kernel_time)->unit, "us");
  EXPECT_EQ(record.key, "a problem/a");
  EXPECT_EQ(record.clocks.sm_mhz_before, 1980) << "before the warm-up";
  EXPECT_EQ(record.clocks.sm_mhz_during, 1983) << "the median of 1982, 1983, 1984";
  EXPECT_EQ(record.clocks.sm_mhz_after, 1984);
}

TEST_F(Sampling, ARowThatFailedBeforeIsNotSampled) {
  const auto records =
      sample({row_of("a"), row_of("wrong", Outcome::mismatch), row_of("no", Outcome::unsupported)},
             {.samples = 2});
  EXPECT_EQ(count_.size(), 1u);
  EXPECT_TRUE(records.at("wrong").metrics.empty());
  EXPECT_EQ(records.at("a").metric(kernel_time)->samples.size(), 2u);
}

/// If an output is wrong only later, or the harness loses a sample, that row has no time, and no
/// other row is affected.
TEST_F(Sampling, ABadSampleWithdrawsItsRow) {
  const Verification wrong{Outcome::mismatch, "copy 1: 5 of 9 weights differ", {5, 0}},
      lost{Outcome::not_measured, "CUPTI dropped 3 records"};
  for (const Verification& verdict : {wrong, lost}) {
    for (int bad = 0; bad < 4; ++bad) {
      const auto records = sample({row_of("bad"), row_of("b")}, {.warmups = 1, .samples = 3},
                                  [&](const std::string& kernel, int n) {
                                    auto sampled = timed(100.0 + n);
                                    sampled.sample.launched = {{{.name = "kernel"}}};
                                    sampled.written.outcome = Outcome::bit_exact;
                                    if (kernel == "bad" && n == bad) sampled.written = verdict;
                                    return sampled;
                                  });
      const Record& record = records.at("bad");
      EXPECT_EQ(name(record.outcome), name(verdict.outcome));
      const std::string when = bad == 0 ? "the warm-up" : "sample " + std::to_string(bad);
      EXPECT_EQ(record.reason, "in " + when + ": " + verdict.reason);
      EXPECT_EQ(record.mismatches.value_or(0), verdict.comparison.mismatches);
      EXPECT_TRUE(record.metrics.empty());
      EXPECT_TRUE(record.launch.is_null());
      EXPECT_EQ(count_["bad"], bad + 1) << "and it takes no further part";
      EXPECT_EQ(records.at("b").metric(kernel_time)->samples, (Doubles{101, 102, 103}));
      EXPECT_FALSE(records.at("b").launch.is_null());
    }
  }
}

TEST_F(Sampling, AChangedOutcomeIsAFailureAndAMissingOneIsNot) {
  const auto records = sample({row_of("was_right"), row_of("fails"), row_of("silent"),
                               row_of("deviates", Outcome::deviation_as_declared)},
                              {.samples = 2}, [](const std::string& kernel, int) {
                                auto sampled = timed(100);
                                if (kernel == "was_right") {
                                  sampled.written = {Outcome::deviation_as_declared, "differs"};
                                }
                                if (kernel == "fails") {
                                  sampled.written = {Outcome::launch_failed, "launch: no"};
                                }
                                return sampled;
                              });
  EXPECT_EQ(records.at("was_right").outcome, Outcome::mismatch);
  EXPECT_TRUE(has_match(records.at("was_right").reason,
                        "^in sample 1: .*deviation_as_declared.*bit_exact"));
  EXPECT_TRUE(records.at("was_right").metrics.empty());
  EXPECT_EQ(records.at("fails").outcome, Outcome::launch_failed);
  EXPECT_EQ(records.at("silent").outcome, Outcome::bit_exact);
  EXPECT_EQ(records.at("deviates").metrics.size(), 1u);
}

TEST_F(Sampling, LaunchesOfThePreparationAreVerifiedLikeAWarmUp) {
  prepared_ = timed(100);
  prepared_.written = {Outcome::mismatch, "copy 0: 1 differs", {1, 0}};
  const auto records = sample({row_of("wrong")}, {.samples = 2});
  EXPECT_EQ(records.at("wrong").outcome, Outcome::mismatch);
  EXPECT_EQ(records.at("wrong").reason, "in the warm-up: copy 0: 1 differs");
  EXPECT_EQ(count_["wrong"], 0);
  prepared_.written = {};
  EXPECT_EQ(sample({row_of("a")}, {.samples = 2}).at("a").metric(kernel_time)->samples.size(), 2u)
      << "it leaves no sample";
}

TEST_F(Sampling, ATimeBelowTheMemorysLimitIsAFailedRow) {
  min_us_ = 50;
  Row too_fast = row_of("too_fast");
  too_fast.record.bytes_read = 30'000'000;
  too_fast.record.bytes_written = 100'000'000;
  Row ceiling = too_fast;
  ceiling.record.variant.name = "too_fast_ceiling";
  ceiling.record.variant.origin.kind = Origin::Kind::ceiling;
  ceiling.record.outcome = Outcome::not_verified;
  const auto records = sample(
      {too_fast, ceiling, row_of("fine")}, {.samples = 5}, [](const std::string& kernel, int n) {
        return timed(kernel.starts_with("too_fast") && n == 2 ? 49.9 : 50.1);
      });
  EXPECT_TRUE(
      has_match(records.at("too_fast").reason, "^in sample 3: .*49\\.9 us.* 50 us .*130 MB"));
  for (const char* kernel : {"too_fast", "too_fast_ceiling"}) {
    EXPECT_EQ(records.at(kernel).outcome, Outcome::launch_failed) << kernel;
    EXPECT_TRUE(records.at(kernel).metrics.empty()) << kernel;
    EXPECT_FALSE(records.at(kernel).clocks.sm_mhz_during) << kernel;
    EXPECT_EQ(count_[kernel], 3) << kernel;
  }
  EXPECT_EQ(records.at("fine").outcome, Outcome::bit_exact);
}

/// The shuffle depends on the run's seed and the problem's name, on every machine alike.
TEST_F(Sampling, ASeedGivesTheSameOrdersOnEveryMachine) {
  std::vector<Row> rows;
  for (const char* kernel : {"0", "1", "2", "3", "4", "5", "6", "7"})
    rows.push_back(row_of(kernel));
  sample(rows, {.samples = 2, .seed = 1 ^ fnv1a("a problem")});
  EXPECT_EQ(order_, (Kernels{"4", "6", "3", "5", "1", "7", "2", "0",  //
                             "4", "7", "2", "5", "0", "1", "3", "6"}));
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ull) << "as FNV's authors publish it";
}

/// In the time of writing the output alone, or of reading a larger input, no kernel can do its
/// work.
TEST(ImpossibleTimes, BelowThatOfWritingOrReadingAreWithdrawn) {
  const auto record_of = [](const char* kernel, double us, Origin::Kind kind = {}) {
    Record record = row_of(kernel).record;
    record.variant.origin.kind = kind;
    record.metrics = {{.name = kernel_time, .unit = "us", .samples = {us, us, us}}};
    return record;
  };
  const auto floor = record_of("write_only", 10, Origin::Kind::ceiling);
  std::vector<Record> records{record_of("too_fast", 7.9),
                              record_of("fast", 8.1),
                              floor,
                              record_of("read_only", 20, Origin::Kind::ceiling),
                              row_of("none").record,
                              record_of("sum", 15.9)};
  records[5].bytes_read = records[5].bytes_written + 1;
  refuse_impossible_times(records);
  EXPECT_EQ(records[0].outcome, Outcome::launch_failed);
  EXPECT_TRUE(has_match(records[0].reason, "took 7\\.9 us, but only to write.* 10 us"));
  EXPECT_TRUE(records[0].metrics.empty());
  EXPECT_TRUE(has_match(records[5].reason, "only to read its input takes this GPU 20 us"));
  for (const int kept : {1, 2, 3}) EXPECT_FALSE(records[kept].metrics.empty()) << kept;
  EXPECT_EQ(records[4].outcome, Outcome::bit_exact);
  records = {record_of("too_fast", 0.001)};
  refuse_impossible_times(records);
  EXPECT_FALSE(records[0].metrics.empty()) << "without a ceiling";
}

TEST_F(Sampling, AZeroTimeIsAFailedRowAndACountMayBeZero) {
  for (const double us : {0.0, -1.0, 1.0}) {
    const auto sampled = [us](const std::string&, int) {
      return Sampled{{.readings = {{"kernel_time", "us", us}, {"branches", "", 0.0}}}, {}};
    };
    const Record record = sample({row_of("a")}, {.samples = 2}, sampled).at("a");
    EXPECT_TRUE(matches(record.reason, us > 0 ? "" : "in sample 1: took no time.*"));
    EXPECT_EQ(record.outcome, us > 0 ? Outcome::bit_exact : Outcome::launch_failed);
    if (us > 0) {
      EXPECT_EQ(record.metric("branches")->samples, (Doubles{0, 0}));
    }
  }
}

TEST_F(Sampling, AMetricThatIsMissingFromOneSampleIsMissingFromTheRow) {
  for (const int warmups : {0, 1}) {
    const Record record =
        sample({row_of("a")}, {.warmups = warmups, .samples = 3}, [](const std::string&, int n) {
          Sampled sampled{{.readings = {{"branches", "branches", 7}}}, {}};
          sampled.sample.missing = {{"l2_hit_rate", "%", "it has none"}};
          if (n == 1) {
            sampled.sample.readings.push_back({"warps", "warps", 1});
          } else {
            sampled.sample.missing.push_back({"warps", "warps", "sample " + std::to_string(n)});
          }
          return sampled;
        }).at("a");
    EXPECT_EQ(record.metrics.size(), 3u);
    EXPECT_EQ(record.metric("branches")->samples, (Doubles{7, 7, 7}));
    EXPECT_EQ(record.metric("l2_hit_rate")->missing, "it has none");
    EXPECT_EQ(record.metric("l2_hit_rate")->unit, "%");
    EXPECT_EQ(record.metric("warps")->missing, warmups == 0 ? "sample 0" : "sample 2")
        << "the first reason of a sample that counts";
    EXPECT_TRUE(record.metric("warps")->samples.empty());
  }
}

/// A source that only calls a library has no code.
TEST(StartRow, NamesTheCodeThatTheKernelRuns) {
  set_code_target("9.0");
  const auto code_in = [](const std::vector<std::string>& files) {
    VariantInfo peer;
    peer.code_files = [files](int) { return files; };
    return start_row({.name = "a problem"}, peer, {}).record.code;
  };
  const auto exe = std::filesystem::read_symlink("/proc/self/exe");
  const auto code = code_in({"calls.cu", exe.string()});
  EXPECT_EQ(code["target"], "sm_90");
  EXPECT_EQ(code["sha256"].size(), 1u);
  EXPECT_EQ(code["sha256"][exe.filename().string()].get<std::string>().size(), 64u);
  const auto ours = code_in({"harness/device_checks.cu"});
  EXPECT_EQ(ours["sha256"]["harness/device_checks.cu"].get<std::string>().size(), 64u);
  EXPECT_TRUE(code_in({"calls.cu"}).is_null());
  EXPECT_TRUE(code_in({"/missing/library.so"}).is_null());
}

TEST(WithRecords, WrongOutputsAndForeignWorkOutrankLostRecords) {
  profiling::Sample lossy{.lost = "CUPTI dropped 3 records"}, foreign = lossy;
  foreign.foreign = 1;
  const Verification right{Outcome::bit_exact}, wrong{Outcome::mismatch, "1 differs", {1, 0}};
  EXPECT_EQ(name(with_records(right, {}).outcome), "bit_exact");
  EXPECT_EQ(name(with_records({}, {}).outcome), "not_verified");
  EXPECT_EQ(name(with_records(right, lossy).outcome), "not_measured");
  EXPECT_EQ(with_records({}, lossy).reason, "CUPTI dropped 3 records");
  EXPECT_EQ(name(with_records(right, foreign).outcome), "launch_failed");
  EXPECT_EQ(with_records(wrong, foreign).reason, "1 differs");
}

Sampled repeated(const std::function<std::optional<profiling::BatchTime>()>& held,
                 Outcome written = Outcome::bit_exact) {
  return repeat_if_late([&] {
    Sampled one = timed(100);
    one.sample.held = held();
    one.written.outcome = written;
    return one;
  });
}

/// The host may not be scheduled for a while; a kernel that waits does so every time.
TEST(RepeatIfLate, RepeatsASampleAtMostSevenTimes) {
  for (int late = 0; late < 10; ++late) {
    for (const bool host_ahead : {true, false}) {
      int count = 0;
      const auto sampled = repeated([&] {
        const bool is_late = count++ < late;
        return profiling::BatchTime{.us = 1000,
                                    .host_ahead = host_ahead || !is_late,
                                    .lingering_us = host_ahead && is_late ? 201.0 : 199.0};
      });
      EXPECT_EQ(count, std::min(late + 1, 8));
      EXPECT_EQ(sampled.written.outcome, late < 8 ? Outcome::bit_exact : Outcome::launch_failed);
    }
  }
}

TEST(RepeatIfLate, RefusesATimeThatContradictsTheHostsClock) {
  const auto reason = [](double us, double host_us) {
    return repeated([&] {
             return profiling::BatchTime{.us = us, .host_ahead = true, .host_us = host_us};
           })
        .written.reason;
  };
  EXPECT_EQ(reason(1000, 1340), "") << "the host has other work";
  EXPECT_EQ(reason(100'000, 104'000), "");
  EXPECT_TRUE(has_match(reason(100, 1020), "100 us .*1020 us on the host's clock"));
}

TEST(RepeatIfLate, KeepsWrongOutputsAndStreamsThatWereNotHeld) {
  for (const bool held : {true, false}) {
    int taken = 0;
    const Outcome outcome = held ? Outcome::mismatch : Outcome::bit_exact;
    const auto late = [&] {
      ++taken;
      return held ? std::optional(profiling::BatchTime{.us = 100, .lingering_us = 1e6})
                  : std::nullopt;
    };
    EXPECT_EQ(repeated(late, outcome).written.outcome, outcome);
    EXPECT_EQ(taken, 1);
  }
}

TEST(Median, IsTheMiddleOfTheSortedSamples) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({40, 10, 1000, 20}), 30);
  EXPECT_THROW(median({}), std::invalid_argument);
}

}  // namespace
}  // namespace reprolab
