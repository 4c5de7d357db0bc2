// The steps before the measurement of a problem: its copies, its ceilings, its batches.
#include "harness/measure.hpp"

#include <gtest/gtest.h>

#include "harness/errors.hpp"
#include "tests/refusal.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t plenty = std::uint64_t{1} << 50;

/// A problem with elements of 2 bytes, of whose bytes one fifth is read.
PlannedProblem problem_of(std::uint64_t buffer_set_bytes, std::int64_t elements,
                          std::uint64_t host_bytes = 0) {
  PlannedProblem planned;
  planned.facts.name = "4x4";
  planned.facts.elements = elements;
  planned.facts.element_bytes = 2;
  planned.facts.bytes_read = buffer_set_bytes / 5;
  planned.facts.bytes_written = buffer_set_bytes - planned.facts.bytes_read;
  planned.buffer_set_device_bytes = buffer_set_bytes;
  planned.host_bytes = host_bytes;
  return planned;
}

/// Checks that no buffer sets fit, because of the memory `needed`.
void expect_none(const BufferSets& buffer_sets, const std::string& needed) {
  EXPECT_EQ(buffer_sets.count, 0) << needed;
  EXPECT_TRUE(contains(buffer_sets.why_none, needed));
}

/// Three times the cache in addition to the one in use; and as many as a batch can launch, so that
/// no launch of a batch writes an output twice.
TEST(WantedBufferSets, OutgrowTheCacheAndTheBatchAndAreThreeAtLeastAnd4096AtMost) {
  constexpr std::uint64_t huge = std::uint64_t{1} << 40;
  const struct {
    std::uint64_t buffer_set_bytes;
    Rotation rotation;
    int wanted;
  } cases[] = {
      {100, {.l2_bytes = 1000}, 31},
      {99, {.l2_bytes = 1000}, 32},
      {1000, {.l2_bytes = 1000}, 4},
      {1500, {.l2_bytes = 1000}, 3},
      {huge, {.l2_bytes = 60 << 20}, 3},
      {0, {}, 3},
      {3, {.l2_bytes = 4095}, 4096},
      {1, {.l2_bytes = huge}, 4096},
      {0, {.l2_bytes = 60 << 20}, 4096},
      {1000, {.batch_bytes = huge}, 4096},
      {500, {.batch_bytes = 5000}, 10},
      {500, {.batch_bytes = 5001}, 11},
      {500, {.l2_bytes = 1000, .batch_bytes = 2000}, 7},  // the cache's
      {500, {.l2_bytes = 1000, .batch_bytes = 4000}, 8},  // the batch's
  };
  for (const auto& [bytes, rotation, wanted] : cases) {
    EXPECT_EQ(wanted_buffer_sets(problem_of(bytes, 1), rotation), wanted)
        << bytes << ", " << rotation.l2_bytes << ", " << rotation.batch_bytes;
  }
}

TEST(KeptWarm, IsAProblemOfItsOwnWithTwoBufferSetsWhateverTheCacheAndNeverCold) {
  PlannedProblem cold = problem_of(100, 10, 70);
  cold.facts.description = {{"name", "4x4"}, {"family", "toys"}};
  EXPECT_EQ(kept_warm(cold).facts.name, "4x4/warm");
  EXPECT_EQ(described(kept_warm(cold).facts),
            nlohmann::json({{"name", "4x4/warm"}, {"family", "toys"}, {"warm", true}}));
  const Rotation rotation{.l2_bytes = 1000, .batch_bytes = std::uint64_t{1} << 40};
  for (const std::uint64_t buffer_set_bytes : {std::uint64_t{100}, 5 * gib}) {
    const PlannedProblem warm = kept_warm(problem_of(buffer_set_bytes, 10));
    EXPECT_EQ(wanted_buffer_sets(warm, rotation), warm_buffer_sets);
    const BufferSets buffer_sets = buffer_sets_for(warm, rotation, {plenty, plenty});
    EXPECT_EQ(buffer_sets.count, warm_buffer_sets);
    EXPECT_FALSE(buffer_sets.cold) << "only one is used";
  }
  const PlannedProblem warm = kept_warm(problem_of(5 * gib, gib));
  EXPECT_EQ(buffer_sets_for(warm, {}, {14 * gib, plenty}).count, warm_buffer_sets);
  expect_none(buffer_sets_for(warm, {}, {14 * gib - 1, plenty}), "14.0 GiB of device memory");
  EXPECT_EQ(buffer_sets_for(warm, {}, {7 * gib, plenty}, 1).count, 1) << "verified only";
}

