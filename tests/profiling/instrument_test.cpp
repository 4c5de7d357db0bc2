#include "profiling/instrument.hpp"

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

KernelActivity activity(std::optional<std::uint64_t> tag, std::uint64_t start_us,
                        std::uint64_t end_us) {
  return {.name = "k", .start_ns = 1000 * start_us, .end_ns = 1000 * end_us, .tag = tag};
}

/// Records of two calls, whose launches have the tags 1 and 3; the harness has 0 and 2.
Sample read(std::vector<KernelActivity> recorded) {
  const Work two_calls{.name = "k", .calls = 2, .per_call = true, .enqueue = {}};
  return read_activity(two_calls, {"", "kernel_time", "", "kernel_time"}, std::move(recorded));
}

TEST(ReadActivity, SumsTheCallsAndLeavesTheHarnessOut) {
  const Sample sample =
      read({activity(0, 1, 9), activity(1, 10, 14), activity(2, 14, 20), activity(3, 20, 26)});
  ASSERT_EQ(sample.readings.size(), 1u);
  EXPECT_EQ(sample.readings[0].name, "kernel_time");
  EXPECT_DOUBLE_EQ(sample.readings[0].value, 5);
  EXPECT_EQ(sample.launched.size(), 2u);
  EXPECT_DOUBLE_EQ(sample.span_us, 16);
  EXPECT_EQ(sample.foreign, 0);
  EXPECT_EQ(sample.lost, "");
}

TEST(ReadActivity, WorkThatNoCallLaunchedIsForeign) {
  const Sample sample = read({activity({}, 1, 9), activity(1, 10, 14), activity({}, 15, 16),
                              activity(3, 20, 26), activity({}, 30, 31)});
  EXPECT_EQ(sample.foreign, 1);
  EXPECT_EQ(sample.lost, "");
}

/// Its records may be lost, or its work may be foreign: launched by another thread.
TEST(ReadActivity, ACallWithoutRecordsLeavesNoReadings) {
  Sample sample = read({activity(0, 1, 9), activity(3, 20, 26)});
  EXPECT_TRUE(sample.readings.empty());
  EXPECT_TRUE(sample.launched.empty());
  EXPECT_EQ(sample.foreign, 0);
  EXPECT_EQ(sample.lost,
            "CUPTI recorded no work for 1 of 2 calls; a time that leaves them out is meaningless; "
            "run again");
  sample = read({activity(0, 1, 9), activity({}, 10, 14)});
  EXPECT_EQ(sample.foreign, 1);
  EXPECT_FALSE(sample.lost.empty());
}

}  // namespace
}  // namespace reprolab::profiling
