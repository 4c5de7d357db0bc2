// A whole measurement on a small problem. Of times, only their presence is checked.
#include "harness/measure.hpp"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>

#include "common/not_measured.hpp"
#include "harness/ceilings.hpp"
#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/nf4/workload.hpp"
#include "profiling/counters.hpp"
#include "tests/harness/toy_workload.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/message_of.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using nf4::make_row;

class Toys : public Family {
 public:
  const FamilyFacts& facts() const override {
    static const FamilyFacts of_toys{.name = "toys", .element = "toy", .types = {}};
    return of_toys;
  }
  std::vector<VariantInfo> kernels() const override {
    return {toy_kernel("toy"), toy_kernel("other")};
  }
  std::vector<std::string> data() const override { return {}; }
  std::vector<PlannedProblem> problems(const FreeMemory&,
                                       const std::vector<std::string>&) const override {
    return {};
  }
};

Toys toys;
const RegisterFamily registered(toys);

TEST(Families, OfRowsAreDescribedWithTheirKernelsAlone) {
  std::vector<Record> rows(1);
  rows[0].variant.name = "toy";
  rows[0].problem = {{"family", "toys"}};
  const auto found = describe_families(&rows);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["element"], "toy");
  ASSERT_EQ(found[0]["kernels"].size(), 1u);
  EXPECT_EQ(found[0]["kernels"][0]["name"], "toy");
  EXPECT_EQ(found[0]["kernels"][0]["contract"], "bit_exact");
  rows.clear();
  EXPECT_TRUE(describe_families(&rows).empty());
  EXPECT_FALSE(describe_families().empty());
}

/// Otherwise their rows would have the same keys.
TEST(Ceilings, HaveNamesThatNoKernelMayHave) {
  EXPECT_EQ(ceiling_variants().size(), 5u);
  for (const auto& ceiling : ceiling_variants()) {
    EXPECT_TRUE(ceiling.is_ceiling());
    EXPECT_EQ(message_of<UsageError>([&] { refuse_names_of_ceilings({ceiling}); }),
              fmt::format("kernel '{}' has the name of a ceiling; rename it", ceiling.name));
  }
}

TEST(Ceilings, MoveTheBytesTheirNamesSay) {
  const auto bytes = [](const char* name, std::uint64_t read, std::uint64_t written) {
    ProblemFacts facts;
    facts.bytes_read = read;
    facts.bytes_written = written;
    const Ceiling& ceiling = ceiling_named(name);
    return std::pair(ceiling.bytes_read(facts), ceiling.bytes_written(facts));
  };
  using Bytes = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(bytes("read_only", 10, 40), Bytes(40, 0));
  EXPECT_EQ(bytes("read_only", 90, 40), Bytes(90, 0)) << "the larger";
  EXPECT_EQ(bytes("write_only", 10, 40), Bytes(0, 40));
  EXPECT_EQ(bytes("same_bytes", 10, 40), Bytes(10, 40));
  for (const char* copy : {"copy", "copy_kernel"}) {
    EXPECT_EQ(bytes(copy, 10, 40), Bytes(25, 25)) << copy;
    EXPECT_EQ(bytes(copy, 40, 10), Bytes(10, 10)) << copy << ": no more than an output holds";
    EXPECT_EQ(bytes(copy, 1000, 4007), Bytes(2496, 2496)) << copy << ": eight binary digits";
  }
}

