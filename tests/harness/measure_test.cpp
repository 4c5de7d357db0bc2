// The steps around the measurement of a problem, and a whole measurement of toys. Times are only
// checked to exist.
#include "harness/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/ceilings.hpp"
#include "harness/errors.hpp"
#include "tests/harness/toy_workload.hpp"
#include "tests/on_gpu.hpp"
#include "tests/refusal.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

class Toys : public Family {
 public:
  Toys() : Family({.name = "toys", .element = "toy", .types = {}}) {}

  std::vector<VariantInfo> kernels() const override {
    return {toy_kernel("toy"), toy_kernel("other")};
  }
};

Toys toys;

/// Otherwise two rows would have the same key.
TEST(Ceilings, HaveNamesThatNoKernelMayHave) {
  EXPECT_EQ(ceiling_variants().size(), 5u);
  for (const auto& ceiling : ceiling_variants()) {
    EXPECT_TRUE(ceiling.is_ceiling());
    expect_refused<UsageError>([&] { refuse_names_of_ceilings({ceiling}); }, "ceiling");
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

/// A new metric is one more reading, before or after the time.
TEST(CallsOfBatch, ComeFromTheKernelTimeWhateverElseIsRead) {
  const profiling::Reading time{"kernel_time", "us", 4}, bytes{"bytes", "B", 1e9};
  EXPECT_EQ(calls_of_batch({.readings = {time, bytes}}, 998, 300), 250);
  EXPECT_EQ(calls_of_batch({.readings = {bytes, time}}, 1000, 300), 250);
  EXPECT_EQ(calls_of_batch({.readings = {time}}, 1000, 100), 100) << "no more than fit";
  EXPECT_EQ(calls_of_batch({.readings = {time}}, 1, 100), 1);
  EXPECT_EQ(calls_of_batch({.readings = {bytes}}, 1000, 300), 300) << "no time, no limit";
}

class OnGpuPlannedProblem : public OnGpuTest {
 protected:
  /// A planned problem that records the arguments of its preparation.
  PlannedProblem planned() {
    return {.facts = facts_of(spec_),
            .buffer_set_device_bytes = 2 * spec_.bytes(),
            .host_bytes = 2 * spec_.bytes(),
            .supports = {},
            .prepare = [this](int buffer_sets, std::uint64_t seed) -> std::unique_ptr<Workload> {
              prepared_.emplace_back(buffer_sets, seed);
              return std::make_unique<ToyWorkload>(spec_, buffer_sets);
            }};
  }

  static std::vector<Record> run(const PlannedProblem& problem,
                                 profiling::InstrumentKind instrument, std::uint64_t l2_bytes = 0) {
    profiling::Gpu gpu;
    gpu.l2_bytes = l2_bytes;
    return run_on(gpu, problem, instrument);
  }

  static std::vector<Record> run_on(const profiling::Gpu& gpu, const PlannedProblem& problem,
                                    profiling::InstrumentKind instrument,
                                    const char* second = "wrong") {
    Measurement measurement(gpu, profiling::make_instrument(instrument));
    return measurement.run(problem, {toy_kernel("right"), toy_kernel(second)},
                           {.experiment = "test", .samples = 2, .batch_us = 20, .seed = 77});
  }

  const ToySpec spec_{.elements = 1 << 18};
  std::vector<std::pair<int, std::uint64_t>> prepared_;
};

const std::set<std::string> all_rows = {"right",     "wrong",      "copy",      "copy_kernel",
                                        "read_only", "same_bytes", "write_only"};

TEST_F(OnGpuPlannedProblem, IsTimedInTheCopiesOfAColdRunAndMadeFromTheSeed) {
  const std::uint64_t l2_bytes = 3 * spec_.bytes();
  const auto records = run(planned(), profiling::InstrumentKind::events, l2_bytes);
  constexpr int wanted = 6;
  EXPECT_EQ(prepared_, (std::vector{std::pair{wanted, std::uint64_t{77}}}));
  EXPECT_EQ(records.size(), all_rows.size());
  for (const Record& record : records) {
    const bool wrong = record.variant.name == "wrong";
    const Metric* time = record.metric(kernel_time);
    EXPECT_EQ(time ? time->samples.size() : 0, wrong ? 0u : 2u) << record.variant.name;
    EXPECT_EQ(name(record.outcome), record.variant.is_ceiling() ? "not_verified"
                                    : wrong                     ? "mismatch"
                                                                : "bit_exact")
        << record.variant.name << ": " << record.reason;
    EXPECT_EQ(record.mismatches, wrong ? std::optional<std::int64_t>(1) : std::nullopt)
        << record.variant.name;
  }
}

TEST_F(OnGpuPlannedProblem, IsTimedInOneCopyOfTwoWhereItIsWarm) {
  const auto records =
      run(kept_warm(planned()), profiling::InstrumentKind::events, 3 * spec_.bytes());
  EXPECT_EQ(prepared_, (std::vector{std::pair{warm_buffer_sets, std::uint64_t{77}}}));
  EXPECT_EQ(records.size(), all_rows.size());
  for (const Record& record : records) {
    EXPECT_EQ(record.key, "toy/warm/" + record.variant.name);
    EXPECT_EQ(record.problem.at("warm"), true);
    const Metric* time = record.metric(kernel_time);
    EXPECT_EQ(time ? time->samples.size() : 0, record.variant.name == "wrong" ? 0u : 2u)
        << record.variant.name << ": " << record.reason;
  }
}

/// If the GPU's memory were to move a byte in a second, every row would be faster than it.
TEST_F(OnGpuPlannedProblem, MayBeFasterThanTheMemoryWhereItIsWarmAndNotWhereItIsCold) {
  profiling::Gpu slow;
  slow.l2_bytes = 1;
  slow.theoretical_bandwidth_gb_s = 1e-9;
  for (const bool warm : {true, false}) {
    const auto problem = warm ? kept_warm(planned()) : planned();
    for (const Record& record : run_on(slow, problem, profiling::InstrumentKind::events)) {
      if (record.variant.name == "wrong") continue;
      EXPECT_EQ(record.metric(kernel_time) != nullptr, warm) << record.variant.name;
      if (warm) continue;
      EXPECT_EQ(name(record.outcome), "launch_failed") << record.variant.name;
      EXPECT_TRUE(contains(record.reason, "but on cold data this GPU's memory needs at least"));
    }
  }
}

/// Its inputs are exchanged before it is timed, like those of a cold problem.
TEST_F(OnGpuPlannedProblem, ThatIsWarmCatchesAKernelThatRemembersAnOutput) {
  const auto records =
      run_on({}, kept_warm(planned()), profiling::InstrumentKind::events, "remembers");
  EXPECT_EQ(name(records[0].outcome), "bit_exact") << records[0].reason;
  EXPECT_EQ(name(records[1].outcome), "mismatch") << records[1].reason;
}

TEST_F(OnGpuPlannedProblem, IsVerifiedInOneCopyWhereNothingIsTimed) {
  PlannedProblem untimed = planned();
  untimed.timed = false;
  constexpr std::uint64_t l2_bytes = std::uint64_t{1} << 30;
  for (const auto& records : {run(planned(), profiling::InstrumentKind::none, l2_bytes),
                              run(untimed, profiling::InstrumentKind::events, l2_bytes)}) {
    EXPECT_EQ(prepared_.back(), (std::pair{1, std::uint64_t{77}}));
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(name(records[0].outcome), "bit_exact");
    EXPECT_EQ(name(records[1].outcome), "mismatch");
  }
}

}  // namespace
}  // namespace reprolab
