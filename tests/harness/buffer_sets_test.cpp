#include "harness/buffer_sets.hpp"

#include <gtest/gtest.h>

#include "harness/verifier.hpp"
#include "tests/kernels/testing.hpp"
#include "tests/message_of.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t plenty = std::uint64_t{1} << 50;

/// A problem with elements of 2 bytes.
PlannedProblem problem_of(std::uint64_t buffer_set_bytes, std::int64_t elements,
                          std::uint64_t host_bytes = 0) {
  PlannedProblem planned;
  planned.facts.name = "4x4";
  planned.facts.elements = elements;
  planned.facts.element_bytes = 2;
  planned.buffer_set_device_bytes = buffer_set_bytes;
  planned.host_bytes = host_bytes;
  return planned;
}

/// Checks that no buffer sets fit, for the reason `why`.
void expect_none(const BufferSets& buffer_sets, const std::string& why) {
  EXPECT_EQ(buffer_sets.count, 0) << why;
  EXPECT_EQ(buffer_sets.why_none, why + "; select a smaller problem");
}

TEST(WantedBufferSets, HoldThreeTimesTheCacheBesideTheOneInUseAndThreeAtLeast) {
  const auto cold = [](std::uint64_t buffer_set_bytes, std::uint64_t l2_bytes) {
    return wanted_buffer_sets(problem_of(buffer_set_bytes, 1), {.l2_bytes = l2_bytes});
  };
  EXPECT_EQ(cold(100, 1000), 31);
  EXPECT_EQ(cold(99, 1000), 32);
  EXPECT_EQ(cold(1000, 1000), 4);
  EXPECT_EQ(cold(1500, 1000), 3);
  EXPECT_EQ(cold(1'000'000, 1000), 3);
  EXPECT_EQ(cold(100, 0), 3);
  EXPECT_EQ(cold(std::uint64_t{1} << 40, 60 << 20), 3);
}

/// What only some kernels read is memory, but keeps no other kernel's data out of the cache.
TEST(WantedBufferSets, CountWhatIsSeldomReadAsMemoryAlone) {
  PlannedProblem planned = problem_of(500, 1);
  planned.seldom_read_bytes = 400;
  planned.shared_device_bytes = [] { return std::uint64_t{70}; };
  EXPECT_EQ(wanted_buffer_sets(planned, {.l2_bytes = 1000}), 31);
  EXPECT_EQ(device_bytes(planned, 31), 70 + 31u * 500 + 2 * 2);
  EXPECT_FALSE(buffer_sets_for(planned, {.l2_bytes = 1000}, {70 + 30 * 500 + 4, plenty}).cold);
  EXPECT_TRUE(buffer_sets_for(planned, {.l2_bytes = 1000}, {70 + 31 * 500 + 4, plenty}).cold);
}

TEST(WantedBufferSets, AreNoMoreThan4096HoweverSmallTheProblem) {
  const auto wanted = [](std::uint64_t buffer_set_bytes, Rotation rotation) {
    return wanted_buffer_sets(problem_of(buffer_set_bytes, 1), rotation);
  };
  EXPECT_EQ(wanted(3, {.l2_bytes = 4095}), 4096);
  EXPECT_EQ(wanted(3, {.l2_bytes = 4096}), 4096);
  EXPECT_EQ(wanted(1, {.l2_bytes = std::uint64_t{1} << 40}), 4096);
  EXPECT_EQ(wanted(0, {.l2_bytes = 60 << 20}), 4096);
  EXPECT_EQ(wanted(1000, {.batch_bytes = std::uint64_t{1} << 40}), 4096);
  EXPECT_EQ(wanted(0, {}), 3);
}

/// So that no launch of a batch writes to an output that the batch has already written.
TEST(WantedBufferSets, AreAsManyAsABatchCanLaunch) {
  PlannedProblem planned = problem_of(500, 1);
  planned.facts.bytes_read = 100;
  planned.facts.bytes_written = 400;
  EXPECT_EQ(wanted_buffer_sets(planned, {.batch_bytes = 5000}), 10);
  EXPECT_EQ(wanted_buffer_sets(planned, {.batch_bytes = 5001}), 11);
  EXPECT_EQ(wanted_buffer_sets(planned, {.l2_bytes = 1000, .batch_bytes = 2000}), 7)
      << "the cache's";
  EXPECT_EQ(wanted_buffer_sets(planned, {.l2_bytes = 1000, .batch_bytes = 4000}), 8)
      << "the batch's";
}