TEST(LeastTime, IsThatOfTheBytesWhichCrossTheMemoryBus) {
  profiling::Gpu gpu;
  gpu.l2_bytes = 50'000'000;
  EXPECT_EQ(min_us(1'000'000'000, 1, gpu), 0) << "of an unknown bandwidth";
  gpu.theoretical_bandwidth_gb_s = 1000;
  EXPECT_DOUBLE_EQ(min_us(1'000'000'000, 1, gpu), 900);
  EXPECT_DOUBLE_EQ(min_us(1'000'000'000, 10, gpu), 990);
  EXPECT_EQ(min_us(10'000'000, 10, gpu), 0) << "all of it may be in the cache";
}

/// A new metric is one more reading, before or behind the time.
TEST(CallsOfBatch, ComeFromTheKernelTimeWhateverElseIsRead) {
  const profiling::Reading time{"kernel_time", "us", 4}, bytes{"bytes", "B", 1e9},
      rate{"rate", "", 1e-9};
  for (const auto& readings : std::vector<std::vector<profiling::Reading>>{
           {time}, {time, bytes}, {bytes, time}, {rate, time, bytes}, {time, rate}}) {
    EXPECT_EQ(calls_of_batch({.readings = readings}, 1000, 300), 250);
  }
  EXPECT_EQ(calls_of_batch({.readings = {time}}, 1000, 100), 100) << "no more than fit";
  EXPECT_EQ(calls_of_batch({.readings = {time}}, 1, 100), 1);
  EXPECT_EQ(calls_of_batch({.readings = {bytes}}, 1000, 300), 300) << "no time, no limit";
}

/// Changes what another instrument does with one kernel's work, at its measurement of that index.
class Interfering : public profiling::Instrument {
 public:
  using Interfere =
      std::function<profiling::Sample(const std::function<profiling::Sample()>& measure)>;

  Interfering(profiling::InstrumentKind kind, std::string kernel, int at, Interfere interfere)
      : inner_(profiling::make_instrument(kind)),
        kernel_(std::move(kernel)),
        at_(at),
        interfere_(std::move(interfere)) {}

  profiling::InstrumentKind kind() const override { return inner_->kind(); }
  profiling::Sample measure(const profiling::Work& work, cudaStream_t stream) override {
    const auto measure = [&] { return inner_->measure(work, stream); };
    return work.name == kernel_ && at_-- == 0 ? interfere_(measure) : measure();
  }

 private:
  std::unique_ptr<profiling::Instrument> inner_;
  std::string kernel_;
  int at_;
  Interfere interfere_;
};

TEST(CompareOnHost, TakesElementsOfTwoOrFourBytes) {
  const std::uint32_t a[3] = {1, 2, 3}, b[3] = {1, 2, 0x10003};
  const auto compare = [&](int bytes) {
    const auto expected = std::as_bytes(std::span(a));
    return compare_on_host({expected, expected}, std::as_bytes(std::span(b)), bytes);
  };
  EXPECT_EQ(compare(4).first_mismatch, 2);
  EXPECT_EQ(compare(2).first_mismatch, 5);
  EXPECT_THROW(compare(8), std::invalid_argument);
}

class OnGpuMeasurement : public OnGpuTest {
 protected:
  static constexpr int samples = 3;

  /// Records by kernel, of every registered kernel except those that would end the process.
  std::map<std::string, Record> measure(profiling::InstrumentKind instrument) {
    const bool counted = instrument == profiling::InstrumentKind::counters;
    const profiling::Counter blocks{
        .id = "blocks", .unit = "blocks", .meaning = "", .names = {"sm__ctas_launched.sum"}};
    return measure(counted ? profiling::make_counters({{blocks}})
                           : profiling::make_instrument(instrument));
  }

  std::map<std::string, Record> measure(std::unique_ptr<profiling::Instrument> instrument) {
    const auto facts = nf4::facts_of(make_row(100003));
    const PlannedProblem planned{
        .facts = facts,
        .buffer_set_device_bytes = 1 << 20,
        .host_bytes = 1 << 20,
        .supports = {},
        .prepare = [facts](int buffer_sets, std::uint64_t seed) -> std::unique_ptr<Workload> {
          std::vector<nf4::Tensor> tensors{make_row(100003, 64, false, {}, seed)};
          if (buffer_sets > 1) tensors.push_back(make_row(100003, 64, false, {}, seed + 1));
          return std::make_unique<nf4::Nf4Workload>(facts, std::move(tensors), buffer_sets);
        }};
    auto variants = nf4::registered_kernels();
    std::erase_if(variants, [](const VariantInfo& v) {
      return v.name == "test_trap" || v.name == "test_writes_behind";
    });
    count_ = variants.size();
    profiling::Gpu gpu;  // its L2 size is 0: three buffer sets
    const bool counted = instrument->kind() == profiling::InstrumentKind::counters;
    Measurement measurement(gpu, std::move(instrument));
    const auto records = measurement.run(
        planned, variants,
        {.experiment = "test", .samples = samples, .batch_us = 50, .counted = counted});
    std::map<std::string, Record> by_kernel;
    for (const Record& record : records) by_kernel[record.variant.name] = record;
    EXPECT_EQ(by_kernel.size(), records.size());
    return by_kernel;
  }

  std::size_t count_ = 0;  ///< Number of kernels measured.
};

using profiling::InstrumentKind;

TEST_F(OnGpuMeasurement, HasARecordForEveryKernelAndCeilingThatEndsAsItMustWithItsSamples) {
  const auto records = measure(InstrumentKind::events);
  EXPECT_EQ(records.size(), count_ + 5);
  std::set<std::string> keys;
  for (const auto& [kernel, record] : records) {
    keys.insert(record.key);
    EXPECT_EQ(record.key, "fp16/b64/" + kernel);
    const bool timed = record.variant.is_ceiling() || may_be_timed(record.outcome);
    ASSERT_EQ(record.metrics.size(), timed ? 1u : 0u) << kernel;
    EXPECT_EQ(record.problem.at("family"), "nf4");
    EXPECT_TRUE(record.launch.is_null()) << "events see no launches";
    EXPECT_EQ(record.clocks.sm_mhz_during.has_value(), timed) << kernel;
    if (!timed) continue;
    EXPECT_EQ(record.metrics[0].name, "kernel_time");
    EXPECT_EQ(record.metrics[0].samples.size(), samples) << kernel;
    for (const double us : record.metrics[0].samples) EXPECT_GT(us, 0) << kernel;
  }
  EXPECT_EQ(keys.size(), records.size());
  for (const auto& [kernel, record] : records) {
    if (kernel.starts_with("test_")) continue;
    // Only Algorithm 1 deviates with plain scales.
    const Outcome expected = record.variant.is_ceiling()         ? Outcome::not_verified
                             : kernel != "shared_lut_algorithm1" ? Outcome::bit_exact
                                                                 : Outcome::deviation_as_declared;
    EXPECT_EQ(name(record.outcome), name(expected)) << kernel << ": " << record.reason;
  }
  EXPECT_EQ(records.at("test_sound").outcome, Outcome::bit_exact);
  EXPECT_EQ(records.at("test_deviates").outcome, Outcome::deviation_as_declared);
  EXPECT_EQ(records.at("test_swapped_nibbles").outcome, Outcome::mismatch);
  EXPECT_TRUE(contains(records.at("test_wrong_entry").reason, ", code 5 "));
  EXPECT_GT(records.at("test_wrong_entry").mismatches.value(), 0);
  EXPECT_GT(records.at("test_deviates").mismatches.value(), 0);
  EXPECT_EQ(records.at("test_too_many_threads").outcome, Outcome::launch_failed);
  EXPECT_EQ(records.at("test_supports_nothing").outcome, Outcome::unsupported);
  EXPECT_EQ(records.at("test_supports_nothing").reason, "a test's kernel: runs nothing");
}

TEST_F(OnGpuMeasurement, ActivityTimesEveryKernelAndSeesItsLaunches) {
  const auto records = measure(InstrumentKind::activity);
  EXPECT_EQ(records.size(), count_) << "ceilings are timed by events";
  for (const auto& [kernel, record] : records) {
    if (!may_be_timed(record.outcome)) continue;
    EXPECT_EQ(record.metric(kernel_time)->samples.size(), samples) << kernel;
    ASSERT_FALSE(record.launch.is_null()) << kernel;
    EXPECT_EQ(record.launch["kernels_per_call"], kernel == "test_launches_twice" ? 2 : 1) << kernel;
    ASSERT_EQ(record.launch["kernels"].size(), 1u) << kernel;
    EXPECT_GT(record.launch["kernels"][0]["registers"], 0) << kernel;
  }
  const auto fact = [&](const char* kernel, const char* key) {
    return records.at(kernel).launch["kernels"][0][key];
  };
  EXPECT_EQ(fact("shared_lut", "block"), nlohmann::json({64, 1, 1}));
  EXPECT_EQ(fact("shared_lut", "static_shared_bytes").get<int>() -
                fact("branch_tree", "static_shared_bytes").get<int>(),
            64)
      << "the table of 16 floats is all that it adds";
}

TEST_F(OnGpuMeasurement, CountersAreThoseOfOneCallHoweverManyKernelsItLaunches) {
  const auto records = measure(InstrumentKind::counters);
  EXPECT_EQ(records.size(), count_) << "ceilings are timed by events";
  for (const auto& [kernel, record] : records) {
    EXPECT_EQ(record.metrics.size(), may_be_timed(record.outcome) ? 1u : 0u) << kernel;
  }
  EXPECT_EQ(records.at("test_swapped_nibbles").outcome, Outcome::mismatch);
  const Metric& one = *records.at("test_sound").metric("blocks");
  if (!one.missing.empty()) GTEST_SKIP() << "NOT TESTED, " << one.missing;
  ASSERT_EQ(one.samples.size(), samples);
  EXPECT_GT(one.samples[0], 0);
  EXPECT_EQ(one.samples, std::vector<double>(samples, one.samples[0]));
  EXPECT_EQ(records.at("test_launches_twice").metric("blocks")->samples,
            std::vector<double>(samples, 2 * one.samples[0]));
}

/// In verification and in a sample; by CUPTI's loss, or by an exception before or behind the work.
TEST_F(OnGpuMeasurement, AFaultOfTheHarnessCostsOneRowAndNoOther) {
  using Measure = const std::function<profiling::Sample()>&;
  const std::vector<Interfering::Interfere> faults = {
      [](Measure measure) {
        auto sample = measure();
        sample.readings.clear();
        sample.lost = "a fault";
        return sample;
      },
      [](Measure) -> profiling::Sample { throw NotMeasured("a fault"); },
      [](Measure measure) -> profiling::Sample {
        measure();
        throw NotMeasured("a fault");
      }};
  for (const InstrumentKind kind : {InstrumentKind::events, InstrumentKind::activity}) {
    const auto whole = measure(kind);
    for (std::size_t fault = 0; fault < faults.size(); ++fault) {
      for (const int at : {0, 1, 2, 4}) {  // verified twice; the longest batch; the second sample
        SCOPED_TRACE(fmt::format("{}, fault {}, at {}", profiling::name(kind), fault, at));
        const auto found =
            measure(std::make_unique<Interfering>(kind, "shared_lut", at, faults[fault]));
        ASSERT_EQ(found.size(), whole.size());
        for (const auto& [kernel, record] : found) {
          if (kernel == "shared_lut") continue;
          EXPECT_EQ(name(record.outcome), name(whole.at(kernel).outcome)) << kernel;
          const Metric *time = record.metric(kernel_time),
                       *wanted = whole.at(kernel).metric(kernel_time);
          ASSERT_EQ(time != nullptr, wanted != nullptr) << kernel;
          if (time == nullptr) continue;
          EXPECT_EQ(time->samples.size(), wanted->samples.size()) << kernel;
        }
        const Record& lost = found.at("shared_lut");
        EXPECT_EQ(name(lost.outcome), "not_measured") << lost.reason;
        EXPECT_TRUE(ends(lost.reason, "a fault")) << lost.reason;
        EXPECT_TRUE(lost.metrics.empty());
      }
    }
  }
}

}  // namespace
}  // namespace reprolab