TEST(Launches, GoOnToTheNextBufferSetOrStayInOne) {
  std::vector<int> cyclic, stays;
  for (int call = 0; call < 5; ++call) {
    cyclic.push_back(Launches{2, 5}.buffer_set(call, 4));
    stays.push_back(Launches{warm_buffer_set, 5, false}.buffer_set(call, warm_buffer_sets));
  }
  EXPECT_EQ(cyclic, (std::vector<int>{2, 3, 0, 1, 2}));
  EXPECT_EQ(stays, std::vector<int>(5, warm_buffer_set));
}

TEST(BufferSets, AreWhatFitsUpToWhatAColdRunWants) {
  constexpr std::uint64_t expected = 2 * 20;  // outputs
  const auto in = [](std::uint64_t device_bytes) {
    return buffer_sets_for(problem_of(100, 10), {1000}, {device_bytes, plenty});
  };
  for (const std::uint64_t free : {plenty, expected + 31 * 100}) {
    EXPECT_EQ(in(free).count, 31);
    EXPECT_TRUE(in(free).cold);
    EXPECT_EQ(in(free).why_none, "");
  }
  EXPECT_EQ(in(expected + 31 * 100 - 1).count, 30);
  EXPECT_FALSE(in(expected + 31 * 100 - 1).cold);
  EXPECT_EQ(in(expected + 7 * 100 + 99).count, 7);
  EXPECT_EQ(in(expected + 3 * 100).count, 3);
  EXPECT_EQ(in(expected + 3 * 100 - 1).count, 0);
  EXPECT_FALSE(buffer_sets_for(problem_of(1, 10), {1 << 20}, {plenty, plenty}).cold)
      << "4096 at most";
  EXPECT_EQ(buffer_sets_for(problem_of(100, 10), {}, {plenty, plenty}, 5).count, 5);
  EXPECT_EQ(buffer_sets_for(problem_of(5 * gib, gib), {}, {7 * gib, plenty}, 1).count, 1);
}

TEST(BufferSets, AreNoneWhereNotThreeFitTheDeviceOrTheDataTheHost) {
  const auto in = [](std::uint64_t device_bytes, std::uint64_t host_bytes) {
    return buffer_sets_for(problem_of(5 * gib, gib, 4 * gib), {1000}, {device_bytes, host_bytes});
  };
  EXPECT_EQ(in(21 * gib, 8 * gib).count, 3);
  expect_none(in(20 * gib, plenty), "21.0 GiB of device memory");
  expect_none(in(plenty, 7 * gib), "8.0 GiB of host memory");
  EXPECT_EQ(in(plenty, 8 * gib - 1).count, 0);
  expect_none(in(0, 0), "21.0 GiB of device memory");
  EXPECT_EQ(buffer_sets_for(problem_of(100, 10, 0), {1000}, {plenty, 0}).count, 31);
  // The largest problem that a command line can select, in fp32: nothing overflows.
  auto largest = problem_of(std::uint64_t{8} << 40, std::int64_t{1} << 40);
  largest.facts.element_bytes = 4;
  expect_none(buffer_sets_for(largest, {60 << 20}, {gib, plenty}), "32768.0 GiB");
}

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

}  // namespace
}  // namespace reprolab