TEST(KeptWarm, IsAProblemOfItsOwnThatSaysSo) {
  PlannedProblem cold = problem_of(100, 10, 70);
  cold.facts.description = {{"name", "4x4"}, {"family", "toys"}};
  const PlannedProblem warm = kept_warm(cold);
  EXPECT_EQ(warm.facts.name, "4x4/warm");
  EXPECT_EQ(warm.facts.description,
            nlohmann::json({{"name", "4x4/warm"}, {"family", "toys"}, {"warm", true}}));
  EXPECT_TRUE(warm.warm);
  EXPECT_FALSE(cold.warm);
  EXPECT_EQ(warm.facts.elements, cold.facts.elements);
}

TEST(KeptWarm, HasTwoBufferSetsWhateverTheCacheAndIsNeverCold) {
  for (const std::uint64_t buffer_set_bytes : {std::uint64_t{100}, 5 * gib}) {
    const PlannedProblem warm = kept_warm(problem_of(buffer_set_bytes, 10));
    const Rotation rotation{.l2_bytes = 1000, .batch_bytes = std::uint64_t{1} << 40};
    EXPECT_EQ(wanted_buffer_sets(warm, rotation), warm_buffer_sets);
    const BufferSets buffer_sets = buffer_sets_for(warm, rotation, {plenty, plenty});
    EXPECT_EQ(buffer_sets.count, warm_buffer_sets);
    EXPECT_FALSE(buffer_sets.cold)
        << "two large buffer sets keep each other out of the cache, but one is used";
  }
  const PlannedProblem warm = kept_warm(problem_of(5 * gib, gib));
  EXPECT_EQ(buffer_sets_for(warm, {}, {14 * gib, plenty}).count, warm_buffer_sets);
  expect_none(buffer_sets_for(warm, {}, {14 * gib - 1, plenty}),
              "needs 14.0 GiB of device memory, 14.0 GiB are free");
  EXPECT_EQ(buffer_sets_for(warm, {}, {7 * gib, plenty}, 1).count, 1)
      << "where it is only verified";
}

TEST(MostLaunches, AreOnePerBufferSetAndOfAWarmProblemWhatMovesTheBytesOfABatch) {
  PlannedProblem cold = problem_of(500, 1);
  cold.facts.bytes_read = 100;
  cold.facts.bytes_written = 400;
  EXPECT_EQ(max_launches(cold, {.batch_bytes = 5000}, 7), 7);
  const PlannedProblem warm = kept_warm(cold);
  EXPECT_EQ(max_launches(warm, {.batch_bytes = 5000}, warm_buffer_sets), 10);
  EXPECT_EQ(max_launches(warm, {.batch_bytes = 5001}, warm_buffer_sets), 11);
  EXPECT_EQ(max_launches(warm, {.batch_bytes = 0}, warm_buffer_sets), 1) << "no bandwidth is known";
  EXPECT_EQ(max_launches(warm, {.batch_bytes = std::uint64_t{1} << 50}, warm_buffer_sets), 4096);
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

TEST(DeviceBytes, AreThoseOfTheBufferSetsAndWhatTheyMustGive) {
  // Two different matrices from two buffer sets on; plus a declared output if the host can make
  // one.
  EXPECT_EQ(device_bytes(problem_of(100, 10), 1), 120u);
  EXPECT_EQ(device_bytes(problem_of(100, 10), 7), 740u);
  EXPECT_EQ(device_bytes(problem_of(100, 10, 70), 1), 140u);
  EXPECT_EQ(device_bytes(problem_of(100, 10, 70), 7), 760u);
  EXPECT_EQ(device_bytes(problem_of(std::uint64_t{8} << 40, std::int64_t{1} << 40), 3),
            std::uint64_t{28} << 40);
}

TEST(HostBytes, AreThoseOfTheDataAndTwoOutputsUnlessTheDeviceJudges) {
  EXPECT_EQ(host_bytes(problem_of(100, 10, 70)), 110u);
  EXPECT_EQ(host_bytes(problem_of(100, 10, 0)), 0u);
}

TEST(BufferSets, AreWhatAColdRunWantsWhereMemoryAllows) {
  for (const std::uint64_t free : {plenty, std::uint64_t{2 * 20 + 31 * 100}}) {
    const BufferSets buffer_sets = buffer_sets_for(problem_of(100, 10), {1000}, {free, plenty});
    EXPECT_EQ(buffer_sets.count, 31);
    EXPECT_TRUE(buffer_sets.cold);
    EXPECT_EQ(buffer_sets.why_none, "");
  }
  EXPECT_EQ(buffer_sets_for(problem_of(5000, 10), {1000}, {plenty, plenty}).count, 3);
}

TEST(BufferSets, AreColdWhereTheyFillTheCacheThreeTimesBesideTheOneInUse) {
  const auto cold_in = [](std::uint64_t device_bytes) {
    return buffer_sets_for(problem_of(100, 10), {1000}, {device_bytes, plenty}).cold;
  };
  EXPECT_TRUE(cold_in(2 * 20 + 31 * 100));
  EXPECT_FALSE(cold_in(2 * 20 + 30 * 100));
  EXPECT_FALSE(buffer_sets_for(problem_of(1, 10), {1 << 20}, {plenty, plenty}).cold)
      << "4096 at most";
}

TEST(BufferSets, AreWhatFitsBesideTheVerifiersOutputsWhereItDoesNot) {
  const auto count_in = [](std::uint64_t device_bytes) {
    return buffer_sets_for(problem_of(100, 10), {1000}, {device_bytes, plenty}).count;
  };
  EXPECT_EQ(count_in(2 * 20 + 31 * 100 - 1), 30);
  EXPECT_EQ(count_in(2 * 20 + 7 * 100 + 99), 7);
  EXPECT_EQ(count_in(2 * 20 + 7 * 100), 7);
  EXPECT_EQ(count_in(2 * 20 + 3 * 100), 3);
  EXPECT_EQ(count_in(2 * 20 + 3 * 100 - 1), 0);
}

TEST(BufferSets, AreNoneWhereNotThreeFitTheDevice) {
  expect_none(buffer_sets_for(problem_of(5 * gib, gib), {1000}, {18 * gib, plenty}),
              "needs 19.0 GiB of device memory, 18.0 GiB are free");
  expect_none(buffer_sets_for(problem_of(gib, gib), {1000}, {0, plenty}),
              "needs 7.0 GiB of device memory, 0.0 GiB are free");
  // The largest problem that a command line can select, in fp32: nothing overflows.
  auto largest = problem_of(std::uint64_t{8} << 40, std::int64_t{1} << 40);
  largest.facts.element_bytes = 4;
  expect_none(buffer_sets_for(largest, {60 << 20}, {gib, plenty}),
              "needs 32768.0 GiB of device memory, 1.0 GiB are free");
}

TEST(BufferSets, AreNoneWhereTheDataDoNotFitTheHost) {
  const auto in_host = [](std::uint64_t host_bytes) {
    return buffer_sets_for(problem_of(5 * gib, gib, 4 * gib), {1000}, {plenty, host_bytes});
  };
  expect_none(in_host(7 * gib), "needs 8.0 GiB of host memory, 7.0 GiB are free");
  EXPECT_EQ(in_host(8 * gib - 1).count, 0);
  EXPECT_EQ(in_host(8 * gib).count, 3);
  EXPECT_EQ(buffer_sets_for(problem_of(100, 10, 0), {1000}, {plenty, 0}).count, 31);
}

TEST(BufferSets, NeedNoMoreThanIsAskedFor) {
  const auto one_in = [](std::uint64_t device_bytes) {
    return buffer_sets_for(problem_of(5 * gib, gib), {}, {device_bytes, plenty}, 1);
  };
  EXPECT_EQ(one_in(7 * gib).count, 1);
  expect_none(one_in(6 * gib), "needs 7.0 GiB of device memory, 6.0 GiB are free");
  EXPECT_EQ(buffer_sets_for(problem_of(100, 10), {}, {plenty, plenty}, 5).count, 5);
}

TEST(BufferSets, SayOfTheDeviceFirst) {
  expect_none(buffer_sets_for(problem_of(gib, gib, gib), {1000}, {0, 0}),
              "needs 9.0 GiB of device memory, 0.0 GiB are free");
}

TEST(FreeMemory, WithoutADeviceIsAnError) {
  std::string ignored;
  if (profiling::find_gpu(&ignored)) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(begins(message_of<std::runtime_error>([] { free_memory(); }),
                     "asking for free device memory: "));
}

class OnGpuFreeMemory : public OnGpuTest {};

TEST_F(OnGpuFreeMemory, IsSomeOnDeviceAndHostAndNoMoreThanThereIs) {
  std::string ignored;
  const FreeMemory free = free_memory();
  EXPECT_GT(free.device_bytes, std::uint64_t{1} << 20);
  EXPECT_LE(free.device_bytes, profiling::find_gpu(&ignored)->memory_bytes);
  EXPECT_GT(free.host_bytes, std::uint64_t{1} << 20);
  EXPECT_LE(free.host_bytes, profiling::describe_host().memory_bytes);
}

}  // namespace
}  // namespace reprolab
